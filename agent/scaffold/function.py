"""From a function's name to a contract that runs: find it, propose shapes, write test and benchmark, try them."""

import itertools
import math
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType

from ridgeline.agent.contract_file import FILE_NAME
from ridgeline.agent.errors import UserError
from ridgeline.agent.scaffold import interpreted, native, types
from ridgeline.agent.scaffold.contract import removing_unfinished
from ridgeline.agent.scaffold.native import Plan, ShapePlan, class_of, fill_strides, list_files, name_row
from ridgeline.agent.scaffold.signature import (
    ITEM_BYTES,
    LANGUAGES,
    SMALL,
    STRIDE,
    CallSite,
    Parameter,
    Signature,
    list_methods,
    python_calls,
    read_constants,
    read_signature,
    split_line,
)
from ridgeline.graph.values import Value
from ridgeline.knowledge.definitions import list_functions
from ridgeline.sandbox.isolation.process import run

MAX_BYTES = 4_000_000
GIT_S = 60.0
LINEAR = (256, 4096, 65536)
PLANE = ((64, 48), (320, 240), (1280, 720))
VOLUME = ((16, 24, 32), (64, 64, 64), (96, 160, 128))
MOST_ELEMENTS = 1 << 22
"""Of all sizes of a shape multiplied: more would take the memory, and a campaign's hours."""
ODD = (1, 7, 33, 255)
"""Sizes that are tested and not timed: one, and some that no vector divides."""
PADDED = ((13, 1), (37, 3))
"""Sizes that are tested with longer rows, and by how much each stride is longer than the one before it."""
PADDING = 16
"""The same of a timed shape's rows: elements that keep to whatever alignment its own rows have."""
BACKENDS = {
    "c": "C",
    "c++": "C",
    "cuda": "CUDA",
    "hip": "HIP",
    "python": "PYTHON",
    "torch": "TRITON",
    "triton": "TRITON",
}
INTERPRETED = frozenset({"python", "torch", "triton"})
DTYPES = {"F32": "fp32", "F64": "fp64", "I8": "int8", "U8": "int8"}
Ask = Callable[[str, str], str]
"""A question and the answer that stands if nothing else is typed -> what a person answers."""


class WrittenTask(Value):
    """What was written, and how it went."""

    contract: Path
    folder: Path
    """Of the harness."""
    signature: Signature
    shapes: tuple[ShapePlan, ...]
    notes: tuple[str, ...]
    gaps: tuple[str, ...]
    """What could not be understood, one line each."""
    problem: str
    """Why it does not run yet; empty where it does."""
    untracked: tuple[str, ...] = ()
    """What a build reads and git does not have, from the root: a checkout lacks it."""


def write(
    path: Path,
    name: str,
    *,
    shapes: Sequence[str] = (),
    values: Sequence[str] = (),
    reference: Path | None = None,
    ask: Ask | None = None,
) -> WrittenTask:
    """Write a harness and a contract for the function `name` of a file, or of a file below a folder.

    `shapes` and `values` as flags have them: `n=64,m=3`, `alpha=0.5`, `index=0:100`. Raises `UserError`.
    """
    if not path.exists():
        raise UserError(f"{path}: no such file or folder; give the function's file, or the folder of its project")
    root = find_root(path)
    file = _find_definition(path, name)
    text = file.read_text(encoding="utf-8", errors="replace")
    signature = read_signature(file.resolve(), text, name, calls=[*_find_calls(root, file, name)])
    if signature is None:
        raise UserError(f"--function: {file} does not define {name}; correct the name or the file")
    settings = _parse_values(values, signature)
    if named := _name_sizes(shapes) | {name for name, _ in signature.unsized if settings.get(name, "").isdigit()}:
        calls = [*_find_calls(root, file, name)]
        signature = read_signature(file.resolve(), text, name, calls=calls, sizes=named) or signature
    _require_sizes(signature, settings)
    if reference is not None:
        return _write_task(signature, reference, shapes)
    folder = f"ridgeline_{signature.slug}"
    contract = _free_contract(root, signature.slug)
    if (root / folder).exists():
        raise UserError(f"{root / folder}: exists already; edit it, or move it away first")
    plan, notes = _plan(signature, root, folder, settings)
    fixed = _fix_sizes(settings, plan.signature)
    chosen, whence = _choose_shapes(plan.signature, shapes, ask, fixed)
    chosen = _with_padded(chosen, plan.signature, fixed)
    plan, notes = plan.model_copy(update={"shapes": chosen}), (*notes, *whence)
    is_interpreted = signature.language in INTERPRETED
    with removing_unfinished(root / folder):
        trial = interpreted.try_out(plan, interpreted.find_python(root)) if is_interpreted else native.try_out(plan)
        contract.write_text(_contract(trial.plan), encoding="utf-8")
    return WrittenTask(
        contract=contract,
        folder=trial.plan.home,
        signature=trial.plan.signature,
        shapes=trial.plan.shapes,
        notes=(*signature.notes, *notes, *trial.notes),
        gaps=trial.plan.signature.gaps,
        problem=trial.problem,
        untracked=() if is_interpreted else native.find_untracked(trial.plan),
    )


# Where the function is, and who calls it.


def find_root(path: Path) -> Path:
    """Where `init --function` writes: the repository around a path, else the folder: the contract names files below itself."""
    folder = path if path.is_dir() else path.parent
    git = run(("git", "rev-parse", "--show-toplevel"), cwd=folder, timeout_s=GIT_S)
    return Path(git.output.strip()) if git.ok else folder.resolve()


def _source_files(root: Path) -> Iterator[Path]:
    for path in list_files(root, tuple(LANGUAGES)):
        if path.stat().st_size <= MAX_BYTES:
            yield path


def _name_like(path: Path, name: str) -> str:
    """How a name of a function that no file defines is mended: the nearest one that is defined."""
    known = list_functions({str(file): _text(file) for file in _source_files(path)})
    close = get_close_matches(name, sorted(known), n=1)
    return f"did you mean {close[0]!r}?" if close else "correct the name"


def _find_definition(path: Path, name: str) -> Path:
    """The file that defines the function to scaffold. Raises `UserError` where none or several do."""
    if path.is_file():
        if path.suffix.lower() not in LANGUAGES:
            raise UserError(f"{path}: is no C, C++, CUDA, HIP or Python source; give the file that defines {name}")
        return path
    bare = _bare(name)
    # a definition, or a macro around it: reading a whole file takes a while, and callers may be many
    word = re.compile(rf"\b{re.escape(bare)}\s*\([^;{{}}]*\)[^;{{}}()]*(?:\([^()]*\)[^;{{}}()]*)*[{{:]")
    homes = [file for file in _source_files(path) if word.search(text := _text(file)) and _defines(file, text, name)]
    if not homes:
        methods = [
            f"--function {method} ({os.path.relpath(file, path)})"
            for file in _source_files(path)
            if file.suffix == ".py" and bare in (text := _text(file))
            for method in list_methods(text, bare)
        ]
        mend = f"a method is named with its class: {', '.join(methods[:4])}" if methods else _name_like(path, bare)
        raise UserError(f"--function: no C, C++, CUDA, HIP or Python file in {path} defines {name}; {mend}")
    plain = [file for file in homes if not re.search(r"test|bench|example", file.as_posix().removeprefix(str(path)))]
    if len(plain or homes) > 1:
        listed = ", ".join(str(file) for file in (plain or homes)[:4])
        raise UserError(f"--function: {name} is defined in {listed}; give the file instead of the folder")
    return (plain or homes)[0]


def _defines(file: Path, text: str, name: str) -> bool:
    try:
        return read_signature(file, text, name) is not None
    except UserError:
        return True


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace")


def _bare(name: str) -> str:
    """A function's own name, without namespace, template arguments and line."""
    return re.split(r"::|\.", split_line(name)[0].partition("<")[0])[-1].strip()


def _find_calls(root: Path, home: Path, name: str) -> Iterator[CallSite]:
    """Calls of the scaffolded function in the project."""
    bare = _bare(name)
    call = re.compile(rf"\b{re.escape(bare)}\s*(?:<[^;{{}}<>]*>)?\(([^;{{}}]*?)\)\s*[;,)+\-*/]")
    python = home.suffix == ".py"
    for file in _source_files(root):
        if (file.suffix == ".py") == python and bare in (text := _text(file)):
            place = os.path.relpath(file, root)
            if python:
                yield from python_calls(text, bare, place)
                continue
            constants = read_constants(text)
            for match in call.finditer(text):
                line = text.count("\n", 0, match.start()) + 1
                yield CallSite(arguments=match[1], place=f"{place}:{line}", constants=constants)


# Shapes and values.


def _fix_sizes(settings: Mapping[str, str], signature: Signature) -> dict[str, int]:
    """Sizes that `init --value` gives once for all shapes. Raises `UserError`."""
    fixed = {name: value for name, value in settings.items() if name in signature.sizes}
    for name, value in fixed.items():
        if not value.isdigit():
            raise UserError(f"--value: {name}={value}: {name} is a size of {signature.name}; give a number")
    return {name: int(value) for name, value in fixed.items()}


def _name_sizes(shapes: Sequence[str]) -> set[str]:
    """The names that `init --shape` gives numbers to."""
    return {part.partition("=")[0].strip() for text in shapes for part in text.split(",")}


def _require_sizes(signature: Signature, settings: Mapping[str, str]) -> None:
    """Raises `UserError` where the places in an array hang on numbers that nobody gave: 1 would time next to nothing."""
    unsized = [(name, array) for name, array in signature.unsized if name not in settings]
    if not unsized:
        return
    names = ", ".join(name for name, _ in unsized)
    arrays = ", ".join(dict.fromkeys(array for _, array in unsized))
    example = ",".join(f"{name}=64" for name in (*signature.sizes, *(name for name, _ in unsized)))
    raise UserError(
        f"--function: {signature.name}: not understood: {names}: places in {arrays} are computed with them, and no caller"
        f" says their numbers; as sizes: --shape {example} (repeatable), or as one number: "
        + " ".join(f"--value {name}=64" for name, _ in unsized)
    )


def _parse_sizes(text: str, signature: Signature, fixed: Mapping[str, int] = MappingProxyType({})) -> dict[str, int]:
    """`n=64,m=3` of `init --shape` as numbers, beside those that are `fixed`. Raises `UserError`."""
    if not signature.sizes:
        raise UserError(f"--shape: {text!r}: {signature.name} has no sizes; leave --shape out")
    sizes = {**dict.fromkeys(signature.flags, 1), **fixed}
    for part in text.split(","):
        size, _, number = part.partition("=")
        least = 0 if size.strip() in signature.flags else 1
        if size.strip() in signature.sizes and not (number.strip().isdecimal() and int(number) >= least):
            raise UserError(
                f"--shape: {part!r}: {number.strip()!r} is no whole number from {least} on; write {size.strip()}=64"
            )
        if size.strip() not in signature.sizes:
            example = ",".join(f"{size}=64" for size in signature.sizes)
            why = _explain_fieldless(size.strip(), signature) or f"write for example {example}, of integer arguments"
            raise UserError(f"--shape: {part!r} is no size of {signature.name}; {why}")
        sizes[size.strip()] = int(number)
    filled = fill_strides(sizes, signature)
    if missing := [size for size in signature.sizes if size not in filled]:
        raise UserError(f"--shape: {text!r} lacks {', '.join(missing)}; give all of {', '.join(signature.sizes)}")
    return filled


def _explain_fieldless(size: str, signature: Signature) -> str:
    """Of a size that is named like a field of a struct that init cannot make: why it is none, and which sizes there are."""
    made_by_hand = {gap.partition(":")[0]: gap for gap in signature.gaps}
    struct = next((name for name in made_by_hand if size.startswith(f"{name}_")), "")
    if not struct:
        return ""
    return (
        f"{made_by_hand[struct].replace(':', '', 1)}: its fields are no sizes, as you make {struct} by hand at the marked place;"
        f" the sizes are {', '.join(signature.sizes)}: write {','.join(f'{name}=64' for name in signature.sizes)}"
    )


def _parse_values(values: Sequence[str], signature: Signature) -> dict[str, str]:
    names = {parameter.name for parameter in signature.parameters}
    settings: dict[str, str] = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not equals or name not in names or not value:
            raise UserError(f"--value: {text!r} sets no parameter of {signature.name}; write NAME=VALUE, or NAME=LOW:HIGH "
                            f"for an array, with one of {', '.join(sorted(names))}")  # fmt: skip
        _check_value(name, value, signature)
        settings[name] = value
    return settings


def _check_value(name: str, value: str, signature: Signature) -> None:
    """Raises `UserError` for a range that is none, or of a parameter that is one number."""
    low, colon, high = value.partition(":")
    if not colon:
        return
    if name not in {array.name for array in signature.arrays}:
        raise UserError(f"--value: {name}={value}: {name} is one number; write {name}={low or 1}")
    try:
        is_range = float(low) < float(high)
    except ValueError:
        is_range = False
    if not is_range:
        raise UserError(f"--value: {name}={value}: is no range; write {name}=LOW:HIGH, with LOW below HIGH")


def _choose_shapes(
    signature: Signature,
    shapes: Sequence[str],
    ask: Ask | None,
    fixed: Mapping[str, int] = MappingProxyType({}),
) -> tuple[tuple[ShapePlan, ...], tuple[str, ...]]:
    """Shapes for a harness: asked for, else proposals, which a person at a terminal may change; where they come from."""
    if shapes:
        wanted = _as_plans([_parse_sizes(text, signature, fixed) for text in shapes], signature)
        unnamed = tuple(_say_unnamed(shapes, signature, fixed))
        return _with_flags_off(_with_odd(wanted, signature, fixed), signature, fixed), unnamed
    proposals, whence = _propose(signature, fixed)
    proposals = _with_flags_off(proposals, signature, fixed)
    if ask is None:
        return proposals, whence
    timed = [shape for shape in proposals if shape.timed]
    usual = " ".join(",".join(f"{name}={size}" for name, size in shape.sizes.items()) for shape in timed)
    listed = "; ".join(whence)
    answer = ask(f"Shapes of {signature.name} to time ({listed})", usual).split()
    if answer == usual.split():
        return proposals, ()
    replacing = _as_plans([_parse_sizes(text, signature, fixed) for text in answer], signature)
    unnamed = tuple(_say_unnamed(answer, signature, fixed))
    return _with_flags_off(_with_odd(replacing, signature, fixed), signature, fixed), unnamed


def _say_unnamed(shapes: Sequence[str], signature: Signature, fixed: Mapping[str, int]) -> Iterator[str]:
    """A note on the strides that `init --shape` does not give in each of its shapes, and what they are timed as."""
    named = [_name_sizes([text]) for text in shapes] or [set[str]()]
    unnamed = [
        name
        for name in signature.sizes
        if STRIDE.fullmatch(name) and name not in {*fixed, *signature.flags} and not all(name in each for each in named)
    ]
    if unnamed:
        row = " * ".join(name_row(name for name in signature.sizes if name not in unnamed)) or "1"
        them = "them" if len(unnamed) > 1 else "it"
        yield f"{', '.join(unnamed)}: not named in --shape, timed as {row}; name {them} there to time others"


def _with_flags_off(
    plans: tuple[ShapePlan, ...], signature: Signature, fixed: Mapping[str, int]
) -> tuple[ShapePlan, ...]:
    """Shapes for a harness, and for each flag not set by hand the first and the last of them with the flag off, tested."""
    labels = {shape.label for shape in plans}
    off = _as_plans(
        [{**shape.sizes, flag: 0} for flag in signature.flags if flag not in fixed for shape in (plans[0], plans[-1])],
        signature,
    )
    return (*plans, *(shape.model_copy(update={"timed": False}) for shape in off if shape.label not in labels))


def _with_odd(timed: tuple[ShapePlan, ...], signature: Signature, fixed: Mapping[str, int]) -> tuple[ShapePlan, ...]:
    """Timed shapes of a harness, and odd ones that are tested only: each free size an odd one, or the first shape's where less."""
    if signature.language in INTERPRETED or not signature.sizes:
        return timed
    fixed = {**dict.fromkeys(signature.flags, 1), **fixed}
    sizes_alone = [name for name in signature.sizes if name not in signature.flags]
    free = [name for name in sizes_alone if not STRIDE.fullmatch(name)] or sizes_alone
    first_shape, labels = timed[0].sizes, {shape.label for shape in timed}
    small = [
        fill_strides({**{name: min(size, first_shape[name]) for name in free}, **fixed}, signature) for size in ODD
    ]
    odd = _as_plans(
        [{name: sizes[name] for name in signature.sizes} for sizes in small if {*signature.sizes} <= {*sizes}],
        signature,
    )
    return (*timed, *(shape.model_copy(update={"timed": False}) for shape in odd if shape.label not in labels))


def _with_padded(
    shapes: tuple[ShapePlan, ...], signature: Signature, fixed: Mapping[str, int]
) -> tuple[ShapePlan, ...]:
    """Shapes for a harness, and some, tested only, whose strides differ from each other and from all sizes: a version that
    ignores one is wrong there."""
    flags = {*signature.flags}
    strides = [name for name in signature.sizes if STRIDE.fullmatch(name) and name not in {*fixed, *flags}]
    named = [name for name in signature.sizes if not STRIDE.fullmatch(name) or name in flags]
    if signature.language in INTERPRETED or not strides or not named:
        return shapes
    base = min((shape.sizes for shape in shapes if shape.timed), key=lambda sizes: math.prod(sizes.values()))
    free = [name for name in named if name not in {*fixed, *flags} and name.lower() not in SMALL]
    listed = [(dict(base), PADDING)]
    for size, more in PADDED:
        sizes, taken = dict(base), set[int]()
        for place, name in enumerate(free):
            below = min(size + 4 * place, base[name])
            sizes[name] = next((each for each in range(below, 0, -1) if each not in taken), below)
            taken.add(sizes[name])
        usual, wanted = (fill_strides({name: each[name] for name in each if name in named}, signature)
                         for each in (base, sizes))  # fmt: skip
        sizes |= {name: math.ceil(wanted[name] * base[name] / max(1, usual[name])) for name in strides}
        listed.append((sizes, more))
    padded = _as_plans([_pad_strides(sizes, strides, more) for sizes, more in listed], signature)
    labels = {shape.label for shape in shapes}
    return (*shapes, *(shape.model_copy(update={"timed": False}) for shape in padded if shape.label not in labels))


def _pad_strides(sizes: Mapping[str, int], strides: Sequence[str], more: int) -> dict[str, int]:
    """Sizes of a harness's call with each stride longer, by a multiple of `more` that makes it no other size."""
    padded = dict(sizes)
    for place, name in enumerate(strides, 1):
        taken = {size for other, size in padded.items() if other not in strides[place - 1 :]}
        padded[name] = next(size for size in itertools.count(sizes[name] + place * more, more) if size not in taken)
    return padded


def _as_plans(listed: Sequence[Mapping[str, int]], signature: Signature) -> tuple[ShapePlan, ...]:
    timed = tuple(
        ShapePlan(label=_label(sizes, signature), sizes=sizes, config_class=class_of(sizes, signature))
        for sizes in listed
    )
    return tuple({shape.label: shape for shape in timed}.values())


def _label(sizes: Mapping[str, int], signature: Signature) -> str:
    free = [(name, sizes[name]) for name in signature.sizes if not STRIDE.fullmatch(name)]
    usual = fill_strides({name: size for name, size in sizes.items() if not STRIDE.fullmatch(name)}, signature)
    other = [(name, sizes[name]) for name in signature.sizes if sizes[name] != usual[name]]
    return "_".join(f"{name}{size}" for name, size in ([*free, *other] if free else list(sizes.items())))


MOST_CALLED = 3
"""Shapes of callers that are timed, the largest ones."""
FEWEST_CALLED = 64
"""Elements of a call that is worth a measurement; smaller ones, as tests make them, are no shape to time."""


def _find_called_shapes(signature: Signature) -> tuple[tuple[ShapePlan, ...], tuple[str, ...]]:
    """Shapes that the project's callers pass to the function to scaffold, and where."""
    worth = {
        tuple(shape.sizes.items()): shape.place
        for shape in reversed(signature.called)
        if FEWEST_CALLED <= math.prod(shape.sizes.values()) <= MOST_ELEMENTS
    }
    largest = sorted(worth, key=lambda sizes: math.prod(size for _, size in sizes))[-MOST_CALLED:]
    plans = _as_plans([dict(sizes) for sizes in largest], signature)
    return plans, tuple(f"{plan.label}: {worth[tuple(plan.sizes.items())]} calls it so" for plan in plans)


def _propose(
    signature: Signature, given: Mapping[str, int] = MappingProxyType({})
) -> tuple[tuple[ShapePlan, ...], tuple[str, ...]]:
    """Shapes proposed for a harness: what callers pass, else several classes of sizes, and odd ones that are tested only; with origin."""
    called, whence = _find_called_shapes(signature)
    if signature.language in INTERPRETED:
        labels = {shape.label for shape in called}
        usual = tuple(shape for shape in interpreted.default_shapes(signature.sizes) if shape.label not in labels)
        theirs = tuple(shape.model_copy(update={"config_class": "called"}) for shape in called)
        return (*theirs, *usual), (*whence, _say_chosen(usual))
    if not signature.sizes:
        return (ShapePlan(label="only", sizes={}),), ()
    flags = dict.fromkeys(signature.flags, 1)
    fixed = {name: SMALL[name.lower()] for name in signature.sizes if name.lower() in SMALL} | flags | dict(given)
    free = [name for name in signature.sizes if name not in fixed and not STRIDE.fullmatch(name)] or [
        name for name in signature.sizes if name not in flags
    ]
    fixed = {name: size for name, size in fixed.items() if name not in free}
    is_row = not any(STRIDE.fullmatch(name) for name in free)
    tables: Sequence[Sequence[int]] = {1: [(size,) for size in LINEAR], 2: PLANE, 3: VOLUME}.get(
        len(free), [(size,) * len(free) for size in (4, 8, 16) if size ** len(free) <= MOST_ELEMENTS]
    )
    planes = [array.extents for array in signature.arrays]
    if len(free) == 4 and {*planes} == {tuple(free[:2]), tuple(free[2:])}:  # two images: other sizes for each of them
        tables = [(*here, *there) for here, there in zip(PLANE, (*PLANE[1:], PLANE[0]), strict=True)]
    timed = [fill_strides({**dict(zip(free, row, strict=True)), **fixed}, signature) for row in tables]
    small = [
        fill_strides({**dict.fromkeys(free, size), **fixed}, signature)
        for size in ODD
        if size ** len(free) <= MOST_ELEMENTS
    ]
    plans = _as_plans([{name: sizes[name] for name in signature.sizes} for sizes in timed], signature)
    odd = _as_plans([{name: sizes[name] for name in signature.sizes} for sizes in small], signature)
    classes = {shape.config_class for shape in called}
    plans = (*called, *(shape for shape in plans if shape.config_class not in classes))
    labels = {shape.label for shape in plans}
    chosen = [shape for shape in plans if shape not in called]
    tested = tuple(shape.model_copy(update={"timed": False}) for shape in odd if shape.label not in labels)
    unnamed = _say_unnamed((), signature, fixed) if chosen and is_row else ()
    return (*plans, *tested), (*whence, *([_say_chosen(chosen)] if chosen else []), *unnamed)


def _say_chosen(shapes: Sequence[ShapePlan]) -> str:
    """A note that nobody in the project calls the function with the chosen shapes."""
    listed = ", ".join(shape.label for shape in shapes if shape.timed)
    return f"{listed}: chosen here, no caller in the project has them; yours: --shape"


def _plan(signature: Signature, root: Path, folder: str, values: Mapping[str, str]) -> tuple[Plan, tuple[str, ...]]:
    """The plan of a function's harness without shapes, and what to say about compiler and values."""
    if signature.language in INTERPRETED:
        mixes = interpreted.default_mixes(signature.parameters)
        return Plan(signature=signature, root=root, folder=folder, shapes=(), mixes=mixes, values=values,
                    compiler="", flags=()), ()  # fmt: skip
    compiler, flags, note = native.find_flags(root, signature.file, signature.language)
    included = native.follow_includes(root, signature.file)
    plan = types.resolve_types(
        Plan(signature=signature, root=root, folder=folder, shapes=(), mixes=(), values=values,
             compiler=compiler, flags=flags,
             entry=included.entry, around=included.files if included.entry else ())
    )  # fmt: skip
    floats = {"F32", "F64"} & {plan.signature.result_kind, *(array.kind for array in plan.signature.arrays)}
    mixes = native.MIXES if floats else native.MIXES[:3]
    lettered = [array for array in plan.signature.arrays if native.is_lettered(array, values)]
    mixes = (*mixes, "LETTERS") if lettered else mixes
    return plan.model_copy(update={"mixes": mixes}), (note, *_say_scalars(plan), *map(_say_letters, lettered))


def _say_letters(array: Parameter) -> str:
    """A note on a written harness: which characters are drawn for an array, since the function asks about them."""
    ranges = [f"{ends[0]!r} to {ends[1]!r}" for ends in array.ranges]
    listed = ", ".join((*ranges, *map(repr, array.letters)))
    return f"{array.name}: tests draw any byte, and {listed}, which it is compared with; others: problem.h"


def _say_scalars(plan: Plan) -> Iterator[str]:
    """A note on a written harness: which plain values stand in every call, of those that nobody gave."""
    for scalar in plan.signature.parameters:
        if scalar.role == "scalar" and scalar.kind and scalar.name not in plan.values:
            value = scalar.literal or ("0.5" if scalar.kind in ("F32", "F64") else "1")
            whose = (
                "assumed"
                if not scalar.literal
                else scalar.literal_from
                if scalar.literal_from == "its default"
                else f"as a caller has it ({scalar.literal_from})"
            )
            yield f"{scalar.name} is {value}, {whose}; another: --value {scalar.name}={value}"


# The contract.


def _free_contract(root: Path, slug: str) -> Path:
    """Where `init` writes the contract: `ridgeline.yaml`, or a file beside it where another function has that one."""
    usual, special = root / FILE_NAME, root / f"ridgeline_{slug}.yaml"
    if not usual.exists():
        return usual
    if special.exists():
        raise UserError(f"{special}: exists already; edit it, or move it away first")
    return special


def _contract(plan: Plan) -> str:
    signature = plan.signature
    is_interpreted = signature.language in INTERPRETED
    backend = BACKENDS[signature.language]
    if is_interpreted:
        python = interpreted.find_python(plan.root)
        test, bench = (f"{python} -P -B {plan.folder}/{name}.py" for name in ("test", "bench"))
        rebuild = "{required: false}"
    else:
        test, bench = f"{plan.folder}/build/test", f"{plan.folder}/build/bench"
        rebuild = f"{{required: true, command: make -s -f {plan.folder}/Makefile all}}"
    kinds = [array.kind for array in signature.arrays]
    timed = [shape.label for shape in plan.shapes if shape.timed]
    columns = ", ".join(("label", *signature.sizes, "class", "Check", "Time (ms)"))
    on_processor = backend in ("C", "PYTHON")
    return f"""\
# {signature.name} of {os.path.relpath(signature.file, plan.root)}, written by `ridgeline init --function`.
# Shapes, arrays and values stand in {plan.folder}/problem.{"py" if is_interpreted else "h"}.
target_op: {signature.slug}
target_backend: {backend}
target_gpu: {"cpu" if on_processor else "null        # the product or architecture, for example H100 or gfx942"}
dtype: {next((DTYPES[kind] for kind in kinds if kind in DTYPES), "fp32")}
kernel_source: [{os.path.relpath(signature.file, plan.root)}]
{_name_function(signature)}protected: ["{plan.folder}/**"]
test_command: {test}
benchmark_command: {bench} --csv {{csv}}
quick_command: {bench} --csv {{csv}} --shapes {{shapes}}
paired_command: {bench} --pair {{a}} {{b}} --csv {{csv}} --shapes {{shapes}} --blocks {{blocks}} --seed {{seed}}
benchmark_output:
  columns: [{columns}]
  config_columns: [class]
scoring:
  primary_metric: Time (ms)
  higher_is_better: false
  time_ms: Time (ms)
  engine: {"wall" if on_processor else "event"}
execution_mode: repo
rebuild: {rebuild}
correctness: {{kind: exit, exit_patterns: [MISMATCH]}}
profile: {{command: {bench} --profile {timed[-1] if timed else "all"}{_name_profiled(signature)}}}
timeouts: {{test_s: 300, benchmark_s: 300}}
# work: {{flops: "...", bytes: "{_least_bytes(signature)}"}}   # of one call, over the columns: how near the ceiling it is
"""


def _name_function(signature: Signature) -> str:
    """The line of a written contract that says which function is timed; none where the files do not tell it by name."""
    text = signature.file.read_text(encoding="utf-8", errors="replace")
    bare = _bare(signature.name)
    return f"function: {bare}\n" if bare in list_functions({signature.file.name: text}) else ""


def _name_profiled(signature: Signature) -> str:
    """For a written contract, inside of which function a profiler counts: on a processor the harness's own call."""
    if signature.language in ("c", "c++"):
        return ", kernel: ridgeline_call"
    return "" if signature.language == "python" else f", kernel: {signature.slug}"


def _least_bytes(signature: Signature) -> str:
    """For a written contract: what one call moves if it touches each element once."""
    terms = [
        "*".join((str(ITEM_BYTES.get(array.kind, 1)), *(extent for extent in array.extents if extent != "1")))
        for array in signature.arrays
    ]
    return " + ".join(terms) or "..."


# A task instead, where the judge can do all of it.

DTYPE_NAMES = {"F32": "float32", "F64": "float64", "I8": "int8", "U8": "uint8", "I16": "int16", "I32": "int32",
               "I64": "int64"}  # fmt: skip


def find_unjudgeable(signature: Signature) -> str:
    """Why the judge cannot call a function by a task, or nothing."""
    if signature.language != "c":
        return f"{signature.language} by this way; see `ridgeline init PATH --from-pytorch FILE`"
    if signature.static or signature.result != "void":
        return "it is static" if signature.static else f"it returns {signature.result}, and a task's outputs are arrays"
    for parameter in signature.parameters:
        if parameter.role in ("unread", "scalar", "struct"):
            return f"{parameter.name} is a {parameter.type}, neither an array nor a size"
        if parameter.is_array and (parameter.kind not in DTYPE_NAMES or parameter.text):
            return f"{parameter.name} is a {parameter.type}, which tasks do not know"
    if re.search(r'^\s*#\s*include\s*"', _text(signature.file), re.MULTILINE):
        return "its file includes headers of the project, which a task's candidate does not get"
    return ""


def _write_task(signature: Signature, reference: Path, shapes: Sequence[str]) -> WrittenTask:
    """A `task.yaml` beside the function's file. Raises `UserError` where the judge cannot call it."""
    if why := find_unjudgeable(signature):
        raise UserError(f"--reference: {signature.name} cannot be judged by a task: {why}; leave --reference out")
    if not reference.is_file():
        raise UserError(f"--reference: {reference}: no such file; give Python with `reference(inputs...)`")
    folder = signature.file.parent
    for name in ("task.yaml", FILE_NAME):
        if (folder / name).exists():
            raise UserError(f"{folder / name}: exists already; edit it, or move it away first")
    if reference.resolve().parent != folder:
        shutil.copy(reference, folder / reference.name)
    plans, _ = _choose_shapes(signature, shapes, None)
    (folder / "task.yaml").write_text(_task(signature, reference.name, plans), encoding="utf-8")
    (folder / FILE_NAME).write_text(_task_contract(signature, reference.name), encoding="utf-8")
    from ridgeline.sandbox.judge.task_file import load_task

    load_task(folder / "task.yaml")
    return WrittenTask(contract=folder / FILE_NAME, folder=folder, signature=signature, shapes=plans,
                   notes=("task.yaml: Ridgeline owns test and benchmark; try it with `ridgeline judge test task.yaml`",),
                   gaps=(), problem="")  # fmt: skip


def _task(signature: Signature, reference: str, shapes: Sequence[ShapePlan]) -> str:
    def row(name: str, extents: Sequence[str], kind: str, rest: str) -> str:
        return f"- {{name: {name}, shape: [{', '.join(extents)}], dtype: {DTYPE_NAMES[kind]}{rest}}}"

    def rest(kind: str, role: str) -> str:
        range_text = "" if kind in ("F32", "F64") else ", values: integers, low: 0, high: 100"
        return range_text + (", constness: mutated" if role == "inout" else "")

    inputs = [
        row(array.name, array.extents, array.kind, rest(array.kind, array.role))
        for array in signature.arrays
        if array.role != "output"
    ]
    outputs = [row(array.name, array.extents, array.kind, "") for array in signature.arrays if array.role == "output"]
    rows = [
        f"- {{label: {shape.label}, dims: {{{', '.join(f'{name}: {size}' for name, size in shape.sizes.items())}}}, "
        f"config_class: {shape.config_class}{'' if shape.timed else ', timed: false'}}}"
        for shape in shapes
    ]
    lines = [
        f"# {signature.name}, written by `ridgeline init --function`. Sound? `ridgeline judge lint task.yaml`.",
        "task: 1",
        f"name: {signature.slug}",
        "language: c",
        f"source: [{signature.file.name}]",
        f"entry: {signature.name}",
        f"reference: {reference}",
        f"arguments: [{', '.join(parameter.name for parameter in signature.parameters)}]",
        "inputs:",
        *inputs,
        *(["outputs:", *outputs] if outputs else []),
        "shapes:",
        *rows,
        "library: forbidden",
        "build: {flags: [-O2]}",
    ]
    return "\n".join(lines) + "\n"


def _task_contract(signature: Signature, reference: str) -> str:
    judge = "ridgeline judge"
    return f"""\
# The harness is Ridgeline's own: see task.yaml.
target_op: {signature.slug}
target_backend: C
target_gpu: cpu
kernel_source: [{signature.file.name}]
protected: [task.yaml, {reference}]
test_command: {judge} test task.yaml
benchmark_command: {judge} bench task.yaml --csv {{csv}}
quick_command: {judge} bench task.yaml --csv {{csv}} --shapes {{shapes}}
paired_command: {judge} pair task.yaml {{a}} {{b}} --csv {{csv}} --shapes {{shapes}} --blocks {{blocks}} --seed {{seed}}
benchmark_output:
  columns: [{", ".join(("label", *signature.sizes, "class", "Check", "Time (ms)"))}]
  config_columns: [class]
scoring: {{primary_metric: Time (ms), higher_is_better: false, time_ms: Time (ms)}}
execution_mode: repo
rebuild: {{required: false}}
timeouts: {{test_s: 600, benchmark_s: 600}}
"""
