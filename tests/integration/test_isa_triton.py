"""Triton kernels compiled ahead of time: the compiler's own numbers, and files that mean harm. Real compilers."""

import os
import re
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from ridgeline.agent.analysis import isa_request
from ridgeline.sandbox.profiles.isa.report import inspect, read_assembled
from ridgeline.sandbox.profiles.isa.tools import Place
from ridgeline.sandbox.profiles.isa.triton import Call, CompileRequest, compiler
from ridgeline.sandbox.profiles.isa.values import NotCompiled, target_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (find_spec("triton") and find_spec("torch")), reason="needs the extra triton"),
]
TASKS = Path(__file__).parents[2] / "evals" / "tasks"
MATMUL = Call(name="run", arguments=("fp16[4096,4096]",) * 3)
SPILLING = {"BLOCK_M": "256", "BLOCK_N": "256", "BLOCK_K": "64", "GROUP_SIZE_M": "1"}
KERNEL = """
import triton
import triton.language as tl

@triton.jit
def add(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) + 1.0, mask=at < n)
"""
WANTED = {"kernel": "add", "signature": ("*fp32", "*fp32", "i32:16"), "constants": (("BLOCK", "256"),)}


def place(tmp_path, timeout_s=120.0):
    return Place(python=sys.executable, folder=tmp_path, timeout_s=timeout_s)


def assemble(wanted, targets, where):
    made = compiler(wanted, targets, where)
    return [made(target) for target in targets]


def hostile(tmp_path, text, **options):
    path = tmp_path / "kernel.py"
    path.write_text(text, encoding="utf-8")
    return inspect(CompileRequest(file=path, **WANTED), [target_of("gfx942")], **options).inspections


SHIPPED = [
    (path.parent.name, kernel)
    for path in sorted(TASKS.glob("*_triton/isa.toml"))
    for kernel in tomllib.loads(path.read_text(encoding="utf-8"))
]

STRAIGHT = "flip_kernel"
"""The one kernel without a loop."""


@pytest.mark.parametrize(("task", "kernel"), SHIPPED)
def test_the_shipped_tasks_as_their_compilers_see_them(task, kernel, tmp_path):
    wanted = isa_request.resolve_targets(isa_request.InspectionRequest(file=TASKS / task, kernel=kernel, timeout=300.0))
    names = ("gfx942", "gfx950", "sm_90")
    assembled = assemble(wanted, [target_of(name) for name in names], place(tmp_path, 300.0))
    for raw in assembled:
        one = read_assembled(raw)
        report, held = one.report, one.report.resources
        assert report.compiler.startswith("triton ")
        assert (held.vgpr_spills, held.scratch_bytes, held.lds_bytes) == (0, 0, raw.shared_bytes)
        assert held.threads == raw.threads
        if report.target.vendor == "amd":
            check_amd(report, raw.assembly)
        else:
            assert report.form == "sass"
            assert held.arch_vgpr == raw.resources.arch_vgpr
            assert report.shape.count("matrix") == len(re.findall(r"\b[HIQ]G?MMA\.", raw.assembly))
        assert (report.shape.count("matrix") > 0) == ("mm" in task or "matmul" in task)
        looped = kernel != STRAIGHT
        assert sum(loop.hot for loop in report.shape.loops) == looped, report.shape.loops
        assert any("kernel.py:" in source for loop in report.shape.loops for source in loop.source) == looped


def check_amd(report, text):
    told = {name: int(value) for name, value in re.findall(r"^; (\w+):? =? ?(\d+)$", text, re.MULTILINE)}
    held = report.resources
    assert (held.arch_vgpr, held.accum_vgpr, held.vgpr_total) == tuple(
        told[name] for name in ("NumVgprs", "NumAgprs", "TotalNumVgprs")
    )
    assert (held.scratch_bytes, held.code_bytes) == (told["ScratchSize"], told["codeLenInByte"])
    assert report.occupancy.register_tier == told["Occupancy"]  # the compiler leaves LDS out
    assert 0.8 * held.vgpr_total <= report.shape.pressure[0].live <= held.vgpr_total
    for kind, pattern in (("matrix", r"^\tv_mfma_"), ("barrier", r"^\ts_barrier"), ("wait", r"^\ts_waitcnt")):
        assert report.shape.count(kind) == len(re.findall(pattern, text, re.MULTILINE))


def test_the_launch_is_that_of_the_file(tmp_path):
    text = (TASKS / "matmul_triton" / "kernel.py").read_text(encoding="utf-8")
    path = tmp_path / "kernel.py"
    path.write_text(text.replace("BLOCK_N = 64", "BLOCK_N = 128").replace("num_warps=8", "num_warps=4"))
    (one,) = inspect(CompileRequest(file=path, call=MATMUL), [target_of("gfx950")]).inspections
    assert one.report.resources.threads == 256
    assert "BLOCK_N=128" in one.report.notes[0]


def test_constants_stand_in_place_of_those_that_the_call_passes():
    path = TASKS / "matmul_triton" / "kernel.py"
    wanted = CompileRequest(file=path, call=MATMUL, constants=(("BLOCK_N", "128"),))
    (one,) = inspect(wanted, [target_of("gfx950")]).inspections
    assert "BLOCK_M=64, BLOCK_N=128, BLOCK_K=32" in one.report.notes[0]
    assert "--constants in place of what the call passes: BLOCK_N" in one.report.notes
    with pytest.raises(NotCompiled, match="matmul_kernel has no parameter 'BLOCK_X'"):
        inspect(wanted.model_copy(update={"constants": (("BLOCK_X", "128"),)}), [target_of("gfx950")])


def test_a_call_may_quote_text_and_says_where_it_needs_values(tmp_path):
    path = tmp_path / "kernel.py"
    launcher = (
        "\ndef run(x, mode, early=False):\n    assert mode == 'llama'\n    if early:\n        x.sum().item()\n"
        "    add[(1,)](x, x, 64, BLOCK=64)\n    return x.sum().item()\n"
    )
    path.write_text(KERNEL + launcher, encoding="utf-8")
    arguments = ("fp32[64]", "'llama'")
    (one,) = inspect(
        CompileRequest(file=path, call=Call(name="run", arguments=arguments)), [target_of("gfx942")]
    ).inspections
    assert one.report.kernel == "add"  # launched before the call needs a value
    early = CompileRequest(file=path, call=Call(name="run", arguments=(*arguments, "true")))
    with pytest.raises(NotCompiled, match="reads values of a tensor, which --call has not; give --signature"):
        inspect(early, [target_of("gfx942")])


def test_spills_are_those_of_the_metadata(tmp_path):
    wanted = CompileRequest(
        file=TASKS / "matmul_triton" / "kernel.py",
        kernel="matmul_kernel",
        signature=("*fp16", "*fp16", "*fp16", "i32", "i32", "i32"),
        constants=tuple(SPILLING.items()),
        options=(("num_warps", 4), ("num_stages", 2)),
    )
    (raw,) = assemble(wanted, [target_of("gfx942")], place(tmp_path))
    one = read_assembled(raw)
    spills = int(re.search(r"\.vgpr_spill_count: (\d+)", raw.assembly)[1])
    assert one.report.resources.vgpr_spills == spills > 0
    assert one.report.resources.scratch_bytes > 0
    assert one.report.shape.count("scratch") > 0
    assert one.report.occupancy.waves_per_simd <= 1


@pytest.mark.parametrize(
    ("lines", "words", "timeout_s"),
    [
        ("while True:\n    pass\n", "was still running after 8 s", 8.0),
        ("import sys\nsys.exit(3)\n", "exit code 3", 60.0),
        ("import os\nos._exit(0)\n", "gave no answer", 60.0),
        ("x = bytearray(1 << 36)\n", "MemoryError", 60.0),
        ("import os, sys\nos.symlink('/etc/passwd', sys.argv[2]); os._exit(0)\n", "gave no answer", 60.0),
        ("import os, sys\nos.mkfifo(sys.argv[2]); os._exit(0)\n", "no plain file", 60.0),
        ("import os, sys\nopen(sys.argv[2], 'w').write('[' * 10**6); os._exit(0)\n", "meddled", 60.0),
        ("import os, sys\nopen(sys.argv[2], 'w').write('{}'); os._exit(0)\n", "meddled", 60.0),
        ("import os, sys\nopen(sys.argv[2], 'w').truncate(1 << 30); os._exit(0)\n", "no plain file", 60.0),
    ],
)
def test_a_file_that_means_harm_gives_no_report(tmp_path, lines, words, timeout_s):
    with pytest.raises(NotCompiled, match=re.escape(words)):
        hostile(tmp_path, lines, timeout_s=timeout_s)


def test_a_gigabyte_of_words_is_no_obstacle(tmp_path):
    (one,) = hostile(tmp_path, "import os\nfor _ in range(1024):\n    os.write(1, b'x' * 2**20)\n" + KERNEL)
    assert one.report.kernel == "add"


def test_what_the_file_starts_ends_and_sees_no_secret(tmp_path, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "secret")
    kernel = (
        "import os, subprocess\n"
        f"open({str(tmp_path / 'env')!r}, 'w').write(repr(dict(os.environ)))\n"
        f"os.system('sh -c \"echo $$ > {tmp_path / 'pid'}; exec sleep 300\" &')\n"
    )
    hostile(tmp_path, kernel + KERNEL)
    assert "secret" not in (tmp_path / "env").read_text()
    pid = int((tmp_path / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_file_cannot_forge_what_the_compiler_says(tmp_path):
    forging = (
        "import triton, os\n"
        "triton.compile = triton.compiler.compile = lambda *a, **k: None\n"
        "import triton.backends.amd.compiler as amd\n"
        "amd.HIPBackend.make_amdgcn = staticmethod(lambda *a, **k: 'nothing')\n"
    )
    (honest,) = hostile(tmp_path, "\n" * forging.count("\n") + KERNEL)  # the report names lines
    (forged,) = hostile(tmp_path, forging + KERNEL)
    assert forged.report == honest.report


def test_autotuned_kernels_say_which_configuration(tmp_path):
    tuned = KERNEL.replace(
        "@triton.jit",
        "@triton.autotune([triton.Config({'BLOCK': 512}, num_warps=2), triton.Config({'BLOCK': 64})], key=['n'])\n"
        "@triton.jit",
    )
    path = tmp_path / "kernel.py"
    path.write_text(tuned + "\ndef run(x, n):\n    add[(1,)](x, x, n)\n")
    (one,) = inspect(
        CompileRequest(file=path, call=Call(name="run", arguments=("fp32[4096]", "4096"))), [target_of("gfx950")]
    ).inspections
    assert one.report.resources.threads == 128
    assert any("the first of 2 configurations" in note for note in one.report.notes)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"kernel": "other"}, "--kernel: no Triton kernel 'other'; those of the file: add"),
        ({"signature": ("*fp32",)}, "--signature: 1 types for 3 parameters (x, y, n)"),
        ({"constants": ()}, "--constants: a value for BLOCK is missing"),
        ({"constants": (("BLOK", "1"),)}, "--constants: add has no parameter 'BLOK'"),
        ({"constants": (("BLOCK", "100"),)}, "FILE: "),
        ({"signature": ("*fp32", "*nothing", "i32")}, "FILE: "),
    ],
)
def test_requests_that_do_not_fit_the_file(tmp_path, fields, words):
    path = tmp_path / "kernel.py"
    path.write_text(KERNEL)
    with pytest.raises(NotCompiled, match=re.escape(words)):
        inspect(CompileRequest(file=path, **{**WANTED, **fields}), [target_of("gfx942")])


@pytest.mark.parametrize("called", [False, True])
def test_a_library_s_own_autotuner_hides_no_kernel(tmp_path, called):
    """flash-linear-attention derives one from Triton's, and two fifths of its kernels were not found behind it."""
    tuner = """
from triton.runtime.autotuner import Autotuner

class Tuner(Autotuner):
    def run(self, *args, **kwargs):
        raise RuntimeError("timed")

def tune(function):
    return Tuner(function, function.arg_names, [triton.Config({"BLOCK": 256})], ["n"], None, None)

@tune
@triton.jit"""
    path = tmp_path / "kernel.py"
    path.write_text(KERNEL.replace("\n@triton.jit", tuner) + "\ndef run(x, n):\n    add[(1,)](x, x, n)\n")
    wanted = {"call": Call(name="run", arguments=("fp32[4096]", "4096"))} if called else WANTED
    (one,) = inspect(CompileRequest(file=path, **wanted), [target_of("gfx942")]).inspections
    assert one.report.kernel == "add"


def test_a_refused_target_loses_no_other(cli, tmp_path):
    path = tmp_path / "kernel.py"
    path.write_text(KERNEL.replace("+ 1.0", ".to(tl.float8e4nv)"))
    launch = ("--signature", "*fp32,*fp8e4nv,i32", "--constants", "BLOCK=256")
    said = cli("isa", path, *launch, "--target", "sm_80,sm_90", "--json")
    assert said.code == 2
    assert set(said.json["targets"]) == {"sm_90"}
    assert [one["target"] for one in said.json["refused"]] == ["sm_80"]
    assert "not supported in this architecture" in said.err


def test_tensor_memory_bounds_the_blocks(tmp_path):
    """128 x 256 sums of 32 bits take 256 of 512 columns."""
    path = tmp_path / "kernel.py"
    path.write_text("""
import triton
import triton.language as tl

@triton.jit
def product(a, b, c, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, 128)[:, None], tl.arange(0, 256)[None, :], tl.arange(0, 64)
    sums = tl.zeros((128, 256), tl.float32)
    for at in range(0, K, 64):
        sums = tl.dot(tl.load(a + m * K + (at + k)[None, :]), tl.load(b + (at + k)[:, None] * N + n), sums)
    tl.store(c + m * N + n, sums)
""")
    launch = {"signature": ("*fp16", "*fp16", "*fp32"), "constants": (("N", "256"), ("K", "4096"))}
    (one,) = inspect(CompileRequest(file=path, **launch), [target_of("sm_100")]).inspections
    assert one.report.resources.tensor_columns == 256
    assert {limit.name: limit.value for limit in one.report.occupancy.limits}["tensor_memory"] == 8
    hot = next(loop for loop in one.report.shape.loops if loop.hot)
    assert any(count.name == "matrix" for count in hot.counts), "the loop around the waits, not a wait"


def test_code_objects_say_what_the_assembly_says(tmp_path):
    path = tmp_path / "kernel.py"
    path.write_text(KERNEL)
    wanted = CompileRequest(file=path, **WANTED)
    targets = [target_of("gfx90a"), target_of("sm_80")]
    amd, nvidia = assemble(wanted, targets, place(tmp_path))
    for raw, name in ((amd, "add.hsaco"), (nvidia, "add.cubin")):
        binary = tmp_path / name
        binary.write_bytes(raw.binary)
        (given,) = inspect(CompileRequest(file=binary), []).inspections
        (made,) = inspect(wanted, [raw.target]).inspections
        assert given.report.target == raw.target
        assert given.report.resources.vgpr_spills == made.report.resources.vgpr_spills == 0
        assert given.report.resources.arch_vgpr == made.report.resources.arch_vgpr
    assert given.report.shape == made.report.shape


def test_the_command_on_a_task(cli):
    said = cli("isa", TASKS / "softmax_triton", "--target", "gfx942,gfx950", "--json")
    assert said.code == 0, said.err
    assert set(said.json["targets"]) == {"gfx942", "gfx950"}
    assert said.json["kernel"] == "softmax_kernel"
