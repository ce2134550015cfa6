"""The rung of torch.profiler: a stand-in for torch with a GPU, the real torch without one, programs without torch."""

import importlib.util
import json
import os
import subprocess
import sys

import pytest

from ridgeline.graph.evidence import Machine, Profiled
from ridgeline.sandbox.profiles.profilers import gpu
from ridgeline.sandbox.profiles.profilers.gpu_fallback import GpuProfiler
from ridgeline.sandbox.profiles.readers.detect import read_recordings
from tests import fake_torch, standins_campaign
from tests.rooms import OUTSIDE, open_room, script_contract
from tests.torch_traces import H100, called, copied, document, kernel, launches, nvidia

PROGRAM = """import sys
import torch
print("arguments", sys.argv[1:])
print("kernel_time_us=9.5")
print("calls=4")
"""
FILES = {"kernel.py": "", "program.py": PROGRAM, "test.sh": "#!/bin/sh\n", "bench.sh": "#!/bin/sh\n"}
NAMES = {"nvidia": (H100["name"], "sm_90"), "amd": ("AMD Instinct MI300X", "gfx942")}
PASSED = ("PYTHONPATH", "FAKE_TORCH", "FAKE_TORCH_TRACE")


class Card:
    """A device that nobody has asked whether it is there."""

    def __init__(self, kind):
        self.kind = kind

    def machine(self):
        name, arch = NAMES[self.kind]
        return Machine(kind=self.kind, name=name, arch=arch, fingerprint="f" * 64)

    def ceilings(self, dtype, *, fresh=False):
        return None


@pytest.fixture
def profiled(make_repository, tmp_path, monkeypatch):
    """`profiled(trace, mode)` -> what the ladder tells of a program whose torch exports that trace."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("PYTHONPATH", str(fake_torch.install(tmp_path / "packages")))

    def make(trace, mode="", *, told=lambda here: None, kind="nvidia", files=None, forbidden=False, **fields):
        (tmp_path / "exported.json").write_text(trace)
        monkeypatch.setenv("FAKE_TORCH_TRACE", str(tmp_path / "exported.json"))
        monkeypatch.setenv("FAKE_TORCH", mode)
        if forbidden:
            standins_campaign.install(tmp_path / "tools", "ncu-forbidden", {})
            monkeypatch.setenv("PATH", f"{tmp_path / 'tools'}:/usr/bin:/bin")
        own = {
            "kernel_source": ("kernel.py",),
            "target_backend": "TRITON",
            "target_gpu": NAMES[kind][1],
            "profile": {"command": (sys.executable, "program.py", "--x"), "kernel": "tile"},
            "pass_environment": PASSED,
        }
        contract = script_contract(**{**own, **fields})
        here = open_room(make_repository({**FILES, **(files or {})}), tmp_path / "campaign", contract)
        profiler = GpuProfiler(here.commands, here.builder, artifacts=here.artifacts, device=Card(kind))
        told(here)
        return profiler.profile(here.base, purpose="p")

    return make


@pytest.mark.feature("F087")
def test_forbidden_counters_leave_what_torch_saw(profiled):
    seen = profiled(document(called(), copied(), *launches()), forbidden=True)
    assert seen.rung == "torch_profiler"
    assert any("ERR_NVGPUCTRPERM" in note for note in seen.notes)
    stands = {one.name: one.rung for one in seen.origins}
    assert (seen.counter("kernel_time_us"), stands["kernel_time_us"]) == (9.5, "events"), "taken while nothing watched"
    assert (seen.counter("registers"), stands["registers"]) == (64, "torch_profiler")
    assert (seen.counter("lds_bytes"), stands["lds_bytes"]) == (16384, "torch_profiler")
    assert stands["occupancy"] == "analytic"
    assert seen.counter("achieved_occupancy") is None
    assert seen.kernel.display == "tile"
    assert seen.kernel.number("time.median_ns") == 10_000
    assert Profiled.model_validate_json(seen.model_dump_json()) == seen


def test_the_recording_is_kept_and_reads_again(profiled, tmp_path):
    rooms = []
    seen = profiled(document(*launches(), host_name="node17"), told=rooms.append)
    assert seen.kernel.recorded.name == "recordings.tar.gz"
    (again,) = read_recordings(rooms[0].artifacts.path(seen.kernel.recorded))
    assert (again.tool, again.kernels[0].median_ns, again.kernels[0].last.arch_vgpr) == ("torch profiler", 10_000, 64)
    assert "recorded" not in seen.kernel.model_copy(update={"recorded": None}).model_dump(), "as lines were before"


def test_on_rocm_registers_stay_unknown(profiled):
    seen = profiled(document(*launches(make=kernel), cards=(), hip_driver_version=6), kind="amd")
    assert (seen.rung, seen.kernel.vendor, seen.kernel.arch) == ("torch_profiler", "amd", "gfx942")
    assert "rocprofv3 is not installed" in seen.notes
    assert seen.counter("registers") is None
    assert any("neither registers" in note for note in seen.notes)


def test_only_the_gpu_is_recorded_where_there_is_one(profiled):
    seen = profiled(
        document(*launches(), nvidia("of ACTIVITIES", ts=900.0)),
        profile={"command": (sys.executable, "program.py"), "kernel": "of CUDA"},
    )
    assert seen.kernel.display == "of CUDA"


@pytest.mark.parametrize(
    ("mode", "word"),
    [
        ("no-profiler", "torch.profiler does not start: Kineto is not available"),
        ("old", "torch.profiler does not start: No module named 'torch.profiler'"),
        ("lost-card", "did not end well: CUDA error: an illegal memory access"),
        ("broken", "the profile command failed"),
    ],
)
def test_a_profiler_that_does_not_work_costs_the_trace_alone(profiled, mode, word):
    seen = profiled(document(*launches()), mode)
    assert seen.rung == "timing_only"
    assert any(word in note for note in seen.notes), seen.notes
    assert seen.counter("kernel_time_us") == (None if mode == "broken" else 9.5)


@pytest.mark.parametrize(
    ("trace", "word"),
    [
        (document(called()), "ran on a GPU"),
        (document(*launches())[:400], "is cut or damaged"),
        ("", "ends in the middle"),
        (document(*launches("other")), "recorded were other"),
    ],
)
def test_a_trace_without_the_kernel_is_a_note(profiled, trace, word):
    seen = profiled(trace)
    assert seen.rung == "timing_only"
    assert any(word in note for note in seen.notes), seen.notes
    assert not any("/ridgeline-" in note for note in seen.notes), "the folder goes away"


@pytest.mark.parametrize(
    ("program", "word"),
    [
        ("print('kernel_time_us=5')\n", "nothing in it imported torch"),
        ("import os, torch\nprint('kernel_time_us=5', flush=True)\nos._exit(0)\n", "without Python's exit handlers"),
    ],
)
def test_a_program_that_leaves_no_trace_is_told(profiled, program, word):
    seen = profiled(document(*launches()), files={"program.py": program})
    assert seen.counter("kernel_time_us") == 5
    assert any(word in note for note in seen.notes), seen.notes


def test_a_program_that_is_not_python_is_not_run_again(profiled, tmp_path, monkeypatch):
    (tmp_path / "notes").mkdir()
    monkeypatch.setenv(OUTSIDE, str(tmp_path / "notes"))
    script = f"#!/bin/sh\necho ran >> ${OUTSIDE}/runs\necho kernel_time_us=5\n"
    passed = {"pass_environment": (*PASSED, OUTSIDE), "profile": {"command": ("./program.sh",)}}
    seen = profiled("", files={"program.sh": script}, **passed)
    assert "torch profiler: the program is none of Python's" in seen.notes
    assert (tmp_path / "notes" / "runs").read_text() == "ran\n"


@pytest.mark.parametrize(
    ("program", "answer"),
    [
        (("python3", "-P", "bench.py"), True),
        (("/opt/venv/bin/python3.11", "x"), True),
        (("env", "python3", "x"), True),
        (("./bench.py",), True),
        (("ridgeline", "bench"), True),
        (("./hashbang",), True),
        (("./shell",), False),
        (("./missing",), False),
        (("pythonic/../shell",), False),
        (("./a.out", "--n", "3", "--data", "x.py"), False),
    ],
)
def test_what_counts_as_python(tmp_path, program, answer):
    (tmp_path / "hashbang").write_text("#!/usr/bin/env python3\nimport torch\n")
    (tmp_path / "shell").write_text("#!/bin/sh\npython3 x.py\n")
    (tmp_path / "a.out").write_bytes(b"\x7fELF python")
    assert gpu.is_python(program, tmp_path) is answer


def started(program, tmp_path, **environment):
    """Runs a program with our start-up module as the ladder does; what it printed, and the folder of traces."""
    (tmp_path / "out").mkdir()
    (tmp_path / "program.py").write_text(program)
    argv = gpu.recorded_by((sys.executable, "-B", "program.py"), tmp_path / "out", environment)
    done = subprocess.run(
        argv, cwd=tmp_path, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, tmp_path / "out"


def test_another_start_up_module_still_runs_and_ours_leaves_the_path(tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("MINE = 1\n")
    program = "import sys, sitecustomize\nprint(sitecustomize.MINE, [p for p in sys.path if 'torch_start' in p])\n"
    told, out = started(program, tmp_path, PYTHONPATH=str(own))
    assert told == "1 []\n"
    assert list(out.iterdir()) == []


@pytest.mark.parametrize("code", ["import torch\nraise SystemExit(0)\n", "import torch, json\nimport torch\n"])
def test_the_trace_is_written_once_and_whole(tmp_path, code):
    packages = fake_torch.install(tmp_path / "packages")
    (tmp_path / "exported.json").write_text(document(*launches()))
    _, out = started(code, tmp_path, PYTHONPATH=str(packages), FAKE_TORCH_TRACE=str(tmp_path / "exported.json"))
    (trace,) = out.iterdir()
    assert trace.suffix == ".json"
    assert gpu.traces(out) == ((trace,), ())


def test_a_forked_child_writes_no_second_trace(tmp_path):
    packages = fake_torch.install(tmp_path / "packages")
    (tmp_path / "exported.json").write_text(document(*launches()))
    code = "import os, sys, torch\nchild = os.fork()\nchild and os.waitpid(child, 0)\nsys.exit(0)\n"
    _, out = started(code, tmp_path, PYTHONPATH=str(packages), FAKE_TORCH_TRACE=str(tmp_path / "exported.json"))
    assert len(list(out.iterdir())) == 1


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_the_real_torch_writes_a_chrome_trace(tmp_path):
    """Without a GPU it records the processor; that nothing of it ran on a GPU is said, not taken for a profile."""
    told, out = started("import torch\nprint(float((torch.ones(8, 8) @ torch.ones(8, 8)).sum()))\n", tmp_path)
    assert told == "512.0\n"
    (trace,) = out.glob("trace-*.json")
    names = {event["name"] for event in json.loads(trace.read_text())["traceEvents"]}
    if any("aten::" in name for name in names):
        kept, why = gpu.traces(out)
        assert kept == ()
        assert "ran on a GPU" in why[0]
