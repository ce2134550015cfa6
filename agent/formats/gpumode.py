"""GPU MODE: the problems of its leaderboards in (task.yml, reference.py and what it imports), submission.py out.

Format: README.md of gpu-mode/reference-kernels. Pure functions.
"""

import ast
import re
from collections.abc import Container, Iterable, Iterator, Mapping

import yaml

from ridgeline.agent.formats.problem import FormatError, Problem, Sizes, choose_sizes

SUBMISSION = "@SUBMISSION@"
RUNNER_FILES = ("eval.py", "task.yml", "submission.py")
REFERENCE, INPUTS, KERNEL = "ref_kernel", "generate_input", "custom_kernel"
SEED = "seed"
PYTHON_LANGUAGES = ("py",)


def list_files(text: str, *, file: str) -> dict[str, str]:
    """The files of a task.yml that are read here, by name: where each lies, relative to it. Raises FormatError."""
    fields = _read(text, file)
    if fields.get("lang", "py") not in PYTHON_LANGUAGES:
        raise FormatError(f"{file}: lang: is {fields['lang']}; only problems in Python can be read (lang: py)")
    entries = fields.get("files")
    if not isinstance(entries, list) or not all(isinstance(each, dict) and "name" in each for each in entries):
        raise FormatError(f"{file}: files: missing or no list of names and sources; see gpu-mode/reference-kernels")
    files = {str(each["name"]): str(each.get("source", each["name"])) for each in entries}
    files = {name: source for name, source in files.items() if source != SUBMISSION and name not in RUNNER_FILES}
    if "reference.py" not in files:
        raise FormatError(f"{file}: files: has no reference.py; the problem's reference must be named so")
    return {name: source for name, source in files.items() if name.endswith(".py")}


def read_problem(text: str, sources: Mapping[str, str], *, name: str, file: str) -> Problem:
    """The problem of a task.yml and the texts of its files, by the names that `list_files` gives. Raises FormatError."""
    fields = _read(text, file)
    timed = [*_read_cases(fields, "benchmarks", file)]
    tests = [*_read_cases(fields, "tests", file)]
    if not timed and not tests:
        raise FormatError(f"{file}: benchmarks: missing; give sizes, as {{size: 1024, seed: 1}}")
    plain = _constants((timed or tests)[0])
    alike = [case for case in timed if _constants(case) == plain]
    tested = [case for case in tests if _constants(case) == plain]
    left = len(timed) + len(tests) - len(alike) - len(tested)
    notes = [f"{left} cases with other values than {plain} are left out"] if left else []
    numbers = [*_list_numbers((alike or tested)[0])]
    sizes, note = choose_sizes((*_group(alike or tested, numbers, timed=True), *_group(tested, numbers, timed=False)))
    sizes = tuple(sorted(_drop_repeated(sizes), key=lambda each: max(each.numbers.values(), default=0)))
    notes += [note] if note else []
    combined = _combine(sources, file)
    return Problem(
        format="gpumode",
        name=name,
        text=_write_source(combined, sizes[0].numbers, plain),
        file=file,
        entry=REFERENCE,
        knobs=tuple(numbers),
        sizes=sizes,
        notes=tuple(notes),
    )


def _read(text: str, file: str) -> dict[str, object]:
    try:
        fields = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a scalar that has no value, such as 2026-13-01
        raise FormatError(f"{file}: is not YAML ({' '.join(str(error).split())}); correct it") from None
    except RecursionError:
        raise FormatError(f"{file}: is nested too deep; correct it") from None
    if not isinstance(fields, dict):
        raise FormatError(f"{file}: holds no fields; see gpu-mode/reference-kernels for a task.yml")
    return fields


def _read_cases(fields: Mapping[str, object], key: str, file: str) -> Iterator[dict[str, object]]:
    cases = fields.get(key) or []
    if not isinstance(cases, list) or not all(isinstance(case, dict) for case in cases):
        raise FormatError(f"{file}: {key}: is no list of cases, as {{size: 1024, seed: 1}}")
    yield from cases


def _is_number(name: str, value: object) -> bool:
    """Whether a value of a GPU MODE case is a size: a whole number, and no seed."""
    return type(value) is int and value > 0 and name != SEED


def _list_numbers(case: Mapping[str, object]) -> Iterator[str]:
    yield from (name for name, value in case.items() if _is_number(name, value))


def _constants(case: Mapping[str, object]) -> dict[str, object]:
    """What in a GPU MODE case is no size: words, switches and numbers that no extent can be. A seed is one for all."""
    return {name: value for name, value in case.items() if not _is_number(name, value) and name != SEED}


def _group(cases: Iterable[Mapping[str, object]], numbers: list[str], *, timed: bool) -> Iterator[Sizes]:
    for case in cases:
        sizes = {name: value for name in numbers if type(value := case.get(name)) is int}
        label = "_".join(f"{name}{value}" for name, value in sizes.items()) or "given"
        yield Sizes(label=re.sub(r"[^A-Za-z0-9._-]", "_", label), numbers=sizes, timed=timed)


def _drop_repeated(sizes: Iterable[Sizes]) -> list[Sizes]:
    """Each size of a GPU MODE problem once, timed where one of them is."""
    once: dict[str, Sizes] = {}
    for each in sizes:
        if each.label not in once or each.timed:
            once[each.label] = each
    return [*once.values()]


def _combine(sources: Mapping[str, str], file: str) -> str:
    """All files of a GPU MODE problem in one, what others import first, without the imports between them; on any device."""
    local = {name.removesuffix(".py") for name in sources}
    order = sorted(sources, key=lambda name: (name == "reference.py", name == "task.py"))
    texts: list[str] = []
    for name in order:
        try:
            texts.append(f"# {name}\n\n{mend(sources[name], local)}")
        except SyntaxError as error:
            raise FormatError(f"{file}: {name}: line {error.lineno}: {error.msg}; correct it") from None
    text = "\n\n".join(texts)
    defined = {node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
    for function in (REFERENCE, INPUTS):
        if function not in defined:
            raise FormatError(f"{file}: reference.py: defines no {function}(); problems of GPU MODE have one")
    return text


def mend(text: str, local: Container[str], *, any_device: bool = True) -> str:
    """A GPU MODE problem's file without imports of `local` modules; `any_device`: with the name DEVICE in place of a card's."""
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line.encode()))
    data = text.encode()

    def place(line: int | None, column: int | None) -> int:
        return starts[(line or 1) - 1] + (column or 0)

    changes: list[tuple[int, int, str]] = []
    for node in ast.walk(ast.parse(text)):
        begin, end = (
            (place(node.lineno, node.col_offset), place(node.end_lineno, node.end_col_offset))
            if isinstance(node, ast.stmt | ast.expr)
            else (0, 0)
        )
        match node:
            case ast.ImportFrom(module=str(module)) if module in local:
                changes.append((begin, end, "pass"))
            case ast.Constant(value=str(word)) if any_device and re.fullmatch(r"cuda(:\d+)?", word):
                changes.append((begin, end, "DEVICE"))
            case ast.Call(func=ast.Attribute(attr="cuda", value=value), args=[]) if any_device and not _is_torch(value):
                changes.append((place(value.end_lineno, value.end_col_offset), end, ".to(DEVICE)"))
    for begin, end, word in sorted(changes, reverse=True):
        data = data[:begin] + word.encode() + data[end:]
    return data.decode()


def _is_torch(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "torch"


def _write_source(combined: str, numbers: Mapping[str, int], plain: Mapping[str, object]) -> str:
    """The GPU MODE problem as a file of PyTorch with get_inputs()."""
    needs_device = "DEVICE" in _list_reached_names(combined, REFERENCE)
    words = [f"{name}={name}" for name in numbers] + [f"{name}={value!r}" for name, value in plain.items()]
    arguments = [*words, *([f"{SEED}=0"] if _takes_seed(combined) else [])]
    lines = ['DEVICE = "cpu"', "", "", combined.rstrip(), "", ""]
    lines += ["# Added by `ridgeline init`: one size, and inputs as the problem makes them."]
    lines += [f"{name} = {number}" for name, number in numbers.items()]
    lines += ["", "", "def get_inputs():", f"    return [{INPUTS}({', '.join(arguments)})]"]
    if needs_device:
        lines += ["", "", "def _device_of(value):", '    """Where the first tensor of a value lies."""']
        lines += ["    while not hasattr(value, 'device'):"]
        lines += ["        value = next(iter(value.values() if isinstance(value, dict) else value))"]
        lines += ["    return value.device", "", "", f"_{REFERENCE} = {REFERENCE}", "", ""]
        lines += [f"def {REFERENCE}(data):", "    global DEVICE", "    DEVICE = _device_of(data)"]
        lines += [f"    return _{REFERENCE}(data)"]
    return "\n".join(lines) + "\n"


def _definitions(text: str) -> dict[str, ast.stmt]:
    """Functions and classes of a GPU MODE reference file by name; of several the last."""
    return {node.name: node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def _list_reached_names(text: str, entry: str) -> set[str]:
    """Names that a function of a GPU MODE reference file uses, itself or through what it calls in the file."""
    definitions, reached, open_names = _definitions(text), set[str](), [entry]
    while open_names:
        if (function := definitions.get(open_names.pop())) is None:
            continue
        names = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
        open_names += names - reached
        reached |= names
    return reached


def _takes_seed(text: str) -> bool:
    function = _definitions(text).get(INPUTS)
    return isinstance(function, ast.FunctionDef) and SEED in {argument.arg for argument in function.args.args}
