"""Options that change what floating-point arithmetic means are seen wherever they stand, and refused unless allowed."""

import pytest

from ridgeline.agent.planner.catalog import CatalogPlanner
from ridgeline.agent.planner.conversation import Wrong
from ridgeline.agent.planner.edits import apply_answer
from ridgeline.agent.planner.tools import levers
from ridgeline.graph.rules.audit import find_refusal, list_audit_notes
from ridgeline.knowledge.cards import load
from ridgeline.sandbox.audit.examine import find_added
from tests.builders import make_contract, make_hypothesis
from tests.catalog_briefs import brief, naive

FUNCTION = "float f(const float *x, int n) { float s = 0; for (int i = 0; i < n; i++) s += x[i]; return s; }\n"
RELAXED = [
    ("kernel.flags", "-O3 -ffast-math\n"),
    ("kernel.flags", "-Ofast\n"),
    ("kernel.flags", "-O2 -funsafe-math-optimizations -g\n"),
    ("kernel.flags", "-O2 -f'inite-math-only'\n-ffinite-math-only\n"),
    ("kernel.flags", "-fassociative-math -fno-signed-zeros -fno-trapping-math\n"),
    ("kernel.flags", "-Wl,/usr/lib/gcc/x86_64-linux-gnu/12/crtfastmath.o\n"),
    ("Makefile", "all:\n\tgcc -O2 -ffp-model=fast kernel.c\n"),
    ("Makefile", "F = -ffast\nall:\n\tgcc $(F)-math kernel.c\n"),
    ("Makefile", "export NVCC_APPEND_FLAGS = --use_fast_math\n"),
    ("CMakeLists.txt", "add_compile_options(-Xcompiler=-ffast-math)\n"),
    ("meson.build", "add_project_arguments('-Ofast', language: 'c')\n"),
    ("build.sh", "nvcc -ftz=true -prec-div=false kernel.cu\n"),
    ("setup.py", 'load_inline("k", "", extra_cuda_cflags=["-O3", "--use_fast_math"])\n'),
    ("setup.py", "import os\nos.environ['CFLAGS'] = '-O2 -ffast-math'\n"),
    ("kernel.py", "@numba.njit(fastmath=True)\ndef f(x):\n    return x.sum()\n"),
    ("kernel.py", "import torch\ntorch.set_flush_denormal(True)\n"),
    ("opencl.py", 'program.build(options="-cl-fast-relaxed-math")\n'),
    ("kernel.c", f'#pragma GCC optimize("O3,fast-math")\n{FUNCTION}'),
    ("kernel.c", f'#pragma GCC optimize("O3", "-funsafe-math-optimizations")\n{FUNCTION}'),
    ("kernel.c", f'__attribute__((optimize("Ofast"))) {FUNCTION}'),
    ("kernel.c", f'__attribute__((__optimize__("fast" "-math"))) {FUNCTION}'),
    ("kernel.c", f"#define HOW optimize(OPTIONS)\n__attribute__((HOW)) {FUNCTION}"),
    ("kernel.c", f'_Pragma("GCC optimize(\\"associative-math\\")")\n{FUNCTION}'),
    ("kernel.cpp", f'[[gnu::optimize("fast-math")]] {FUNCTION}'),
    ("kernel.c", "#pragma clang fp reassociate(on)\n" + FUNCTION),
    ("kernel.c", "#include <xmmintrin.h>\nvoid f(void) { _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_ON); }\n"),
    ("kernel.c", 'void f(unsigned m) { __asm__("ldmxcsr %0" :: "m"(m)); }\n'),
]
PLAIN = [
    ("kernel.flags", "-O3 -march=native -fno-math-errno -fno-trapping-math -funroll-loops -fno-fast-math\n"),
    ("Makefile", "# -ffast-math would change the meaning\nall:\n\tgcc -O2 kernel.c\n"),
    ("kernel.c", f'#pragma GCC optimize("O3,tree-vectorize")\n#pragma GCC target("avx2,fma")\n{FUNCTION}'),
    ("kernel.c", f'__attribute__((optimize("O3"))) {FUNCTION}'),
    ("kernel.c", f"/* compiled without -ffast-math */ // Ofast\n{FUNCTION}void optimize(int n) {{ optimize(n); }}\n"),
    ("kernel.py", "@numba.njit(fastmath=False)\ndef f(x):\n    return x.sum()\n"),
]


def refusal(before, after, **contract):
    return find_refusal(find_added(before, after), make_hypothesis(bucket="K1"), make_contract(**contract))


@pytest.mark.parametrize(("path", "text"), RELAXED)
def test_a_candidate_that_relaxes_arithmetic_is_refused_in_one_line(path, text):
    before = {path: "" if not path.endswith(".c") else FUNCTION}
    told = refusal(before, {path: text})
    assert told is not None
    assert "\n" not in told.detail
    assert f"{path}:" in told.detail
    assert "relaxed-math" in told.detail
    assert told.detail.endswith("write it without, or allow it in ridgeline.yaml: relaxed_math: allowed")


@pytest.mark.parametrize(("path", "text"), RELAXED)
def test_a_contract_may_allow_it_and_it_is_told(path, text):
    added = find_added({path: ""}, {path: text})
    contract = make_contract(relaxed_math="allowed", audit={"allow": ["build-setting"]})
    told = find_refusal(added, make_hypothesis(bucket="K1"), contract)
    assert told is None or "relaxed-math" not in told.detail
    assert any(
        "relaxed-math" in note and "allowed by relaxed_math" in note for note in list_audit_notes(added, contract)
    )


@pytest.mark.parametrize(("path", "text"), PLAIN)
def test_options_that_keep_the_meaning_are_free(path, text):
    assert not [item for item in find_added({path: ""}, {path: text}) if item.rule == "relaxed-math"]


def test_what_the_original_has_stays_and_more_of_it_is_refused():
    before = {"kernel.flags": "-O2 -ffast-math\n"}
    assert refusal(before, {"kernel.flags": "-O3 -march=native -ffast-math\n"}) is None
    assert refusal({"kernel.flags": "-fno-signed-zeros\n"}, {"kernel.flags": "-fno-signed-zeros -ffast-math\n"})


def test_the_catalog_proposes_it_only_where_it_is_allowed():
    for relaxed_math, offered in (("refused", False), ("allowed", True)):
        contract = make_contract(flags_file="kernel.flags", relaxed_math=relaxed_math)
        now = brief(naive("softmax_c"), contract=contract)
        planner = CatalogPlanner()
        assert ("gcc-relaxed-math" in [lever.id for lever in planner.order(now)[0]]) is offered
        assert ("gcc-relaxed-math" in [card.id for card in levers(load(), now)]) is offered
        if not offered:
            assert any("-ffast-math changes what arithmetic means" in line for line in planner.propose(now).dropped)


def test_a_models_answer_with_it_is_refused_before_it_is_tried():
    answer = "Faster.\n\nFILE kernel.flags\n````\n-O3 -ffast-math\n````\n"
    sources = {"kernel.flags": "-O2\n"}
    contract = make_contract(flags_file="kernel.flags", kernel_source=("kernel.c",))
    said = apply_answer(answer, sources, contract)
    assert isinstance(said, Wrong)
    assert said.why.startswith("kernel.flags: -ffast-math changes what NaN, infinity, subnormals")
    allowed = apply_answer(answer, sources, contract.model_copy(update={"relaxed_math": "allowed"}))
    assert not isinstance(allowed, Wrong)
