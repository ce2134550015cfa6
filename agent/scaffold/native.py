"""The harness of a function in C, C++, CUDA or HIP: its files as text, and trying them on the original."""

import json
import math
import os
import re
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import pairwise
from pathlib import Path

from ridgeline.agent.contract_file import MARK
from ridgeline.agent.errors import UserError
from ridgeline.agent.scaffold.signature import ITEM_BYTES, QUALIFIERS, STRIDE, Parameter, Signature
from ridgeline.graph.values import Value
from ridgeline.sandbox.isolation.process import run

TEMPLATES = Path(__file__).parent / "harness"
BUILD_S, TEST_S = 120.0, 300.0
CLASSES = ((1 << 15, "small"), (1 << 20, "medium"))
"""Configuration classes by the bytes of all arrays: what fits a first cache, what fits a second, what does not."""
COMPILERS: Mapping[str, tuple[str, ...]] = {
    "c": ("cc", "gcc", "clang"), "c++": ("c++", "g++", "clang++"), "cuda": ("nvcc",), "hip": ("hipcc",),
}  # fmt: skip
UNITS = {"c": "unit.c", "c++": "unit.cpp", "cuda": "unit.cu", "hip": "unit.hip"}
EXPORTS = "exports.map"
OWN_IGNORE = "# whatever the project ignores elsewhere: a checkout needs these files\n!*\nbuild/\n"
ONLY_NEEDED = ("-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections")
"""What the function does not call is left out of its library, and with it what that would have to be linked with."""
HEADERS = (".h", ".hh", ".hpp", ".hxx", ".cuh", ".inc", ".inl", ".def")
FILES = ("harness.h", "test.c", "bench.c", "Makefile", EXPORTS)
SLOWEST_US = 20_000.0
"""A call that takes longer makes a round slow without making it more certain: such a shape is only tested."""
MIXES = ("ORDINARY", "ZEROS", "EXTREMES", "NOT_A_NUMBER", "INFINITE", "SUBNORMAL")
MIX_NAMES = {
    **dict(zip(("ordinary", "zeros", "extremes", "nan", "infinity", "subnormal"), MIXES, strict=True)),
    "letters": "LETTERS", "bytes": "BYTES",
}  # fmt: skip
KEPT_FLAGS = re.compile(r"-(?:D|U|I|std=|f|m|O|W|g|isystem|include|iquote|x)")
SKIPPED = frozenset({"build", "dist", "node_modules", "venv", "__pycache__", "site-packages"})
MOST_INCLUDED = 400
"""Headers that are followed to the folders they need."""
MOST_LISTED = 64_000_000
"""Bytes of a project's list of files."""
SLACKS = (1, 2, 4, 8)
"""How many times longer the arrays are made, one after the other, while the original touches what lies beyond them."""
GROWN, EARLY_US = 16, 0.2
"""How much larger the largest timed shape must be before as short a call is doubtful, and what a clock read takes."""
UNDEFINED = re.compile(r"undefined (?:reference to|symbol:?) [`'\"]?(\w+)")


class ShapePlan(Value):
    """Sizes of one call."""

    label: str
    sizes: Mapping[str, int]
    timed: bool = True
    config_class: str = "all"


class Field(Value):
    """Numbers of one kind that lie together in a struct."""

    offset: int
    """In bytes."""
    kind: str
    count: int = 1


class Plan(Value):
    """Everything that the files say."""

    signature: Signature
    root: Path
    """The contract's folder."""
    folder: str
    """Of the harness, below it."""
    shapes: tuple[ShapePlan, ...]
    mixes: tuple[str, ...]
    values: Mapping[str, str] = {}
    """Plain values, and ranges `low:high` of arrays, that the user gave."""
    compiler: str
    flags: tuple[str, ...]
    entry: str = ""
    """A header that the source includes and that includes it again, from the root: what is compiled instead."""
    around: tuple[str, ...] = ()
    """Where there is an `entry`: all headers of the project that it needs. The original is a copy of them all, as it
    would otherwise include the version under test."""
    extra: tuple[str, ...] = ()
    """Other sources that the function needs to be linked, from the contract's folder."""
    slack: int = 1
    """Every array has so many times the elements that its sizes say: the original reads further."""
    edges: bool = True
    """Whether arrays lie against pages that fault."""
    exact: bool = False
    """Whether the original was also built in double."""
    letters_timed: bool = False
    """Whether arrays of characters are timed with those that the original asks about; else with any byte."""
    item_bytes: Mapping[str, int] = {}
    """Bytes of one element of arrays of structs."""
    fields: Mapping[str, tuple[Field, ...]] = {}
    """What structs hold, by array, of those whose definition was read."""

    @property
    def home(self) -> Path:
        return self.root / self.folder

    @property
    def source(self) -> str:
        """What a C harness compiles: the function's file, from the harness."""
        return os.path.relpath(self.root / self.entry if self.entry else self.signature.file, self.home)

    def copy_name(self, name: str) -> str:
        """Where a copy of what is compiled stands: `original` or `exact`, from the harness."""
        return f"{name}/{self.entry}" if self.entry else f"{name}{self.signature.file.suffix}"


def write_files(plan: Plan) -> None:
    """Write the harness of a C, C++, CUDA or HIP function, over what an earlier try wrote."""
    signature, home = plan.signature, plan.home
    home.mkdir(parents=True, exist_ok=True)
    copies = {name: _read(plan.root / name) for name in plan.around} or {"": _read(signature.file)}
    originals, exact = (
        {f"{name}/{path}" if path else plan.copy_name(name): text for path, text in copies.items()}
        for name in ("original", "exact")
    )
    texts = {
        **{name: _read_template(name) for name in FILES},
        UNITS[signature.language]: _read_template("unit.c"),
        **originals,
        "problem.h": _problem(plan),
        "call.h": _call(plan),
        "flags.mk": _flags(plan),
        ".gitignore": OWN_IGNORE,
    }
    if signature.language in ("cuda", "hip"):
        texts["device.h"] = _read_template("device.h")
    if plan.exact:
        texts |= {name: widen(text) for name, text in exact.items()} | {"exact_call.h": widen(_call(plan))}
    for name, text in texts.items():
        file, data = home / name, text.encode(errors="surrogateescape")
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.is_file() or file.read_bytes() != data:  # what stays as it was is not compiled again
            file.write_bytes(data)


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="surrogateescape")


def _read_template(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")


def _problem(plan: Plan) -> str:
    """Shapes, arrays and tolerance of the generated harness, as C source."""
    signature = plan.signature
    functions, layouts, rows, structs = [], [], [], []
    listed = [*signature.arrays, *_result_array(signature)]
    for array in listed:
        functions.append(_elements(array, plan))
        rows.append(f'    {{"{array.name}", {_kind(array)}, {array.role.upper()}, {_values(array, plan)}, '
                    f"elements_{array.name}, {_bytes(array, plan)}{_letters(array, plan)}{_inner(array, plan)}}},")  # fmt: skip
        if not array.kind:
            structs.append(array)
        if not array.kind and array.name in plan.fields:
            fields = ", ".join(f"{{{item.offset}, {item.kind}, {item.count}}}" for item in plan.fields[array.name])
            layouts.append(f"static UNUSED const Field FIELDS_{array.name}[] = {{{fields}}}; /* {array.type} */")
    names = ", ".join(f'"{size}"' for size in signature.sizes)
    shapes = [
        f'    {{"{shape.label}", "{shape.config_class}", {int(shape.timed)}, '
        f"{{{', '.join(str(shape.sizes[size]) for size in signature.sizes)}}}}},"
        for shape in plan.shapes
    ]
    sizes = [f"#define SIZE_{size} sizes[{place}]" for place, size in enumerate(signature.sizes)]
    return "\n".join(
        [
            f"/* What {signature.name} takes: its sizes, its arrays, their values. Written by `ridgeline init`; yours to edit. */",
            "",
            f"#define SIZE_COUNT {len(signature.sizes)}",
            f"static UNUSED const char *const SIZE_NAMES[] = {{{names}}};",
            *sizes,
            "",
            "/* How many elements each array has. */",
            *functions,
            "",
            *(["/* What lies in a struct: offset in bytes, kind, how many. */", *layouts, ""] if layouts else []),
            "/* {name, kind, role, values, low, high, elements, bytes of one, letters of ranges, others}: values are ANY, RANGE",
            " * from low to below high, TEXT (letters, then a zero), or OWN, which fill_own() makes. Of structs: what lies in one. */",
            "static UNUSED const Array ARRAYS[] = {",
            *rows,
            "};",
            "",
            "/* {label, class, timed?, {sizes}}: a class is a set of shapes that take the same path; what is not timed is tested. */",
            "static UNUSED const Shape SHAPES[] = {",
            *shapes,
            "};",
            "",
            "/* Kinds of values that the test tries; those that end the original are left out. */",
            f"static UNUSED const Mix MIXES[] = {{{', '.join(plan.mixes)}}};",
            f"#define LETTERS_TIMED {int(plan.letters_timed)} /* 1: the characters of ranges are timed; 0: any byte */",
            f"#define EDGES {int(plan.edges)} /* 1: arrays also lie against pages that fault */",
            "#define TOLERANCE 1e-5 /* of a number and of its array, where there is no build in double to say better */"
            if any(array.kind == "F32" for array in listed)
            else "#define TOLERANCE 1e-12 /* of a number and of its array */",
            "",
            _fill_own(structs, plan),
        ]
    )


def _fill_own(structs: Sequence[Parameter], plan: Plan) -> str:
    """In the generated C: values of structs: of each field what its kind says, or a marked place."""
    lines = [
        "static UNUSED void fill_own(const Array *array, char *data, const int64_t *sizes, Mix mix, uint64_t *rng) {"
    ]
    for array in structs:
        if array.name in plan.fields:
            lines += [
                f'    if (strcmp(array->name, "{array.name}") == 0) {{',
                "        fill_fields(array, data, sizes, mix, rng);",
                "        return;",
                "    }",
            ]
    lines += [
        f"    /* {MARK}: {array.name}: values of its structs, new ones in every call */"
        for array in structs
        if array.name not in plan.fields
    ]
    lines += [
        "    (void)mix;",
        "    (void)rng;",
        "    memset(data, 0, (size_t)array->elements(sizes) * array->bytes);",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _result_array(signature: Signature) -> Iterator[Parameter]:
    """In the generated C: what the function returns, as an array of one."""
    if signature.result_kind and "*" not in signature.result:
        yield Parameter(name="result", type=signature.result, kind=signature.result_kind, role="output", extents=("1",))


def _elements(array: Parameter, plan: Plan) -> str:
    product = _elements_of(array, plan, "")
    product += " + 1" if array.text else ""
    mark = (
        ""
        if array.kind or array.name in plan.fields
        else f" /* {MARK}: {array.name}: how many {array.type} there are */"
    )
    unused = "" if "sizes" in product or "SIZE_" in product else "(void)sizes; "
    return f"static int64_t elements_{array.name}(const int64_t *sizes) {{ {unused}return {product}; }}{mark}"


def _elements_of(array: Parameter, plan: Plan, sizes: str) -> str:
    """In the generated C: how many elements, of the names of problem.h, or of the array `sizes` that a call gets."""
    names = plan.signature.sizes
    factors = [
        extent if extent not in names else f"{sizes}[{names.index(extent)}]" if sizes else f"SIZE_{extent}"
        for extent in array.extents
    ]
    product = " * ".join(factors) or "1"
    return product + (f" * {plan.slack}" if plan.slack > 1 and array.extents != ("1",) else "")


def _kind(array: Parameter) -> str:
    return array.kind or "RAW"


def _bytes(array: Parameter, plan: Plan) -> int:
    return ITEM_BYTES[array.kind] if array.kind else plan.item_bytes.get(array.name, 1)


def _values(array: Parameter, plan: Plan) -> str:
    """The range of an array's values for the generated harness, low and high."""
    low, _, high = plan.values.get(array.name, "").partition(":")
    if high:
        return f"RANGE, {float(low)!r}, {float(high)!r}"
    if array.is_index:
        return f"RANGE, 0, {float(_fewest_elements(plan))!r}"
    return "TEXT, 0, 0" if array.text else "ANY, 0, 0" if array.kind else "OWN, 0, 0"


def is_lettered(array: Parameter, values: Mapping[str, str]) -> bool:
    """Whether a harness's tests draw the characters that the original compares elements of an array with."""
    return array.kind in ("I8", "U8") and bool(array.ranges or array.letters) and array.name not in values


def _letters(array: Parameter, plan: Plan) -> str:
    """In the generated C: the characters of an array's ranges, and others."""
    if not is_lettered(array, plan.values):
        return ", NULL, NULL"
    ranged = dict.fromkeys(code for ends in array.ranges for code in range(max(1, ord(ends[0])), ord(ends[1]) + 1))
    return "".join(f", {_quote(codes)}" for codes in (ranged, map(ord, array.letters)))


def _inner(array: Parameter, plan: Plan) -> str:
    """In the generated C: how elements of an array belong together: as the numbers of a struct, or as fields of it."""
    if not array.kind and array.name in plan.fields:
        return f", 0, FIELDS_{array.name}, COUNT(FIELDS_{array.name})"
    last = array.extents[-1] if len(array.extents) > 1 else ""
    return f", {last if last.isdigit() else 0}, NULL, 0"


def _quote(codes: Iterable[int]) -> str:
    """In the generated C: characters as a string; NULL for none."""
    plain = set(range(32, 127)) - {*map(ord, '"\\?')}
    text = "".join(chr(code) if code in plain else f"\\{code:03o}" for code in codes)
    return f'"{text}"' if text else "NULL"


def _fewest_elements(plan: Plan) -> int:
    """In the generated C: elements of the shortest array in any timed shape: a place that each of them has."""
    counts = [
        math.prod(shape.sizes.get(extent, 1) for extent in array.extents)
        for shape in plan.shapes
        if shape.timed
        for array in plan.signature.arrays
        if array.extents != ("1",)  # no place in it is asked for
    ]
    return max(1, min(counts, default=1))


def _call(plan: Plan) -> str:
    """The generated harness's one call of the function with its arrays."""
    signature = plan.signature
    lines = [f"/* How {signature.name} is called. Written by `ridgeline init`; yours to edit. */"]
    device = signature.language in ("cuda", "hip")
    lines += ["#include <stdint.h>", *(['#include "device.h"'] if device else []), ""]
    linkage = "" if signature.language == "c" else 'extern "C" '
    export = f'{linkage}__attribute__((visibility("default"))) void'
    arguments = [_argument(parameter, plan) for parameter in signature.parameters if not parameter.member]
    lines += [line for parameter in signature.parameters for line in _stand_in(parameter, plan)]
    gaps = [gap for gap in signature.gaps if gap.startswith("global ")]
    marks = [f"    /* {MARK}: {gap}: set it up here, the same in every build */" for gap in gaps]
    integer = "long long" if device else "int64_t"
    launch = f"<<<{_launch(plan)}>>>" if signature.kernel else ""
    call = f"{signature.name}{launch}({', '.join(arguments)})"
    place = len(signature.arrays)
    if signature.result_kind and "*" not in signature.result:
        call = f"*({signature.result} *)arrays[{place}] = {call}"
    lines += [
        f"{export} ridgeline_prepare(void) {{",
        *marks,
        "}",
        "",
        f"{export} ridgeline_call(void **arrays, const {integer} *sizes) {{",
        *([f"    /* {MARK}: launch: the grid and the block that callers of {signature.name} use */"]
          if signature.kernel else []),
        *(
            f"    /* {MARK}: {gap}: copy what it gives into an output array of problem.h, and free it */"
            for gap in signature.gaps
            if gap.startswith("result: ")
        ),
        "    (void)arrays;\n    (void)sizes;",
        *(
            f"    {_plain(parameter.type)} at_{parameter.name} = "
            f"({_plain(parameter.type)})sizes[{signature.sizes.index(parameter.name)}];"
            for parameter in signature.parameters
            if parameter.by_pointer
        ),
        *(line for parameter in signature.parameters if parameter.role == "struct" for line in _make_struct(parameter, plan)),
        f"    {call};",
        "}",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _make_struct(struct: Parameter, plan: Plan) -> Iterator[str]:
    """In the generated C: the struct of a call, with the fields that the function reads."""
    name = f"at_{struct.name}"
    spelled = re.sub(r"\*|\bconst\b", "", struct.type).strip()
    yield f"    {spelled} {name}{' = {0}' if plan.signature.language == 'c' else '{}'};"
    for item in plan.signature.parameters:
        if item.member_of == struct.name:
            yield f"    {name}.{item.member} = {_argument(item, plan)};"


def _launch(plan: Plan) -> str:
    """The generated launch of one thread for each element of the longest array, in blocks of 256."""
    sizes = plan.signature.sizes
    longest = max(plan.signature.arrays, key=lambda array: len(array.extents), default=None)
    names = longest.extents if longest else sizes
    product = " * ".join(f"sizes[{sizes.index(name)}]" if name in sizes else name for name in names) or "1"
    return f"(unsigned)(({product} + 255) / 256), 256"


def _argument(parameter: Parameter, plan: Plan) -> str:
    signature = plan.signature
    if parameter.by_value:
        return f"*({_plain(parameter.type)} *)arrays[{signature.arrays.index(parameter)}]"
    if parameter.is_array:
        return f"({parameter.type})arrays[{signature.arrays.index(parameter)}]"
    if parameter.end_of:
        base = next(array for array in signature.arrays if array.name == parameter.end_of)
        place = signature.arrays.index(base)
        return (
            f"({parameter.type})((char *)arrays[{place}] + {_elements_of(base, plan, 'sizes')} * {_bytes(base, plan)})"
        )
    if parameter.by_pointer or parameter.role == "struct":
        return f"&at_{parameter.name}" if parameter.by_pointer or "*" in parameter.type else f"at_{parameter.name}"
    if parameter.role == "size":
        return f"({_plain(parameter.type)})sizes[{signature.sizes.index(parameter.name)}]"
    if parameter.role == "scalar" and parameter.kind:
        return f"value_{parameter.name}"
    return f"FILL_{parameter.name}"


def _plain(spelled: str) -> str:
    return " ".join(word for word in spelled.split() if word not in QUALIFIERS - {"struct"})


def _stand_in(parameter: Parameter, plan: Plan) -> Iterator[str]:
    """A placeholder in the generated C for what no array stands for."""
    if parameter.is_array or parameter.role in ("size", "end", "struct"):
        return
    if parameter.role == "scalar" and parameter.kind:
        default = "0.5" if parameter.kind in ("F32", "F64") else "1"
        value = plan.values.get(parameter.name) or parameter.literal or default
        yield "/* volatile: a compiler that knew the value would make another function of it */"
        yield f"static volatile {_plain(parameter.type)} value_{parameter.name} = {value};"
        yield ""
        return
    nothing = "0" if plan.signature.language == "c" else "nullptr"
    value = "{0}" if plan.signature.language == "c" else "{}"
    value = value if parameter.role == "scalar" else nothing
    spelled = f"({parameter.type}){value}" if parameter.role == "scalar" else value
    made = "make one above, from arrays and sizes of the call" if parameter.role == "scalar" else "make one above"
    yield f"/* {MARK}: {parameter.name}: {parameter.type}: {made}, and name it here */"
    yield f"#define FILL_{parameter.name} {spelled}"
    yield ""


def _flags(plan: Plan) -> str:
    signature = plan.signature
    nvcc = signature.language == "cuda"
    beside = os.path.relpath(signature.file.parent, plan.root.resolve())
    pic = ["-shared", "-Xcompiler", "-fPIC"] if nvcc else ["-shared", "-fPIC", "-Wl,-Bsymbolic", *ONLY_NEEDED]
    if not nvcc:
        pic.append(f"-Wl,--version-script={plan.folder}/{EXPORTS}")
    if signature.language == "c++" and "clang" not in plan.compiler:
        pic.append("-fno-gnu-unique")
    lines = {
        "COMPILER": plan.compiler,
        "FLAGS": shlex.join(plan.flags),
        "PICFLAGS": " ".join(pic),
        "LINKED": "" if nvcc else "-lm",
        "BESIDE": _folders_beside(plan, "original", beside, nvcc),
        "BESIDE_EXACT": _folders_beside(plan, "exact", beside, nvcc),
        "UNIT": UNITS[signature.language],
        "SOURCE": plan.source,
        "ORIGINAL": plan.copy_name("original"),
        "EXACT": plan.copy_name("exact") if plan.exact else "",
        "EXTRA": " ".join(plan.extra),
    }
    head = (
        "# How the function is compiled: the project's own flags where they were found. Other sources it needs: EXTRA."
    )
    return "\n".join([head, *(f"{name} = {value}".rstrip() for name, value in lines.items())]) + "\n"


def _folders_beside(plan: Plan, name: str, beside: str, nvcc: bool) -> str:
    """For a C harness: where a copy finds what the function's file finds in its own folder."""
    quote = "-I" if nvcc else "-iquote"
    if not plan.entry:
        return f"{quote} {beside}"
    top = f"{plan.folder}/{name}"
    within = [flag.removeprefix("-I") for flag in plan.flags if flag.startswith("-I") and flag != "-I"]
    within += [flag for before, flag in pairwise(plan.flags) if before in ("-I", "-isystem")]
    listed = [top, *(f"{top}/{folder}" for folder in dict.fromkeys(within) if not folder.startswith(("/", "..")))]
    return " ".join((f"{quote} {top}/{beside}", *(f"-I {folder}" for folder in listed)))


FLOAT_CALLS = re.compile(
    r"\b(sqrt|exp|exp2|log|log2|log10|log1p|expm1|pow|sin|cos|tan|tanh|atan|atan2|fabs|fmax|fmin|floor|ceil|round|rint"
    r"|erf|fma|cbrt|hypot|trunc|fmod|ldexp|copysign)f\b"
)


def widen(text: str) -> str:
    """For a C harness, the same C with double for every float: what rounding did to the original can be told from it."""
    wide = re.sub(r"\bfloat\b", "double", text)
    wide = FLOAT_CALLS.sub(r"\1", wide)
    wide = re.sub(r"\bFLT_(MAX|MIN|EPSILON)\b", r"DBL_\1", wide)
    return re.sub(r"\b(\d+\.\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)[fF]\b", r"\1", wide)


# The project's compiler and flags.


def find_flags(root: Path, source: Path, language: str) -> tuple[str, tuple[str, ...], str]:
    """For a C harness: compiler, flags for a run in `root`, and a note where they come from. Raises `UserError` without a compiler."""
    compiler = next((name for name in COMPILERS[language] if shutil.which(name)), None)
    for database in (root / "compile_commands.json", *sorted(root.glob("*/compile_commands.json"))):
        words, whose = _database_words(database, source)
        if words:
            flags = tuple(_relative_flags(words, database.parent, root))
            program = Path(words[0]).name
            note = f"flags of {database.name}{whose}"
            if language in ("c", "c++") and not find_level(flags):  # nvcc and hipcc optimise without being asked
                flags = ("-O2", *flags)
                note += (
                    ", which have no -O: -O2 added, assert() stays on; configure the build as its users do"
                    " (cmake: -DCMAKE_BUILD_TYPE=Release) and run init again for the project's own level"
                )
            return (words[0] if shutil.which(words[0]) else compiler or program), flags, note
    if compiler is None and language in ("c", "c++"):
        raise UserError(f"--function: no compiler for {language} here; install {' or '.join(COMPILERS[language])}")
    include = sorted(follow_includes(root, source).folders)
    options = " ".join(flag for folder in include for flag in ("-I", folder))
    macro = _implementation_macro(source)
    defined = (f"-D{macro}",) if macro else ()
    flags = ("-O2", *defined, *(flag for folder in include for flag in ("-I", folder)))
    said = " ".join(filter(None, ("-O2", *defined, options)))
    note = f"no compile_commands.json: compiled with {said}"
    return compiler or COMPILERS[language][0], flags, note


def find_level(flags: Sequence[str]) -> str:
    """The option of a harness's compiler that says how far to optimise, the last of several; empty where none does."""
    return next((flag for flag in reversed(flags) if re.fullmatch(r"-O(?:\d|s|z|g|fast)?", flag)), "")


def find_unoptimized(command: Sequence[str], root: Path) -> str:
    """A line on the flags of a harness that this command makes without optimisation; empty for any other command."""
    for before, makefile in pairwise(command):
        file = (root / makefile).parent / "flags.mk"
        if before != "-f" or not file.is_file():
            continue
        flags = re.findall(r"^FLAGS[ \t]*=(.*)$", _read(file), re.MULTILINE)
        is_host = UNITS["cuda"] not in (text := _read(file)) and UNITS["hip"] not in text
        level = find_level(" ".join(flags).split())
        if flags and is_host and level in ("", "-O0"):
            return (
                f"{os.path.relpath(file, root)}: FLAGS have {level or 'no -O'}: what is timed is not optimised;"
                " write the level that its users build with, for example -O2"
            )
    return ""


def _database_words(database: Path, source: Path) -> tuple[list[str], str]:
    """For a C harness, words of the project's command that compiles a file, and, of a header, of which file; empty without.

    A header is compiled as a file that includes it by name, else as the first file.
    """
    try:
        entries = json.loads(database.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return [], ""
    files = {
        Path(entry.get("directory", "."), entry.get("file", "")): entry
        for entry in reversed(entries if isinstance(entries, list) else [])
    }
    exact = next((file for file in files if file.resolve() == source.resolve()), None)
    if exact is None and source.suffix in HEADERS and files:
        exact = next((file for file in reversed(files) if _mentions(file, source)), next(reversed(files)))
    if exact is None:
        return [], ""
    words: list[str] = files[exact].get("arguments") or shlex.split(files[exact].get("command", ""))
    whose = "" if exact.resolve() == source.resolve() else f" for {exact.name}"
    return [*words, "", files[exact].get("directory", ".")], whose


def _mentions(file: Path, header: Path) -> bool:
    """Whether a source of the scaffolded project includes a header by its name."""
    pattern = rf'^\s*#\s*include\s*["<](?:[^">]*/)?{re.escape(header.name)}[">]'
    return file.is_file() and re.search(pattern, _read(file), re.MULTILINE) is not None


def _relative_flags(words: Sequence[str], _: Path, root: Path) -> Iterator[str]:
    """Flags of a harness that say what the code means; the project's folders from its root, so that other checkouts have their own."""
    directory = Path(words[-1])
    listed = words[1:-2]
    after = ""
    for word in listed:
        if after:
            yield after
            yield _relative(word, directory, root)
            after = ""
        elif word in ("-I", "-isystem", "-include", "-iquote"):
            after = word
        elif word.startswith("-I"):
            yield f"-I{_relative(word[2:], directory, root)}"
        elif KEPT_FLAGS.match(word) and not word.startswith("-Werror"):
            yield word


def _relative(path: str, directory: Path, root: Path) -> str:
    absolute = (directory / path).resolve()
    return os.path.relpath(absolute, root) if absolute.is_relative_to(root) else str(absolute)


class Inclusions(Value):
    """What a source includes of its project, and what that includes in turn."""

    folders: frozenset[str]
    """From the root, of headers in other folders."""
    files: tuple[str, ...]
    """From the root, the source itself among them."""
    entry: str = ""
    """A header that includes the source again, from the root: what a user of such a library includes."""


def follow_includes(root: Path, source: Path) -> Inclusions:
    """Headers of the scaffolded project that the source includes, or a header of it does."""
    headers = list_files(root, HEADERS)
    root, source = root.resolve(), source.resolve()
    folders: set[str] = set()
    queue, seen = [source], dict[Path, None]()
    entry = ""
    while queue and len(seen) < MOST_INCLUDED:
        file = queue.pop()
        seen[file] = None
        text = file.read_text(encoding="utf-8", errors="replace")
        for sign, name in re.findall(r'^\s*#\s*include\s*(["<])([^">]+)[">]', text, re.MULTILINE):
            if sign == "<" and _is_of_system(name):
                continue
            header = (file.parent / name).resolve()
            if sign == "<" or not header.is_file():
                listed = [header for header in headers if header.as_posix().endswith(f"/{name}")]
                if not listed:
                    continue
                header = min(listed, key=lambda path: len(os.path.relpath(path, source.parent).split("/"))).resolve()
                folders.add(os.path.relpath(Path(str(header)[: -len(name)]), root))
            if header == source and file != source and file.is_relative_to(root):
                entry = entry or file.relative_to(root).as_posix()
            if header not in seen:
                queue.append(header)
    files = tuple(path.relative_to(root).as_posix() for path in seen if path.is_relative_to(root))
    return Inclusions(folders=frozenset(folders), files=files, entry=entry)


def _is_of_system(header: str) -> bool:
    """Whether a header is the machine's own: the scaffolded project that has one of that name has it for other machines."""
    return any(
        Path(folder, header).is_file()
        for folder in ("/usr/include", *map(str, Path("/usr/include").glob("*-linux-gnu")))
    )


def _implementation_macro(source: Path) -> str:
    """The macro that makes a library in one header define its functions; empty where there is none."""
    if source.suffix not in (".h", ".hpp"):
        return ""
    text = source.read_text(encoding="utf-8", errors="replace")
    match = re.search(r"^\s*#\s*(?:ifdef\s+|if\s+defined\s*\(?\s*)(\w+_IMPLEMENTATION)\b", text, re.MULTILINE)
    return match[1] if match else ""


# Trying the files on the original.


class Trial(Value):
    """What came of building and surveying the harness."""

    plan: Plan
    notes: tuple[str, ...] = ()
    problem: str = ""
    """Why the harness does not run yet; empty where it does."""


def try_out(plan: Plan) -> Trial:
    """Build a C harness, let the original run on every shape and kind of values, and leave out what it does not take."""
    notes: list[str] = []
    if any(array.is_index for array in plan.signature.arrays):
        fewest = _fewest_elements(plan)
        large = tuple(shape for shape in plan.shapes if shape.timed or min(shape.sizes.values()) >= fewest)
        plan = plan.model_copy(update={"shapes": large})
        indices = ", ".join(array.name for array in plan.signature.arrays if array.is_index)
        notes.append(
            f"{indices}: places in another array, taken for 0 to {fewest - 1}; other ones: --value NAME=LOW:HIGH"
        )
    shutil.rmtree(plan.home / "build", ignore_errors=True)
    write_files(plan)
    for _ in range(4):
        built = _make(plan)
        missing = sorted(set(UNDEFINED.findall(built)) - {"ridgeline_call"}) if built else []
        sources = [source for name in missing if (source := _definition_of(plan, name)) is not None]
        fresh = sorted(set(sources) - set(plan.extra))
        if not built or not fresh:
            break
        plan = plan.model_copy(update={"extra": (*plan.extra, *fresh)})
        notes.append(f"linked with {', '.join(fresh)}, which the function needs")
        write_files(plan)
    if built:
        absent = [name for name in missing if _definition_of(plan, name) is None]
        mend = f"; name a source that defines {', '.join(absent)} in EXTRA of {plan.folder}/flags.mk" if absent else ""
        return Trial(plan=plan, notes=tuple(notes), problem=_first_error(built) + mend)
    if plan.signature.gaps or plan.signature.language in ("cuda", "hip"):
        return Trial(plan=plan, notes=tuple(notes))
    return _survey(plan, notes)


def _make(plan: Plan, *, everything: bool = False) -> str:
    """Build what a harness tries the original with, or everything; what the build said where it failed, else nothing."""
    goals = ["all"]
    if not everything and plan.signature.language in ("c", "c++"):
        names = ("liboriginal.so", "test", *(("libexact.so",) if plan.exact else ()))
        goals = [f"{plan.folder}/build/{name}" for name in names]
    build = run(("make", "-s", "-f", f"{plan.folder}/Makefile", *goals), cwd=plan.root, timeout_s=BUILD_S)
    if not build.ok:
        return build.output or "make failed"
    if plan.signature.language in ("cuda", "hip"):
        return ""
    loaded = run((f"{plan.folder}/build/test", "--load"), cwd=plan.root, timeout_s=TEST_S)
    return loaded.output if "undefined symbol" in loaded.output else ""


def find_untracked(plan: Plan) -> tuple[str, ...]:
    """Files of the scaffolded project that a build of the function reads and git does not have: a checkout lacks them."""
    if shutil.which(plan.compiler) is None:
        return ()
    source = plan.entry or os.path.relpath(plan.signature.file, plan.root.resolve())
    names = {source, *plan.extra}
    for name in sorted(names):
        listed = run((plan.compiler, *plan.flags, "-w", "-M", name), cwd=plan.root, timeout_s=BUILD_S)
        rule = listed.output.replace("\\\n", " ").partition(": ")[2] if listed.ok else ""
        paths = [Path(os.path.realpath(plan.root / word)) for word in shlex.split(rule)]
        names |= {
            os.path.relpath(path, plan.root.resolve()) for path in paths if path.is_relative_to(plan.root.resolve())
        }
    tracked = run(("git", "--literal-pathspecs", "ls-files", "-z", "--recurse-submodules", "--", *sorted(names)),
                  cwd=plan.root, timeout_s=BUILD_S, output_bytes=MOST_LISTED)  # fmt: skip
    return tuple(sorted(names - set(tracked.output.split("\0")))) if tracked.ok else ()


def _first_error(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if re.search(r"error|undefined", line)), lines[-1] if lines else "")[:300]


def _definition_of(plan: Plan, name: str) -> str | None:
    """The source of the scaffolded project that defines a function, from the root."""
    pattern = re.compile(rf"^[^\n;=#]*\b{re.escape(name)}\s*\([^;]*?\)[^;{{]*\{{", re.MULTILINE | re.DOTALL)
    for path in list_files(plan.root, (".c",) if plan.signature.language == "c" else (".c", ".cc", ".cpp", ".cxx")):
        if path.resolve() == plan.signature.file.resolve() or path.is_relative_to(plan.home):
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        if f"{name}" in text and pattern.search(text) and not re.search(r"\bint\s+main\s*\(", text):
            return os.path.relpath(path, plan.root)
    return None


def list_files(root: Path, suffixes: Sequence[str]) -> list[Path]:
    """Files below a folder that belong to the project: as git lists them, else all but what is hidden or built."""
    git = run(("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"), cwd=root, timeout_s=BUILD_S,
              output_bytes=MOST_LISTED)  # fmt: skip
    names = git.output.split("\0") if git.ok else [path.relative_to(root).as_posix() for path in root.rglob("*")]
    paths = (Path(name) for name in sorted(set(names)) if name.lower().endswith(tuple(suffixes)))
    return [
        root / path
        for path in paths
        if not any(part in SKIPPED or part.startswith(("ridgeline_", ".")) for part in path.parts[:-1])
        if (root / path).is_file()
    ]


class Survey(Value):
    """What the original did with each shape, kind of values and place of its arrays, as test.c prints it."""

    rows: tuple[tuple[str, ...], ...]

    @property
    def ended(self) -> frozenset[tuple[str, str]]:
        """Shapes and values on which a harness's original crashes, or takes too long, wherever the arrays lie."""
        return frozenset((row[1], row[2]) for row in self.rows if row[0] in ("CRASH", "SLOW") and row[3] == "0")

    @property
    def outside(self) -> frozenset[str]:
        """Shapes on which a harness's original crashes only where its arrays lie at the end of their pages."""
        edges = {row[1] for row in self.rows if row[0] == "CRASH" and row[3] != "0"}
        return frozenset(edges - {label for label, _ in self.ended})

    @property
    def overrun(self) -> frozenset[str]:
        """Shapes that may crash a harness's original because its arrays are too short: those, and what crashes with timed values."""
        return self.outside | {row[1] for row in self.rows if row[0] == "CRASH" and row[2:4] == ("ordinary", "0")}


def _survey(plan: Plan, notes: list[str]) -> Trial:
    """For a harness: leave out what crashes the original, time what is left, and see whether it can be had in double."""
    given, before = plan, [*notes]
    surveys: list[Survey] = []
    for slack in SLACKS:
        widened = plan.model_copy(update={"slack": slack})
        write_files(widened)
        if errors := _make(widened):
            return Trial(plan=plan, notes=tuple(notes), problem=_first_error(errors))
        ran = run((f"{plan.folder}/build/test", "--survey"), cwd=plan.root, timeout_s=TEST_S)
        if not ran.ok:
            return Trial(plan=plan, notes=tuple(notes), problem=_first_error(ran.output))
        surveys.append(Survey(rows=tuple(tuple(line.split()) for line in ran.output.splitlines())))
        if not surveys[-1].overrun:
            break
    # the shortest arrays that help: what crashes however long they are does not do so because of their length
    survey = next(survey for survey in surveys if survey.overrun <= surveys[-1].overrun)
    slack = SLACKS[surveys.index(survey)]
    widened = plan.model_copy(update={"slack": slack})
    rows, ended, outside = survey.rows, survey.ended, survey.outside
    problem_file = f"{plan.folder}/problem.h"
    if outside and outside.isdisjoint(shape.label for shape in plan.shapes if shape.timed):
        # sizes for which the arrays of the others would be eight times too short: no size that it is called with
        notes.append(f"the original does not keep to its arrays on {', '.join(sorted(outside))}: left out")
        rows = tuple(row for row in rows if row[1] not in outside)
        ended = frozenset((label, name) for label, name in ended if label not in outside)
        plan, widened = (_without(each, outside) for each in (plan, widened))
        outside = frozenset()
    if outside:
        notes.append(
            f"the original touches memory beyond its arrays, whatever their size: guards are off; see {problem_file}"
        )
    elif slack > 1:
        notes.append(
            f"the original reads further than its sizes say: arrays are {slack} times as long; see elements_ in {problem_file}"
        )
        plan = widened
    differs = {(row[1], row[2]) for row in rows if row[0] == "DIFFERS"}
    mixes = [mix for name, mix in MIX_NAMES.items() if mix in plan.mixes]
    plain_ended = {label for label, name in ended if name == "ordinary"}
    shapes = [shape for shape in plan.shapes if shape.label not in plain_ended]
    if plain_ended:
        notes.append(f"the original crashes, or takes 20 s, on {', '.join(sorted(plain_ended))}: left out")
    left = {name for label, name in ended | differs if label not in plain_ended and name != "ordinary"}
    notes += [f"the original crashes or differs from itself on values `{name}`: left out" for name in sorted(left)]
    if not any(shape.timed for shape in shapes):
        why = (
            "the original crashes on every timed shape; give others with --shape, a range with --value NAME=LOW:HIGH, "
            "or correct problem.h and call.h"
        )
        return Trial(plan=plan, notes=tuple(notes), problem=why)
    if unsteady := sorted(label for label, name in differs if name == "ordinary"):
        why = f"two calls of the original on the same values differ ({', '.join(unsteady)}); what else does it read?"
        return Trial(plan=plan, notes=tuple(notes), problem=why)
    times = {row[1]: float(row[4]) for row in rows if row[0] == "OK" and row[2] == "ordinary" and row[3] == "0"}
    proposed = [shape for shape in shapes if shape.timed]
    timed = [shape for shape in proposed if times.get(shape.label, 0.0) <= SLOWEST_US] or [
        min(proposed, key=lambda shape: times.get(shape.label, 0.0))
    ]
    slow = [shape.label for shape in proposed if shape not in timed]
    if slow:
        notes.append(f"a call takes over {SLOWEST_US / 1000:.0f} ms on {', '.join(slow)}: tested, not timed")
    written = {row[1] for row in rows if row[0] == "OK" and row[2] == "ordinary" and row[5] == "1"}
    same = {(row[1], row[3]): row[4] for row in rows if row[0] == "SAME"}
    constant = {row[1]: row[4] for row in rows if row[0] == "CONSTANT"}
    doubts = [*_say_doubts(plan, timed, times, written, same, constant)]
    if doubts and "LETTERS" in plan.mixes and not plan.letters_timed:
        changed = {"letters_timed": True, "mixes": (*given.mixes, "BYTES")}
        said = "those characters are timed: with others a call ends early, or its result tells little"
        trial = _survey(given.model_copy(update=changed), [*before, said])
        if not trial.problem and not any(note.startswith("doubtful") for note in trial.notes):
            return trial
    notes += doubts
    plan = plan.model_copy(
        update={
            "shapes": tuple(shape.model_copy(update={"timed": shape in timed}) for shape in shapes),
            "mixes": tuple(mix for mix in mixes if mix not in {MIX_NAMES[name] for name in left}),
            "edges": not outside,
        }
    )
    return _final(_with_exact(plan), notes)


def _without(plan: Plan, labels: Set[str]) -> Plan:
    """The plan of the harness without the shapes of these labels."""
    return plan.model_copy(update={"shapes": tuple(shape for shape in plan.shapes if shape.label not in labels)})


def _say_doubts(
    plan: Plan,
    timed: Sequence[ShapePlan],
    times: Mapping[str, float],
    written: Set[str],
    same: Mapping[tuple[str, str], str],
    constant: Mapping[str, str],
) -> Iterator[str]:
    """A note on a harness's values: a function that gives up early on them is timed for nothing, and a result that is nearly all one
    number tells little of what is wrong. `same`: percent of it, by shape and array. `constant`: by shape, for how many draws
    the results are the same."""
    mend = f"give values that it works on: fill_own() in {plan.folder}/problem.h, or --value NAME=LOW:HIGH"
    elements = {shape.label: math.prod(shape.sizes.values()) for shape in timed}
    small, large = (pick(timed, key=lambda shape: elements[shape.label]).label for pick in (min, max))
    grown = elements[large] / max(1, elements[small])
    if grown >= GROWN and times.get(large, 0.0) < EARLY_US + 2.0 * times.get(small, 0.0):
        yield f"doubtful: a call takes {times[large]:.1f} us on {large} and {times[small]:.1f} us on {small}; " + mend
    changes = [array.name for array in plan.signature.arrays if array.role != "input" and not array.by_value]
    if changes and not any(shape.label in written for shape in timed):
        yield f"doubtful: a call writes nothing to {', '.join(changes)}; " + mend
        return
    if labels := [shape.label for shape in timed if shape.label in constant]:
        draws = constant[labels[0]]
        yield (
            f"doubtful: {draws} draws of values on {', '.join(labels)} give one result, as calls that end early do; "
            + mend
        )
        return
    of_timed = {key: share for key, share in same.items() if key[0] in {shape.label for shape in timed}}
    for name in dict.fromkeys(name for _, name in of_timed):
        share, label = max((int(share), label) for (label, each), share in of_timed.items() if each == name)
        yield (
            f"doubtful: {share} % of {name} is the same number on {label}, so the test sees little of what is wrong; "
            + mend
        )


def _with_exact(plan: Plan) -> Plan:
    """The plan with a build in double, where that compiles and agrees with the original as rounding lets it."""
    kinds = {array.kind for array in (*plan.signature.arrays, *_result_array(plan.signature))}
    if "F32" not in kinds or plan.signature.language not in ("c", "c++"):
        return plan
    exact = plan.model_copy(update={"exact": True})
    write_files(exact)
    agrees = not _make(exact) and run(
        (f"{plan.folder}/build/test", "--try-exact"), cwd=plan.root, timeout_s=TEST_S
    ).ok  # fmt: skip
    if not agrees:
        for name in (f"exact{plan.signature.file.suffix}", "exact_call.h", "build/libexact.so"):
            (plan.home / name).unlink(missing_ok=True)
        shutil.rmtree(plan.home / "exact", ignore_errors=True)
    return exact if agrees else plan


def _final(plan: Plan, notes: list[str]) -> Trial:
    write_files(plan)
    if errors := _make(plan, everything=True):
        return Trial(plan=plan, notes=tuple(notes), problem=_first_error(errors))
    tested = run((f"{plan.folder}/build/test",), cwd=plan.root, timeout_s=TEST_S)
    floats = any(array.kind in ("F32", "F64") for array in (*plan.signature.arrays, *_result_array(plan.signature)))
    oracle = "itself in double, within four times its own rounding" if plan.exact else "the original" + (
        " within TOLERANCE of problem.h" if floats else ", byte for byte"
    )  # fmt: skip
    notes.append(f"right is what the original gives: compared with {oracle}")
    return Trial(plan=plan, notes=tuple(notes), problem="" if tested.ok else _first_error(tested.output))


def class_of(shape: Mapping[str, int], signature: Signature) -> str:
    """Configuration class of a harness's shape by the bytes that its arrays take."""
    total = 0
    for array in signature.arrays:
        count = 1
        for extent in array.extents:
            count *= shape.get(extent, int(extent) if extent.isdigit() else 1)
        total += count * ITEM_BYTES.get(array.kind, 1)
    return next((name for limit, name in CLASSES if total <= limit), "large")


def name_row(sizes: Iterable[str]) -> tuple[str, ...]:
    """Of a harness's sizes, those whose product is the length of a row; none where no name says so."""
    names = tuple(sizes)
    across = next((name for name in names if re.fullmatch(r"\w*(?:width|cols|columns)|w|nx|n", name)), "")
    return tuple(name for name in (across, "channels") if name in names)


def fill_strides(sizes: Mapping[str, int], signature: Signature) -> dict[str, int]:
    """A stride that a harness was not given is the length of a row."""
    row = math.prod(sizes[name] for name in name_row(name for name in signature.sizes if name in sizes))
    return {
        **sizes,
        **{name: row for name in signature.sizes if name not in sizes and STRIDE.fullmatch(name)},
    }
