"""Runs in a process of its own beside a kernel file: executes that file and writes the IR of one kernel per target.

Arguments: a request (JSON) and where to write the answer (JSON). Needs the standard library and Triton, and torch
when a call is imitated. What the file does in this process reaches nothing but that answer.
"""

import importlib.util
import json
import re
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

TWO_GIB = 2**31
"""Triton gives AMD kernels buffer instructions for tensors up to here (is_within_2gb of its AMD backend)."""
TENSOR = re.compile(r"(\w+)\[([\d,\s]*)\]")
TYPE_NAMES = {"bfloat16": "bf16", "bool": "i1", "float8_e4m3fn": "fp8e4nv", "float8_e5m2": "fp8e5"}
SHORT = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64", "i1": "bool"}
UNUSED = frozenset({"grid", "warmup"})


class Refused(Exception):
    """The request cannot be met; the text is for the person who made it.

    `several`: kernels, one had to be named. `launched`: those of a call that launches none of the name that was asked for.
    """

    def __init__(
        self, field: str, text: str, several: list[str] | None = None, launched: list[str] | None = None
    ) -> None:
        super().__init__(text)
        self.field = field
        self.several = several or []
        self.launched = launched or []


def main() -> None:
    """In the process that lowers Triton: answer `{"kernels": {target: ...}}` or `{"refused": {...}}`; else a traceback and exit code 1."""
    request = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    try:
        answer = answer_request(request)
    except Refused as refused:
        answer = {
            "refused": {
                "field": refused.field,
                "text": str(refused),
                "several": refused.several,
                "launched": refused.launched,
            }
        }
    Path(sys.argv[2]).write_text(json.dumps(answer), encoding="utf-8")


def answer_request(request: dict[str, Any]) -> dict[str, Any]:
    """In the process that lowers Triton: the IR of the kernel, for each target."""
    try:
        triton = import_module("triton")
    except ImportError as error:
        raise Refused("triton", f"{sys.executable} cannot import triton ({error})") from None
    module = load_module(Path(request["file"]))
    launch = imitate_call(module, request) if request["call"] else read_launch(module, request)
    kernel = launch["kernel"]
    lowered, refused = lower_targets(launch, request["targets"])
    return {
        "triton": triton.__version__,
        "kernel": kernel.fn.__name__,
        "options": launch["options"],
        "signature": launch["words"],
        "notes": launch["notes"],
        "lowered": lowered,
        "refused_targets": refused,
    }


def lower_targets(launch: dict[str, Any], targets: dict[str, dict[str, Any]]) -> tuple[dict[str, str], dict[str, str]]:
    """In the process that lowers Triton: the IR for each target, and why others have none; raises where no target has any."""
    failures = (
        import_module("triton.compiler.errors").CompilationError,
        *(RuntimeError, ValueError, TypeError, AssertionError, AttributeError, LookupError),
    )
    lowered: dict[str, str] = {}
    refused: dict[str, str] = {}
    for name, target in targets.items():
        try:
            lowered[name] = lower(launch, target)
        except failures as error:
            if len(refused) + 1 == len(targets):
                raise
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            refused[name] = lines[-1] if lines else type(error).__name__
    return lowered, refused


def load_module(path: Path) -> ModuleType:
    """In the process that lowers Triton: the kernel's file as a module, with its own folder to import from."""
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise Refused("FILE", f"{path.name} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def choose_kernel(module: ModuleType, name: str | None) -> Any:
    """In the process that lowers Triton: the kernel of that name, or the only one."""
    kernels = {key: kernel for key, value in vars(module).items() if (kernel := unwrap(value)) is not None}
    if name is None and len(kernels) == 1:
        return next(iter(kernels.values()))
    if name in kernels:
        return kernels[name]
    listed = ", ".join(kernels) or "none"
    what = f"no Triton kernel {name!r}" if name else "the file has not exactly one Triton kernel"
    raise Refused("--kernel", f"{what}; those of the file: {listed}", [] if name else list(kernels))


def unwrap(value: Any) -> Any:
    """In the process that lowers Triton: the jitted function inside autotuners and heuristics; None for everything else."""
    jit = import_module("triton.runtime.jit")
    while value is not None and not isinstance(value, jit.JITFunction):
        value = getattr(value, "fn", None) if isinstance(value, jit.KernelInterface) else None
    return value


def read_launch(module: ModuleType, request: dict[str, Any]) -> dict[str, Any]:
    """In the process that lowers Triton: a launch as the request spells it: types of what is passed, values of constants."""
    kernel = choose_kernel(module, request["kernel"])
    constants = read_constants(module, kernel, request)
    defaults = {p.name: p.default for p in kernel.params if p.is_constexpr and p.has_default}
    constants = {**defaults, **constants}
    free = [name for name in kernel.arg_names if name not in constants]
    if missing := [p.name for p in kernel.params if p.is_constexpr and p.name not in constants]:
        raise Refused("--constants", f"a value for {', '.join(missing)} is missing; for example {missing[0]}=128")
    words = request["signature"]
    if len(words) != len(free):
        raise Refused("--signature", f"{len(words)} types for {len(free)} parameters ({', '.join(free)})")
    types: dict[str, str] = {}
    marks: dict[str, str] = {}
    for name, word in zip(free, words, strict=True):
        kind, _, mark = word.partition(":")
        types[name] = kind
        marks[name] = "DS" if kind.startswith("*") else "D" if mark == "16" else ""
        if mark == "1":
            constants[name] = 1
    return launch_of(kernel, types, marks, constants, request["options"])


def read_constants(module: ModuleType, kernel: Any, request: dict[str, Any]) -> dict[str, Any]:
    """In the process that lowers Triton: values of `--constants` by the parameter that each is for."""
    constants = {name: constant(module, value) for name, value in request["constants"].items()}
    if strange := [name for name in constants if name not in kernel.arg_names]:
        raise Refused(
            "--constants", f"{kernel.fn.__name__} has no parameter {strange[0]!r}; it has {parameter_list(kernel)}"
        )
    return constants


def imitate_call(module: ModuleType, request: dict[str, Any]) -> dict[str, Any]:
    """In the process that lowers Triton: the kernel's first launch when the file's own function gets tensors without memory."""
    requested = choose_kernel(module, request["kernel"]) if request["kernel"] else None
    launches: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []

    def run(self: Any, *args: Any, **kwargs: Any) -> None:
        launches.append((self, args, kwargs))

    import_module("triton.runtime.jit").JITFunction.run = run
    notes = first_configurations()
    name = request["call"]["name"]
    function = getattr(module, name, None)
    if not callable(function):
        raise Refused("--call", f"the file has no function {name!r}")
    arguments = [argument(word) for word in request["call"]["arguments"]]
    why = ""
    try:
        function(*arguments)
    except RuntimeError as error:
        if "meta" not in str(error):
            raise
        why = " before it reads values of a tensor, which --call has not; give --signature and --constants instead"
    matches = [launch for launch in launches if requested is None or launch[0] is requested]
    launched = list(dict.fromkeys(launch[0].fn.__name__ for launch in launches))
    if not matches:
        what = f"{name} launches no Triton kernel{' of that name' if requested else ''}{why}"
        raise Refused("--call", what, launched=launched)
    kernel, args, kwargs = matches[0]
    kinds = {id(launch[0]) for launch in launches}
    if requested is None and len(kinds) > 1:
        raise Refused("--kernel", f"{name} launches several kernels ({', '.join(launched)}); name one", launched)
    replaced = read_constants(module, kernel, request)
    launch = as_launched(kernel, args, kwargs | replaced, request["options"])
    launch["notes"] = notes + [f"--constants in place of what the call passes: {', '.join(replaced)}"] * bool(replaced)
    return launch


def first_configurations() -> list[str]:
    """In the process that lowers Triton: autotuners choose by timing, which nothing here can; the first stands for all."""
    notes: list[str] = []

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        configuration = self.configs[0]
        notes.append(f"autotuned: the first of {len(self.configs)} configurations is compiled ({configuration})")
        return self.fn.run(*args, **{**kwargs, **configuration.all_kwargs()})

    tuners = [import_module("triton.runtime.autotuner").Autotuner]
    while tuners:  # libraries derive their own, which time as well
        tuner = tuners.pop()
        tuner.run = run
        tuners.extend(tuner.__subclasses__())
    return notes


def as_launched(
    kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any], extra_options: dict[str, Any]
) -> dict[str, Any]:
    """In the process that lowers Triton: types, constants and the specialization that the runtime would derive from arguments."""
    values = {p.name: p.default for p in kernel.params if p.has_default}
    values |= dict(zip(kernel.arg_names, args, strict=False))
    values |= {name: value for name, value in kwargs.items() if name in kernel.arg_names}
    options = {k: v for k, v in kwargs.items() if k not in kernel.arg_names and k not in UNUSED and plain(v)}
    types: dict[str, str] = {}
    marks: dict[str, str] = {}
    constants: dict[str, Any] = {}
    for parameter in kernel.params:
        name, value = parameter.name, values.get(parameter.name)
        if parameter.is_constexpr or value is None:
            constants[name] = value
            continue
        types[name], marks[name] = type_of(name, value)
        if parameter.do_not_specialize:
            marks[name] = ""
        elif marks[name] == "1":
            constants[name], marks[name] = 1, ""
    return launch_of(kernel, types, marks, constants, {**options, **extra_options})


def plain(value: Any) -> bool:
    return isinstance(value, int | float | str | bool)


def type_of(name: str, value: Any) -> tuple[str, str]:
    """In the process that lowers Triton: its word for an argument's type, and what is known of the value: D: 16 divides it, S: < 2 GiB."""
    if isinstance(value, bool):
        return "u1", ""
    if isinstance(value, int):
        kind = "i32" if -(2**31) <= value < 2**31 else "i64"
        return kind, "1" if value == 1 else "D" if value % 16 == 0 else ""
    if isinstance(value, float):
        return "fp32", ""
    if hasattr(value, "data_ptr") and hasattr(value, "dtype"):
        size = value.numel() * value.element_size()
        return f"*{word_of(str(value.dtype).removeprefix('torch.'))}", "DS" if size < TWO_GIB else "D"
    if type(value).__name__ == "TensorDescriptor" and not hasattr(value, "layout"):
        return f"tensordesc<{word_of(str(value.base.dtype).removeprefix('torch.'))}{list(value.block_shape)}>", ""
    raise Refused("--call", f"{name} is a {type(value).__name__}; give --signature and --constants instead")


def word_of(dtype: str) -> str:
    if dtype in TYPE_NAMES:
        return TYPE_NAMES[dtype]
    return dtype.replace("float", "fp").replace("uint", "u").replace("int", "i")


def launch_of(
    kernel: Any, types: dict[str, str], marks: dict[str, str], constants: dict[str, Any], options: dict[str, Any]
) -> dict[str, Any]:
    """In the process that lowers Triton: everything that compiling a kernel's launch needs."""
    words = [f"{n}={constants[n]}" if n in constants else f"{n}:{types[n]}" for n in kernel.arg_names]
    return {
        "kernel": kernel,
        "types": {name: "constexpr" if name in constants else types[name] for name in kernel.arg_names},
        "marks": marks,
        "constants": {(kernel.arg_names.index(name),): value for name, value in constants.items()},
        "options": options,
        "words": ", ".join(words),
        "notes": [],
    }


def lower(launch: dict[str, Any], specification: dict[str, Any]) -> str:
    """In the process that lowers Triton: the kernel in its own IR, after the passes of that stage."""
    ir, compiler = import_module("triton._C.libtriton").ir, import_module("triton.compiler")
    kernel = launch["kernel"]
    words = specification["backend"], specification["arch"], specification["warp_size"]
    target = import_module("triton.backends.compiler").GPUTarget(*words)
    backend = compiler.make_backend(target)
    marked = {(kernel.arg_names.index(n),): backend.parse_attr(m) for n, m in launch["marks"].items() if m}
    source = compiler.ASTSource(kernel, launch["types"], launch["constants"], marked)
    options = backend.parse_options({**launch["options"], **source.parse_options()})
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    functions, modules = backend.get_codegen_implementation(options), backend.get_module_map()
    stages: dict[str, Any] = {}
    backend.add_stages(stages, options, source.language)
    module = source.make_ir(target, options, functions, modules, context)
    return str(stages["ttir"](module, {}))


def constant(module: ModuleType, text: str) -> Any:
    """In the process that lowers Triton: a constant's value: a number, a truth value, None, the name of something in the file, or text."""
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return getattr(module, text, text)


def argument(word: str) -> Any:
    """In the process that lowers Triton: an argument of an imitated call: `fp16[4096,4096]` is a tensor without memory."""
    matched = TENSOR.fullmatch(word)
    if len(word) > 1 and word[0] == word[-1] and word[0] in "'\"":
        return word[1:-1]
    if matched is None:
        return constant(ModuleType("nothing"), word)
    torch = import_module("torch")
    name = SHORT.get(matched[1], re.sub(r"^i(?=\d)", "int", matched[1]))
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise Refused("--call", f"{matched[1]} is no type of torch; for example fp16[4096,4096]")
    sizes = tuple(int(size) for size in matched[2].split(",") if size.strip())
    return torch.empty(sizes, dtype=dtype, device="meta")


def parameter_list(kernel: Any) -> str:
    return ", ".join(kernel.arg_names)


if __name__ == "__main__":
    main()
