"""Options of compilers and linkers in files that a build reads: which run another program or replace functions."""

import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import PurePosixPath

from ridgeline.sandbox.audit import relaxed_math
from ridgeline.sandbox.audit.c_names import CLOCKS, JUDGES
from ridgeline.sandbox.audit.c_surroundings import rule_of
from ridgeline.sandbox.audit.rules import Hit

RECIPES = frozenset({".mk", ".sh", ".cmake"})
RECIPE_NAMES = frozenset({"Makefile", "makefile", "GNUmakefile", "CMakeLists.txt"})
OPTION = re.compile(r"--?\w|@|#")
"""How every line of a file of nothing but options begins."""
COMPILING = re.compile(r"FLAGS|\$[({]?CC|\$[({]?CXX|\b(?:gcc|g\+\+|cc|c\+\+|clang|clang\+\+|nvcc|hipcc|ld)\b")
QUOTED = re.compile(r"""["'](-[\w-][^"']*|@(?:/|~|\.\.?/)[^"']*)["']""")
SILENT = re.compile(r"(\s*|[^=;]*:[^=;]*;\s*)[+-]*@[@+-]*")
"""How a recipe's line begins that make does not show: no file of options."""
HANDED_ON = re.compile(r"-X(?:linker|compiler|preprocessor|assembler|clang)(?:=(.*))?|--for-linker(?:=(.*))?")
"""What follows is an option of another stage."""
PROGRAM = re.compile(
    r"-?-wrapper|-fplugin\b.*|-fpass-plugin=.*|-?-specs\b.*|--prefix\b.*|--ld-path\b.*|-fuse-ld=.*/.*|-load|-?-plugin(?:=.*)?"
    r"|-?-compiler-bindir\b.*|-ccbin\b.*|-?-dynamic-linker\b.*|-B(?!static|dynamic|symbolic|group).*"
)
REPLACED = re.compile(r"-?-(?:wrap|defsym)(?:=(.*))?")
MACRO = re.compile(r"-[DU](.*)|--(?:un)?define-macro(?:=(.*))?")
HARNESS = re.compile(rf"main|v?s?n?f?printf|fputs|fopen|fwrite|write|_exit|_Exit|abort|atexit|{JUDGES.pattern}")
"""What tests and benchmarks are made of."""
READS = re.compile(
    r"-?-include\b.*|-?-imacros\b.*|-i(?:system|quote|dirafter|prefix)\b.*|-?-rpath\b.*|-?-entry\b.*|-init\b.*|-fini\b.*"
    r"|-nostartfiles|-nostdinc|-nostdlib|-finstrument-functions|-DNDEBUG(?:=.*)?|-MF"
)
SHORT = re.compile(r"-[IlLTexo].*|@.+")
"""Options that mean something else to other programs."""
OUTPUT = re.compile(
    r"(?:-?-Map|-?-output(?:-file|-directory)?|-?-odir|-?-keep-dir|-?-dependency-(?:file|output)|-?-out-implib"
    r"|-dump(?:dir|base(?:-ext)?)|-aux-info|-auxbase(?:-strip)?|-?-serialize-diagnostics|-index-store-path|--?M[MDFPJ]*|-o|-a[a-z]*"
    r"|-?-save-temps|-time|-?-print-map-file|-?-lto-obj-path|-?-stats"
    r"|-f(?:dump|opt-info|profile|callgraph-info|time-trace|(?:save-)?optimization-record|crash-diagnostics|modules-cache)[\w-]*"
    r"|-fdiagnostics-[\w-]*output=[\w:,=-]*file)=?(.*)"
)
"""Options of compilers, assemblers and linkers whose value is a place that is written to."""
OUTSIDE = re.compile(r"(?!/dev/null$)(?:/|~|\$[({]?(?:HOME|TMPDIR|TMP|TEMP|XDG_\w+)\b|(?:.*/)?\.\.(?:/|$))")
"""How a path begins that leads out of the tree that is built."""
SENT = re.compile(
    r">>?\s*(?!/dev/(?:null|stdout|stderr)\b)(?:/|~|\.\./|\$[({]?HOME\b)"
    r"|(?:^|[\s;&|(@])(?:tee|cp|mv|install|ln|touch|mkdir|dd|rsync)\s[^#;|&]*?(?<=[\s=])(?!/dev/null\b)(?:/|~|\.\./|\$[({]?HOME\b)"
)
"""A recipe's own programs that write to such a place, or read from it."""
PATHS = re.compile(
    r"\b(?:CPATH|C_INCLUDE_PATH|CPLUS_INCLUDE_PATH|OBJC_INCLUDE_PATH|COMPILER_PATH|GCC_EXEC_PREFIX|LIBRARY_PATH"
    r"|LD_PRELOAD|LD_AUDIT|LD_LIBRARY_PATH|GCC_SPECS|CCC_OVERRIDE_OPTIONS)\b"
)
"""Variables from which compilers, linkers and programs take what no option names."""
REWRITES = re.compile(
    r"(?:^|[\s;&|(@`])(?:sed|awk|gawk|perl|cat|objcopy|ld|patch|ed|xxd|m4)\s[^#]*"
    r"(?:\$[<^@+*]|\$[({][<^@+*][DF]?[)}]|\.[ch]\b|\.o\b|\.cpp\b|\.cu\b)"
)
"""A program other than the compiler works on a rule's sources or objects before they are built."""
PIPED = re.compile(r"-x\s*(?:c|c\+\+|cu|cuda|assembler)\b.*\s-(?:\s|$)|\|\s*(?:\$[({]?CC|gcc|cc|clang|g\+\+|nvcc)\b")
SCRIPT = re.compile(r"(?:^|[\s,=])(?:[\w./$(){}@<-]+\.(?:ld|lds)|-T\s*\S+)(?:\s|$)")
VARIABLE = re.compile(r"\s*(?:export\s+|override\s+)*([A-Za-z_]\w*)\s*[:?+]*=\s*(.*)")
"""A simple variable of a makefile."""


def hits(path: str, text: str) -> Iterator[Hit]:
    """The audit's findings in compiler options: of an options file, a makefile or script, or a Python file's quoted options."""
    recipe = _recipe(path)
    if PurePosixPath(path).suffix.lower() in {".py", ".pyi", ".pyx"}:
        words = [
            (number, word)
            for number, line in _lines(text)
            for quoted_text in QUOTED.findall(line)
            for word in quoted_text.split()
        ]
    elif recipe:
        expanded_lines = _expand_variables(
            [(number, line) for number, line in _lines(text) if not line.lstrip().startswith("#")]
        )
        shown_lines = _drop_silence(expanded_lines) if _simple(path) else expanded_lines
        words = [(number, word) for number, line in shown_lines for word in _words(line)]
        yield from _recipes(expanded_lines, _simple(path))
    elif path.endswith(".flags") or all(OPTION.match(line.lstrip()) for _, line in _lines(text)):
        words = [(number, word) for number, line in _lines(text) for word in _words(line)]
    else:
        return
    compiling = {number for number, line in _lines(text) if COMPILING.search(line)}
    options = [(number, option) for number, word in words for option in _stages(word)]
    for (number, option), (_, after) in pairwise([*options, (0, "")]):
        if rule := _rule(option, after, short=not recipe, compiling=not recipe or number in compiling):
            yield Hit(rule=rule, line=number, code=option if rule == relaxed_math.RULE else "")


def _simple(path: str) -> bool:
    """The audit of build files: whether one is a makefile, whose recipes stand behind a tab."""
    return PurePosixPath(path).suffix.lower() == ".mk" or "akefile" in PurePosixPath(path).name


def _drop_silence(lines: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """The audit of build files: a makefile's lines without the sign that has make not show a command."""
    goes_on = False
    shown: list[tuple[int, str]] = []
    for number, line in lines:
        shown.append((number, line if goes_on else SILENT.sub(r"\1", line, count=1) if SILENT.match(line) else line))
        goes_on = line.endswith("\\")
    return shown


def _expand_variables(lines: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """The audit of build files: lines with the variables put in whose values are plain words in the same file."""
    values: dict[str, str] = {}
    for _, line in lines:
        if assignment := VARIABLE.fullmatch(line):
            values[assignment[1]] = assignment[2].split(" #")[0].strip()
    plain = {name: value for name, value in values.items() if len(value) <= LONGEST_PLAIN and "$" not in value}
    return [(number, USED.sub(lambda match: _value(match, plain), line)) for number, line in lines]


def _value(match: re.Match[str], plain: dict[str, str]) -> str:
    """The audit of build files: what a variable stands for: its value where it is known and plain."""
    return plain.get(match[1] or match[2] or match[3], match[0])


def _recipes(lines: list[tuple[int, str]], makefile: bool) -> Iterator[Hit]:
    """The audit of build files: lines that give the compiler other text, objects or folders than the rule's sources."""
    goes_on = False
    for number, line in lines:
        recipe = not makefile or goes_on or line.startswith("\t") or bool(re.search(r":.*;", line))
        goes_on = recipe and line.endswith("\\")
        linked = (recipe or COMPILING.search(line)) and SCRIPT.search(line)
        changed = linked or (recipe and (REWRITES.search(line) or PIPED.search(line)))
        if changed or PATHS.search(line):
            yield Hit(rule="build-setting", line=number)
        if recipe and SENT.search(line):
            yield Hit(rule="file-access", line=number)


def _rule(option: str, after: str, *, short: bool, compiling: bool) -> str:
    """The audit's rule that a compiler option falls under; empty for none. `after`: the word behind it, perhaps its value."""
    if PROGRAM.fullmatch(option):
        return "other-program" if compiling or not option.startswith("-B") else ""
    if option.startswith("@") and OUTSIDE.match(option[1:]):
        return "file-access"
    if (match := OUTPUT.fullmatch(option)) and OUTSIDE.match(match[1] or after):
        return "file-access"
    if match := REPLACED.fullmatch(option):
        return _rule_of_macro(match[1] or after) or "build-setting"
    if (match := MACRO.fullmatch(option)) and (rule := _rule_of_macro(match[1] or match[2] or after)):
        return rule
    if match and _hides_name(match[1] or match[2] or after):
        return "hidden-name"
    if relaxed_math.OPTION.fullmatch(option):
        return relaxed_math.RULE
    if READS.fullmatch(option) or (short and SHORT.fullmatch(option)):
        return "build-setting"
    return ""


def _rule_of_macro(definition: str) -> str:
    """The audit's rule for giving a name another meaning by an option; a function's own builtin is no other meaning."""
    name, _, value = definition.partition("=")
    name = name.split("(")[0].strip()
    if value.split("(")[0].strip() == f"__builtin_{name}":
        return ""
    if CLOCKS.fullmatch(name):
        return "replaced-clock"
    return "replaced-judge" if HARNESS.fullmatch(name) else ""


def _hides_name(definition: str) -> bool:
    """The audit of build files: whether a macro among options puts names together, or stands for a function of the system."""
    _, _, value = definition.partition("=")
    return "##" in value or "%:%:" in value or any(rule_of(word) for word in re.findall(r"\w+", value))


USED = re.compile(r"\$(?:\((\w+)\)|\{(\w+)\}|([A-Za-z_]))")
LONGEST_PLAIN = 16
"""Letters of a variable's value that may be a piece of an option."""


def _recipe(path: str) -> bool:
    name = PurePosixPath(path)
    return name.suffix.lower() in RECIPES or name.name in RECIPE_NAMES


def _lines(text: str) -> list[tuple[int, str]]:
    return [(number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]


def _words(line: str) -> list[str]:
    """The audit of build files: words of a command as a compiler gets them: quotes and backslashes inside are not part of it."""
    try:
        return shlex.split(line)
    except ValueError:  # a quote that another line closes
        return line.replace('"', "").replace("'", "").replace("\\", "").split()


def _stages(word: str) -> Iterator[str]:
    """The audit of build files: the options in one word of a command: `-Wl,--wrap,main` holds two of the linker's."""
    word = word.split("=", 1)[1] if re.match(r"[A-Za-z_]\w*[:+?]?=-", word) else word  # CFLAGS=-B...
    if re.match(r"-W[lpa],", word):
        yield from word.split(",")[1:]
    elif match := HANDED_ON.fullmatch(word):
        yield from (match[1] or match[2] or "").split(",") if match[1] or match[2] else ()
    else:
        yield word
