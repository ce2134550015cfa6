"""Of a file of thousands of lines, page and catalog know the function that is timed, what it uses, its test and benchmark."""

import difflib
import re
import sys
import time

import pytest

from ridgeline.agent.planner.catalog import CatalogPlanner
from ridgeline.agent.planner.context import Context
from ridgeline.agent.planner.conversation import Wrong
from ridgeline.agent.planner.edits import apply_answer
from ridgeline.agent.planner.scope import find_scope, line_spans
from ridgeline.agent.planner.tools import ShippedBooks
from ridgeline.graph.contract import Profile, judge_commands
from ridgeline.graph.values import Artifact
from ridgeline.knowledge import definitions
from ridgeline.knowledge.definitions import list_functions, reach, read_definitions
from ridgeline.knowledge.rewrite import apply
from ridgeline.knowledge.steps import Insert
from tests.builders import make_contract, make_profiled, make_round, make_target
from tests.catalog_briefs import brief
from tests.long_projects import LINES, TIMED, files
from tests.long_sources import DENSE, dense, quantizers
from tests.model_fakes import NoBooks

PROJECT = files()
SOURCE = PROJECT["quants.c"]
CONTRACT = make_contract(
    kernel_source=("quants.c",),
    test_command=("build/test_quants",),
    quick_command=("python3", "bench.py", "bench", "{csv}", "{shapes}"),
)
CALLGRIND = """events: Ir
fn=(1) quantize_row_x7
12 90
calls=1 2
12 99000
fn=(2) quantize_row_q4_K
30 4000
+1 600
fn=(3) main
50 70000
"""


class Folder:
    """The project's files, as a campaign's repository has them."""

    def __init__(self, texts=PROJECT, report=""):
        self.texts, self.report = texts, report

    def paths(self, commit):
        return tuple(self.texts)

    def text(self, commit, path):
        return self.texts.get(path)

    def search(self, commit, text):
        return ()

    def read_artifact(self, artifact):
        return self.report


def count(text):
    return -(-len(text) // 4)


def long_brief(*rounds, instruction="", contract=CONTRACT, source=SOURCE, **fields):
    target = make_target(target_op="quantize_f32", target_lang="C", instruction=instruction)
    return brief({"quants.c": source}, *rounds, target=target, contract=contract, **fields)


def page(briefing, folder=None, name="planning"):
    context = Context(briefing, budget=24_000, count=count, books=NoBooks(), reader=folder or Folder())
    return context.planning(without_tools=True)


def test_the_page_shows_the_kernel_its_types_its_test_and_its_benchmark():
    parts = page(long_brief())
    numbered = dict(re.findall(r"^ *(\d+)\| (.*)$", parts["sources"], re.M))
    assert SOURCE.count("\n") == LINES
    assert all(SOURCE.splitlines()[int(number) - 1] == line for number, line in numbered.items())
    for text in (
        f"void {TIMED}(",
        "static float make_qkx2_quants(",
        "/* Scale and minimum",
        "nearest_int(float",
        "define MAX(",
        "Q4K_TILE 4",
    ):
        assert text in parts["sources"]
    assert "quantize_row_x" not in parts["sources"]
    assert "_TILE_ROWS" not in parts["sources"]
    assert "left out]" in parts["sources"]
    problem = parts["problem"]
    assert "} block_q4_K;" in problem
    assert "#define QK_K 256" in problem
    assert "grid_3" not in problem
    assert "int main(void)" in problem
    assert "return 0;\n    }" not in problem.partition("==> test_quants.c")[0]
    assert "near_enough(const float" in problem  # what is right
    assert "SIZES = {" in problem
    assert "def timed_call(" in problem
    assert f"timed function: {TIMED}, named by the test and the benchmark" in parts["target"]


def test_the_harness_that_init_wrote_comes_first_whatever_else_is_named_like_one():
    built = "ridgeline_it/build/bench"
    contract = CONTRACT.model_copy(update={"quick_command": (built, "--csv", "{csv}", "--shapes", "{shapes}")})
    written = {
        "ridgeline_it/call.h": f"void ridgeline_call(void) {{ {TIMED}(0); }}\n",
        "ridgeline_it/problem.h": "#define SIZE_k 1\n",
    }
    others = {f"tests/test_{number}.c": "int main(void) { return 0; }\n" for number in range(200)}
    problem = page(
        long_brief(contract=contract), Folder({**PROJECT, **others, **written, "other/call.h": "int other;\n"})
    )["problem"]
    assert [line.split()[1] for line in problem.splitlines() if line.startswith("==>")][:2] == list(written)
    assert "#define SIZE_k 1" in problem
    assert "other/call.h (read-only)" not in problem


@pytest.mark.parametrize(
    ("because", "fields", "report"),
    [
        ("the contract's `function`", {"contract": CONTRACT.model_copy(update={"function": "quantize_row_x7"})}, ""),
        ("the instruction", {"instruction": "make quantize_row_x7 faster, it takes all the time"}, ""),
        (
            "the contract's `profile.kernel`",
            {"contract": CONTRACT.model_copy(update={"profile": Profile(command=("x",), kernel="quantize_row_x7")})},
            "",
        ),
        ("the profile", {}, CALLGRIND.replace("4000", "40")),
    ],
)
def test_contract_instruction_and_profile_name_the_function(because, fields, report):
    recorded = make_profiled().model_copy(update={"report": Artifact(name="r", sha256="0" * 64, size=1)})
    now = long_brief(profile=recorded if report else None, **fields)
    scope = find_scope(now, Folder(report=report.replace("600", "6").replace("12 90\n", "12 9000\n")))
    assert (scope.functions, scope.because) == (("quantize_row_x7",), because)
    assert {"make_scale_7", "Q7_TILE_ROWS", "nearest_int"} <= scope.names
    assert not {"make_scale_8", "quantize_row_q4_K"} & scope.names


def test_the_cost_of_a_call_belongs_to_the_function_that_is_called():
    recorded = make_profiled().model_copy(update={"report": Artifact(name="r", sha256="0" * 64, size=1)})
    assert find_scope(long_brief(profile=recorded), Folder(report=CALLGRIND)).functions == (TIMED,)


def test_nobody_names_a_function_and_short_sources_are_shown_as_they_are():
    assert find_scope(long_brief(instruction="make it fast"), Folder({"quants.c": SOURCE})) is None
    short = page(long_brief(source="#define A 4\nvoid f(float *x) { x[0] = A; }\nvoid g(void) {}\n"))
    assert "timed function" not in short["target"]
    assert "void g(void)" in short["sources"]


def test_a_shown_block_is_replaced_and_the_whole_file_is_not_asked_for():
    block = "    const int nb = k / QK_K;\n    uint8_t L[QK_K];\n"
    better = block.replace("/ QK_K", ">> 8")
    edit = f"Faster.\n\nEDIT quants.c\n<<<<<<< SEARCH\n{block}=======\n{better}>>>>>>> REPLACE\n"
    contract = make_contract(kernel_source=("quants.c",), editable=("quants.c",))
    edited = apply_answer(edit, {"quants.c": SOURCE}, contract)
    changed = [
        line for line in difflib.ndiff(SOURCE.splitlines(), edited.edits[0].text.splitlines()) if line[0] in "+-"
    ]
    assert changed == ["-     const int nb = k / QK_K;", "+     const int nb = k >> 8;"]
    whole = apply_answer(f"All.\n\nFILE quants.c\n````\n{SOURCE}````\n", {"quants.c": SOURCE}, contract)
    assert isinstance(whole, Wrong)


def timed_lines(text):
    """Numbers of the lines that the catalog may change: those of the timed function and of what it uses."""
    places = reach({"quants.c": text}, {TIMED})
    return {
        number
        for place in places
        for number in range(text.count("\n", 0, place.definition.start), text.count("\n", 0, place.definition.end) + 1)
    }


def test_the_catalog_changes_nothing_but_what_is_timed():
    start = time.process_time()
    planner = CatalogPlanner(files=Folder())
    levers = planner.order(long_brief())[0]
    assert time.process_time() - start < 20
    allowed, old = timed_lines(SOURCE), SOURCE.splitlines()
    assert len(levers) >= 5
    assert {"gcc-o3", "restrict", "constant-sweep:Q4K_TILE=6"} <= {lever.id for lever in levers}
    assert not [lever.id for lever in levers if "TILE_ROWS" in lever.id]
    for lever in levers:
        for tag, first, last, begin, end in difflib.SequenceMatcher(
            None, old, lever.texts["quants.c"].splitlines(), autojunk=False
        ).get_opcodes():
            new = lever.texts["quants.c"].splitlines()[begin:end]
            if tag == "insert" and (
                new[0].startswith(("#pragma GCC p", "#include", "#define", "static")) or not new[0]
            ):
                continue
            assert tag == "equal" or set(range(first, last)) <= allowed, (lever.id, old[first:last], new)


def test_a_pragma_stands_around_the_timed_function_and_ends_behind_it():
    levers = {lever.id: lever for lever in CatalogPlanner(files=Folder()).order(long_brief())[0]}
    text = levers["gcc-o3"].texts["quants.c"]
    assert text.count("#pragma GCC optimize") == text.count("pop_options") == 3  # with the two that it calls
    assert f'#pragma GCC push_options\n#pragma GCC optimize("O3")\nvoid {TIMED}(' in text
    assert not text.startswith("#pragma")


AVX = '#pragma GCC target("avx2,fma")'


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("int g;\nvoid f(int *x)\n{\tx[0] = 1;\n} /* f */\n\nint h;\n", "void f(int *x)\n{\tx[0] = 1;\n} /* f */"),
        ("void f(void) { } // f\nint h;", "void f(void) { } // f"),
        ("/* a */ void f(void) { } /* goes\n on */\nint h;", "/* a */ void f(void) { } /* goes\n on */"),
        ("int g; void f(void) { } int h;\n", "void f(void) { }"),
    ],
)
def test_a_pragma_begins_and_ends_at_whole_lines_with_their_comments(text, body):
    changed = apply((Insert(where="top", text=AVX),), {"k.c": text}, flags_file=None, only=frozenset({"f"}))
    assert f"#pragma GCC push_options\n{AVX}\n{body}\n#pragma GCC pop_options\n" in changed["k.c"]
    added = {"#pragma GCC push_options", AVX, "#pragma GCC pop_options"}
    rest = "\n".join(line for line in changed["k.c"].splitlines() if line not in added)
    assert rest.split() == text.split()


def test_the_lines_of_a_function_hold_the_options_around_it():
    lines = ["int g;", "#pragma GCC pop_options", "#pragma GCC push_options", AVX, "// doc", "void f(void)", "{ }"]
    text = "\n".join([*lines, "#pragma GCC pop_options", "int h;"])
    (span,) = line_spans({"k.c": text}, ("f",))["k.c"]
    assert (span.start, span.end) == (3, 8)


@pytest.mark.parametrize(("flags", "there"), [("FLAGS = -Isrc -O3 -DNDEBUG", False), ("FLAGS = -O2", True)])
def test_the_level_that_a_harness_is_built_with_is_no_lever(flags, there):
    contract = CONTRACT.model_copy(update={"protected": ("harness/**",)})
    folder = Folder({**PROJECT, "harness/flags.mk": f"# as -O3\nCOMPILER = cc\n{flags}\n"})
    now = long_brief().model_copy(update={"contract": contract})
    assert ("gcc-o3" in {lever.id for lever in CatalogPlanner(files=folder).order(now)[0]}) is there


TASK = """task: 1
name: quantize_f32
language: c
source: [quants.c]
entry: quantize
inputs: [{name: x, shape: [n]}]
outputs: [{name: y, shape: [n]}]
shapes: [{label: s, dims: {n: 8}}]
"""


@pytest.mark.parametrize(
    ("build", "there"), [("", False), ("build: {flags: [-O2]}\n", True), ("build: {flags: [-O1, -O3]}\n", False)]
)
def test_the_level_that_the_judge_compiles_with_is_no_lever(build, there):
    """Seen: a task without flags is compiled at -O3, and page and catalog advised to raise the level to -O3."""
    contract = CONTRACT.model_copy(update=judge_commands("task.yaml"))
    folder = Folder({**PROJECT, "task.yaml": TASK + build})
    now = long_brief(contract=contract)
    levers = {lever.id for lever in CatalogPlanner(files=folder).order(now)[0]}
    assert ("gcc-o3" in levers) is there
    shown = Context(now, budget=24_000, count=count, books=ShippedBooks(), reader=folder).planning(without_tools=True)
    assert ("gcc-o3.md" in shown["knowledge"]) is there


def test_a_lever_of_a_round_that_a_restart_masked_is_not_tried_again():
    planner, now = CatalogPlanner(files=Folder()), long_brief()
    first = planner.propose(now).hypothesis
    closed = make_round(2, "rolled_back", reason="not_better", gain=0.0, hypothesis=first)
    for fields in ({"rounds": (closed,)}, {"masked_rounds": (closed,)}):
        again = planner.propose(now.model_copy(update=fields))
        assert again.hypothesis.id != first.id
        assert f"{first.id}: rolled back in round 2" in " ".join(again.dropped)


TRITON = """import torch
import triton
import triton.language as tl

BLOCK = 128
OTHER_BLOCK = 64


@triton.jit
def scale(x, f):
    return x * f


@triton.jit
def norm_kernel(x, y, n, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.store(y + at, scale(tl.load(x + at, mask=at < n), 2.0))


def norm(x):
    y = torch.empty_like(x)
    norm_kernel[(1,)](x, y, x.numel(), B=BLOCK, num_warps=4)
    return y


class Config:
    rows = OTHER_BLOCK
"""


def test_of_a_triton_file_the_kernel_its_launch_and_its_constants_are_shown():
    others = "\n\n".join(f"@triton.jit\ndef other_{n}(x):\n    tl.store(x, {n}, num_warps={n})" for n in range(900))
    source = f"{TRITON}\n\n{others}\n"
    target = make_target(target_op="norm_f32", target_lang="TRITON", target_backend="TRITON", instruction="norm_kernel")
    now = brief({"kernel.py": source}, lang="TRITON", target=target)
    folder = Folder(
        {"kernel.py": source, "test_norm.py": "from kernel import norm\ndef test_it():\n    assert norm(1)\n"}
    )
    parts = page(now, folder)
    for text in ("def scale", "def norm_kernel", "@triton.jit", "def norm(x)", "BLOCK = 128", "import triton.language"):
        assert text in parts["sources"]
    assert "other_3" not in parts["sources"]
    assert "OTHER_BLOCK" not in parts["sources"]
    assert "def test_it" in parts["problem"]
    levers = CatalogPlanner(files=folder).order(now)[0]
    assert levers
    for lever in levers:
        assert others in lever.texts["kernel.py"]


C = """extern "C" {
#define N 4
typedef struct { int a; } one_t;
enum mode { FAST, SLOW = 3 };
typedef float (*fn_t)(int, float);
struct __attribute__((packed)) two { one_t b; };
static const int table[N] = {1, 2, 3, 4}, more = 3;
static inline int near(float v) { return (int) v + table[0]; }
void later(float *x);
static void later(float *x) { x->more = 1; }
__attribute__((noinline)) int quant(struct two * RESTRICT y, fn_t f) {
#if A
  for (int i = 0; i < 4; i++) {
#else
  for (int i = 0; i < 4; ++i) {
#endif
    y[i].b.a = near(FAST); }
  return 1;
}
}
namespace ns { template <int M> __global__ void kern(float *x) { x[0] = M; } }
void launch(float *x) { ns::kern<3><<<1, 2>>>(x); }
"""


def test_definitions_of_c_are_told_apart_with_what_they_use():
    kinds = {name: item.kind for item in read_definitions(C, "c") for name in item.names if item.kind != "prototype"}
    assert kinds == {
        **{"N": "macro", "one_t": "type", "mode": "type", "FAST": "type", "SLOW": "type", "fn_t": "type"},
        **{"two": "type", "table": "data", "more": "data", "near": "function", "later": "function"},
        **{"quant": "function", "kern": "function", "launch": "function"},
    }
    reached = [name for place in reach({"k.c": C}, ["quant"]) for name in sorted(place.definition.names)]
    assert reached == ["quant", "FAST", "SLOW", "mode", "fn_t", "two", "near", "one_t", "more", "table", "N"]
    assert [*(place.definition.names for place in reach({"k.cu": C}, ["kern"]))] == [{"kern"}, {"launch"}]
    assert "later" in list_functions({"k.c": C})
    assert not reach({"k.c": C}, ["nobody"])


@pytest.mark.parametrize("kind", ["quantizers", *DENSE])
def test_finding_definitions_takes_work_in_proportion_to_the_length(kind):
    def work(lines):
        text = quantizers(lines) if kind == "quantizers" else dense(kind, lines)
        done = 0

        def trace(frame, event, arg):
            nonlocal done
            if frame.f_code.co_filename != definitions.__file__:
                return None
            done += event == "line"
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            read_definitions.__wrapped__(text, "c")
        finally:
            sys.settrace(before)
        return done

    assert work(1600) <= 1.5 * 4 * work(400) + 500
