"""The ladder on a GPU that is not here: the compiler's rung is real, ncu and rocprofv3 are stand-ins or missing."""

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ridgeline.agent.verification import profile_calls
from ridgeline.graph.contract import judge_commands
from ridgeline.graph.evidence import Ceilings, Machine, Profiled
from ridgeline.graph.kernel_profile import KernelProfile
from ridgeline.graph.loop.build import CHECKPOINTED
from ridgeline.sandbox.harness import judge_cache
from ridgeline.sandbox.profiles.profilers import gpu_fallback
from ridgeline.sandbox.profiles.profilers.gpu_fallback import GpuProfiler
from tests import standins_campaign
from tests.assembly import AMD
from tests.fakes import FakeJudge
from tests.rooms import open_room, script_contract
from tests.standins_profilers import counted, trace

DATA = Path(__file__).resolve().parents[1] / "data" / "ncu"
TASKS = Path(__file__).resolve().parents[2] / "evals" / "tasks"
CARDS = {"amd": ("AMD Instinct MI300X", "gfx942"), "nvidia": ("NVIDIA H100 80GB HBM3", "sm_90")}
PROGRAM = "#!/bin/sh\necho kernel_time_us=12.5\necho calls=3\n"
FILES = {"kernel.s": AMD, "program.sh": PROGRAM, "test.sh": "#!/bin/sh\n", "bench.sh": "#!/bin/sh\n"}
CALLS = [("tile", 1_000_000 + n * 12_000, 1_010_000 + n * 12_000) for n in range(9)]
BYTES = {
    "TCC_EA0_RDREQ_sum": 1_000_000,
    "TCC_EA0_RDREQ_32B_sum": 0,
    "TCC_BUBBLE_sum": 0,
    "TCC_EA0_WRREQ_sum": 0,
    "TCC_EA0_WRREQ_64B_sum": 0,
}


class Card:
    """A device that nobody has asked whether it is there."""

    def __init__(self, kind, copy_gbps=None):
        self.kind, self.copy_gbps = kind, copy_gbps

    def machine(self):
        name, arch = CARDS[self.kind]
        return Machine(kind=self.kind, name=name, arch=arch, fingerprint="f" * 64)

    def ceilings(self, dtype, *, fresh=False):
        return Ceilings(copy_gbps=self.copy_gbps, flops_gflops=None, method="said by the test", machine="f" * 64)


@pytest.fixture
def room(make_repository, tmp_path, monkeypatch):
    """`room(kind, files)` -> the room, and the profiler of its version."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))

    def make(kind, files=None, *, copy_gbps=None, **fields):
        own = {
            "kernel_source": ("kernel.s",),
            "target_backend": "HIP" if kind == "amd" else "CUDA",
            "target_gpu": CARDS[kind][1],
            "profile": {"command": ("./program.sh",), "kernel": "tile"},
        }
        contract = script_contract(**{**own, **fields})
        here = open_room(make_repository({**FILES, **(files or {})}), tmp_path / "campaign", contract)
        card = Card(kind, copy_gbps)
        return here, GpuProfiler(here.commands, here.builder, artifacts=here.artifacts, device=card)

    return make


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """`tools(script, files)`: a stand-in and what it replays, first on PATH."""

    def make(script, files):
        folder = tmp_path / "tools"
        standins_campaign.install(folder, script, files)
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    return make


def test_without_a_profiler_the_compiler_and_the_programs_own_time_are_left(room, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    here, profiler = room("amd")
    seen = profiler.profile(here.base, purpose="p")
    assert (seen.rung, seen.kernel) == ("isa", None)
    assert {name: seen.counter(name) for name in ("spills", "scratch_bytes", "registers", "kernel_time_us")} == {
        "spills": 3, "scratch_bytes": 8, "registers": 116, "kernel_time_us": 12.5,
    }  # fmt: skip
    assert {seen.rung_of(name) for name in ("spills", "occupancy", "lds_bytes")} == {"isa"}
    assert seen.rung_of("kernel_time_us") == "events"
    counts = ("instructions", "mfma_instructions", "barriers", "lds_instructions", "load_instructions")
    assert [seen.counter(name) for name in counts] == [18, 1, 1, 3, 3]
    assert "rocprofv3 is not installed" in seen.notes
    assert json.loads(here.artifacts.get(seen.report))["compiler"]["resources"]["vgpr_spills"] == 3


def test_the_compiler_alone_is_asked_without_running_the_program(room):
    here, profiler = room("amd", {"program.sh": "#!/bin/sh\nexit 9\n"})
    seen = profiler.inspect(here.base, purpose="p")
    assert (seen.rung, seen.gpu_s, seen.counter("spills"), seen.counter("registers")) == ("isa", 0, 3, 116)
    assert not [note for note in seen.notes if "kernel_time_us" in note or "failed" in note]
    assert room("amd", profile=None)[1].inspect(here.base, purpose="p") is None


class CompiledJudge(FakeJudge):
    """One that had compiled ten bytes for each version."""

    def read_compiled(self, task_file: Path, version: Path) -> bytes:
        assert (version / "kernel.s").is_file()
        return b"ten bytes."


def test_runs_under_profilers_start_with_what_the_tests_had_compiled(room, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    program = (
        '#!/bin/sh\n[ -n "$TRITON_CACHE_DIR" ] && echo kernel_time_us=$(wc -c < "$RIDGELINE_COMPILED")\necho calls=3\n'
    )
    here, _ = room("nvidia", {"program.sh": program}, **judge_commands("task.yaml"))
    commands = replace(here.commands, judge=CompiledJudge())
    profiler = GpuProfiler(commands, here.builder, artifacts=here.artifacts, device=Card("nvidia"))
    assert profiler.profile(here.base, purpose="p").counter("kernel_time_us") == 10


def test_a_version_under_a_profiler_finds_in_its_cache_what_was_compiled_before(tmp_path, monkeypatch):
    (tmp_path / "before").mkdir()
    (tmp_path / "before" / "made").write_text("by the tests")
    (tmp_path / "pack").write_bytes(judge_cache.pack(str(tmp_path / "before"), 1000))
    (tmp_path / "task.yaml").write_text(
        "name: t\nlanguage: python\nsource: [kernel.py]\nentry: run\ninputs: [{name: x, shape: [n]}]\n"
        "outputs: [{name: y, shape: [n]}]\nshapes: [{label: s, dims: {n: 8}}]\n"
    )
    (tmp_path / "reference.py").write_text("def reference(x):\n    return x\n")
    (tmp_path / "kernel.py").write_text(
        "import os\nopen(os.environ['XDG_CACHE_HOME'] + '/made').read().index('tests')\ndef run(x, y):\n    y[:] = x\n"
    )
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert profile_calls(tmp_path / "task.yaml", None, "s", calls=1, device="cpu") != 0
    monkeypatch.setenv(gpu_fallback.COMPILED, str(tmp_path / "pack"))
    assert profile_calls(tmp_path / "task.yaml", None, "s", calls=1, device="cpu") == 0


@pytest.mark.feature("F092")
def test_counters_trace_compiler_and_roofline_stand_side_by_side(room, tools):
    files = {"plain-trace.csv": trace(*CALLS), "plain-counted.csv": counted("tile", **BYTES)}
    tools("rocprofv3", files | {"counters": "SQ_WAVES " + " ".join(BYTES)})
    here, profiler = room("amd", copy_gbps=8000.0)
    seen = profiler.profile(here.base, purpose="p")
    assert seen.rung == "rocprofv3"
    stands = {origin.name: origin.rung for origin in seen.origins}
    assert stands["kernel_time_us"] == "trace"
    assert stands["hbm_bandwidth"] == stands["dram_pct"] == "counters"
    assert stands["spills"] == stands["occupancy"] == "isa"
    assert seen.counter("kernel_time_us") == 10
    assert seen.counter("dram_pct") == pytest.approx(100 * 64e6 / 10_000 / 8000, rel=0.01)
    source = next(origin.source for origin in seen.origins if origin.name == "dram_pct")
    assert "copy bandwidth measured here" in source
    numbers = {said.name: said.rung for said in seen.kernel.numbers}
    assert numbers["regs.spilled"] == "isa"
    assert numbers["regs.arch"] == "trace"
    assert not any("alone" in note for note in seen.notes), "there was no other kernel"


def test_another_kernel_than_the_named_one_is_not_taken_for_it(room, tools):
    tools("rocprofv3", {"plain-trace.csv": trace(("other", 0, 9_000)), "plain-counted.csv": "", "counters": ""})
    here, profiler = room("amd")
    seen = profiler.profile(here.base, purpose="p")
    assert seen.kernel is None
    assert any("recorded were other" in note for note in seen.notes)
    assert seen.rung == "isa"


SPLIT = """import triton
@triton.autotune(configs=[], key=[])
@triton.jit
def split_kernel(x): pass
@triton.jit(noinline=True)
def merge_kernel(x): pass
def run(x): pass
"""


def test_kernels_that_took_the_named_ones_place_are_looked_at(room, tools):
    long, short = (("split_kernel", 0, 9_000), ("split_kernel", 20_000, 29_000)), (("merge_kernel", 10_000, 11_000),)
    fill = ("void at::native::vectorized_elementwise_kernel<4>", 40_000, 90_000)
    tools("rocprofv3", {"plain-trace.csv": trace(*long, *short, fill), "plain-counted.csv": "", "counters": ""})
    here, profiler = room("amd", {"kernel.py": SPLIT}, kernel_source=("kernel.py",))
    seen = profiler.profile(here.base, purpose="p")
    assert seen.kernel is not None
    assert seen.kernel.kernel == "split_kernel"
    assert any("looked for merge_kernel, split_kernel" in note for note in seen.notes), seen.notes
    (others,) = (note for note in seen.notes if note.startswith("counters are of split_kernel alone; "))
    assert others.endswith("vectorized_elementwise_kernel<4> (50 us in all), merge_kernel (1 us in all)")


KEPT = """import triton
@triton.jit
def tile(x): pass
@triton.jit
def broad(x): pass
"""


ONLY_BROAD = """#!/bin/sh
case "$*" in *"regex:tile "*) what=none;; *) what=plain;; esac
while [ $# -gt 0 ]; do case "$1" in --log-file) out=$2;; --) break;; esac; shift; done
cp "HERE/$what.csv" "$out"
"""


def test_a_kernel_that_is_kept_for_other_sizes_leaves_the_counters_to_the_one_that_runs(room, tools, monkeypatch):
    monkeypatch.setitem(standins_campaign.SCRIPTS, "ncu", ONLY_BROAD)
    whole = (DATA / "h100_raw.csv").read_text().replace("softmax_kernel", "broad")
    tools("ncu", {"none.csv": "==WARNING== No kernels were profiled.\n", "plain.csv": whole})
    here, profiler = room("nvidia", {"kernel.py": KEPT}, kernel_source=("kernel.py",))
    seen = profiler.profile(here.base, purpose="p")
    assert seen.kernel is not None, seen.notes
    assert (seen.rung, seen.kernel.kernel) == ("ncu", "broad")
    assert "the program launches no tile: looked for the sources' other kernels, broad" in seen.notes
    assert not any("no kernels were profiled" in note for note in seen.notes), "what was mended is no failure to read"
    assert seen.rung_of("dram_pct") == "counters"


def test_a_kernel_that_is_kept_for_other_sizes_is_none_that_a_trace_shows(room, tools):
    calls = [("broad", begin, end) for _, begin, end in CALLS]
    tools("rocprofv3", {"plain-trace.csv": trace(*calls), "plain-counted.csv": counted("broad", **BYTES)})
    here, profiler = room("amd", {"kernel.py": KEPT}, kernel_source=("kernel.py",))
    seen = profiler.profile(here.base, purpose="p")
    assert seen.kernel.kernel == "broad"
    assert "the program launches no tile: looked for the sources' other kernels, broad" in seen.notes


@pytest.mark.parametrize(
    ("sources", "answer"),
    [
        ({"k.cu": "__global__ void tile(int x) {}"}, ("tile", "", ())),
        ({"k.cu": "__global__ void tile(int x) {}\n__global__ void b(int x) {}"}, ("tile", "", ("b",))),
        (
            {"k.cu": "template <int N>\n__global__ void __launch_bounds__(128, 2) part(int x) {}"},
            ("(?:tile|part)", "part", ()),
        ),
        (
            {"k.hip": 'extern "C" __global__ __launch_bounds__(64) void a(int) {}\n__global__ static void b(int) {}'},
            ("(?:tile|a|b)", "a, b", ()),
        ),
        ({"k.py": "def f(: broken"}, ("tile", "", ())),
        ({"k.c": "void other(void);"}, ("tile", "", ())),
    ],
)
def test_which_kernels_profilers_look_for(sources, answer):
    assert gpu_fallback.choose_kernels("tile", sources) == answer


def test_where_the_reader_is_not_installed_lower_rungs_are_left(room, tools, monkeypatch):
    """Machines that get the few wheels of `make wheels` have no numpy."""
    monkeypatch.setitem(sys.modules, "numpy", None)
    tools("rocprofv3", {"plain-trace.csv": trace(*CALLS), "plain-counted.csv": "", "counters": ""})
    here, profiler = room("amd")
    seen = profiler.profile(here.base, purpose="p")
    assert (seen.rung, seen.rung_of("kernel_time_us")) == ("isa", "events")
    assert any("numpy" in note for note in seen.notes), seen.notes


def test_a_recording_that_cannot_be_read_is_a_note(room, tools):
    tools("ncu", {"plain.csv": "this is no CSV\n"})
    here, profiler = room("nvidia")
    seen = profiler.profile(here.base, purpose="p")
    assert seen.rung == "timing_only"
    assert any("ncu_1.csv" in note for note in seen.notes)
    assert any("compiler report: kernel.s: " in note for note in seen.notes), "made for another vendor's card"


def test_a_program_that_changes_its_judge_shows_nothing(room, tools):
    tools("ncu", {"plain.csv": ""})
    here, profiler = room("nvidia", {"program.sh": PROGRAM + "echo 'exit 0' > test.sh\n"})
    seen = profiler.profile(here.base, purpose="p")
    assert (seen.rung, seen.counters) == ("timing_only", ())
    assert seen.notes[0].endswith("changed by the profile command: test.sh")


def test_a_version_that_does_not_build_shows_nothing(room):
    here, profiler = room("amd", rebuild={"required": True, "command": ("false",)})
    seen = profiler.profile(here.base, purpose="p")
    assert seen.counters == ()
    assert "does not build" in seen.notes[0]


def test_no_profile_command_is_no_profile(room):
    here, profiler = room("amd", profile=None)
    assert profiler.profile(here.base, purpose="p") is None


def test_a_profile_round_trips_and_may_be_checkpointed(room, tools):
    tools("rocprofv3", {"plain-trace.csv": trace(*CALLS), "plain-counted.csv": "", "counters": ""})
    here, profiler = room("amd")
    seen = profiler.profile(here.base, purpose="p")
    assert Profiled.model_validate_json(seen.model_dump_json()) == seen
    assert (KernelProfile.__module__, "KernelProfile") in CHECKPOINTED


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["amd", "nvidia"])
def test_a_shipped_triton_kernel_is_compiled_as_its_isa_toml_says(tmp_path, kind):
    pytest.importorskip("triton")
    tree = tmp_path / "tree"
    shutil.copytree(TASKS / "softmax_triton", tree)
    contract = script_contract(kernel_source=("kernel.py",), profile={"command": ("./x",), "kernel": "softmax_kernel"})
    found = gpu_fallback.look(contract, tree, Card(kind).machine())
    assert found.report is not None, found.why
    assert found.report.kernel == "softmax_kernel"
    assert found.report.target.arch == CARDS[kind][1]
    assert found.seconds > 0
    if kind == "amd":
        assert found.report.resources.vgpr_spills == 0
        assert found.report.occupancy is not None


DESCRIPTORS = """import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def helper(x):
    return x * 2.0


@triton.jit
def copy_kernel(x_desc, y_ptr, COLS: tl.constexpr):
    row = tl.program_id(0)
    tl.store(y_ptr + row * COLS + tl.arange(0, COLS), tl.reshape(helper(x_desc.load([row, 0])), [COLS]))


def softmax(x, y):
    copy_kernel[(x.shape[0],)](TensorDescriptor(x, list(x.shape), [x.shape[1], 1], [1, 256]), y, COLS=256)
"""


@pytest.mark.slow
def test_a_kernel_that_took_another_name_is_compiled_with_its_tensor_descriptors(tmp_path):
    pytest.importorskip("triton")
    (tmp_path / "kernel.py").write_text(DESCRIPTORS)
    (tmp_path / "isa.toml").write_text('[softmax_kernel]\ncall = "softmax(fp32[64,256], fp32[64,256])"\n')
    contract = script_contract(kernel_source=("kernel.py",), profile={"command": ("./x",), "kernel": "softmax_kernel"})
    findings = gpu_fallback.look(contract, tmp_path, Card("nvidia").machine())
    assert findings.report is not None, findings.why
    assert findings.report.kernel == "copy_kernel"


@pytest.mark.slow
def test_of_a_kernel_that_is_kept_for_other_sizes_the_one_that_the_call_launches_is_compiled(tmp_path):
    pytest.importorskip("triton")
    kept = "@triton.jit\ndef softmax_kernel(x_ptr):\n    tl.store(x_ptr, 1.0)\n\n\ndef softmax"
    (tmp_path / "kernel.py").write_text(DESCRIPTORS.replace("def softmax", kept))
    (tmp_path / "isa.toml").write_text('[softmax_kernel]\ncall = "softmax(fp32[64,256], fp32[64,256])"\n')
    contract = script_contract(kernel_source=("kernel.py",), profile={"command": ("./x",), "kernel": "softmax_kernel"})
    findings = gpu_fallback.look(contract, tmp_path, Card("nvidia").machine())
    assert findings.report is not None, findings.why
    assert findings.report.kernel == "copy_kernel"
