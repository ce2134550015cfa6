"""Real pairs of a real C kernel, alone on their core and beside a process that never rests."""

import contextlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ridgeline.graph.evidence import BenchmarkFailed, Comparison
from ridgeline.sandbox.workspace.commands import pinned_core
from tests.rooms import Room, open_room, script_contract

BENCH = r"""
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e6 * t.tv_sec + 1e-3 * t.tv_nsec;
}
int main(int count, char **word) {
  double (*work[2])(void);
  for (int side = 0; side < 2; side++) {
    char path[4096];
    snprintf(path, sizeof path, "%s/kernel.so", word[1 + side]);
    void *library = dlopen(path, RTLD_NOW);
    if (!library) { puts(dlerror()); return 2; }
    *(void **)&work[side] = dlsym(library, "work");
  }
  FILE *csv = fopen(word[3], "w");
  fputs("label,block,slot,side,time_us,at_us\n", csv);
  for (int block = 0; block < atoi(word[5]); block++)
    for (int slot = 0; slot < 4; slot++) {
      int side = (slot == 1 || slot == 2) ^ ((atoi(word[6]) + block) & 1);
      double began = now();
      volatile double kept = work[side]();
      (void)kept;
      double ended = now();
      fprintf(csv, "small,%d,%d,%c,%.3f,%.0f\n", block, slot, "ab"[side], ended - began, ended);
    }
  return fclose(csv) || count != 7;
}
"""
KERNEL = "double work(void) { double s = 0; for (int i = 1; i < 20000000; i++) s += 1.0 / i; return s; }\n"
COMMAND = ("./paired", "{a}", "{b}", "{csv}", "{shapes}", "{blocks}", "{seed}")
BUILD = "#!/bin/sh\nset -e\ngcc -O1 -shared -fPIC kernel.c -o kernel.so\ngcc -O1 bench.c -o paired -ldl\n"
SPIN = "print(flush=True)\nwhile True: pass"
NVIDIA = """#!/bin/sh
case "$*" in
  *compute-apps*) echo '453, train.py, 650';;
  *-lms*) exec sleep 60;;
  *) echo "$(date -u '+%Y/%m/%d %H:%M:%S.%3N'), 345, 2619, 41, 75.5, 0x1, 0, 0, 0";;
esac
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("whole_machine"),
    pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc"),
    pytest.mark.skipif(shutil.which("taskset") is None, reason="needs taskset"),
]


@pytest.fixture
def room(make_repository, tmp_path: Path):
    def make(**fields) -> Room:
        files = {
            "kernel.c": KERNEL,
            "bench.c": BENCH,
            "build.sh": BUILD,
            "test.sh": "#!/bin/sh\n",
            "bench.sh": "#!/bin/sh\n",
        }
        contract = {
            "kernel_source": ("kernel.c",),
            "rebuild": {"required": True, "command": ("./build.sh",)},
            "paired_command": COMMAND,
        }
        return open_room(make_repository(files), tmp_path / "campaign", script_contract(**{**contract, **fields}))

    return make


@contextlib.contextmanager
def neighbour() -> Iterator[None]:
    """A process that never rests, on the core on which commands are timed."""
    argv = ("taskset", "-c", str(pinned_core()), sys.executable, "-c", SPIN)
    other = subprocess.Popen(argv, stdout=subprocess.PIPE)
    try:
        assert other.stdout is not None
        other.stdout.readline()  # it rests no more
        yield
    finally:
        other.kill()
        other.communicate()


def timed(here: Room, *, blocks=10) -> Comparison | BenchmarkFailed:
    other = here.candidate({"kernel.c": KERNEL + "/* the same */\n"})
    return here.timer.compare(
        best=here.base, candidate=other, shapes=("small",), first_pair=0, pairs=2, blocks=blocks, purpose="round-2"
    )


@pytest.mark.slow
def test_beside_a_process_that_never_rests_nothing_is_called_slow(room):
    here = room()
    with neighbour():
        found = timed(here)
    assert isinstance(found, BenchmarkFailed)
    assert found.reason == "unstable"
    assert "of 20 blocks left out: other processes used" in found.detail
    assert "2 of 2 pairs were disturbed and timed again, 4 more tries in all" in found.detail


@pytest.mark.slow
def test_alone_on_its_core_no_block_is_left_out(room):
    here = room()
    for _ in range(5):
        found = timed(here)
        if isinstance(found, Comparison) and not found.dropped_blocks:
            break
    else:
        pytest.skip("other processes of this machine never left the core alone")
    assert (found.dropped_blocks, found.taken_blocks) == (0, 20)
    for pair in json.loads(here.artifacts.get(found.raw)):
        (process,) = pair["processes"]
        assert process["conditions"]["core"] == pinned_core()
        assert process["conditions"]["slices"]
        assert pair["disturbed"] == []


@pytest.mark.slow
def test_a_device_with_a_clock_of_its_own_does_not_care_for_the_processor(room):
    here = room(scoring={"primary_metric": "GFLOPS", "time_ms": "Time (ms)", "engine": "event"})
    with neighbour():
        found = timed(here, blocks=5)
    assert isinstance(found, Comparison)
    assert found.dropped_blocks == 0


def test_a_card_that_others_use_gives_no_numbers(room, tmp_path, monkeypatch):
    tool = tmp_path / "tools" / "nvidia-smi"
    tool.parent.mkdir()
    tool.write_text(NVIDIA, encoding="utf-8")
    tool.chmod(0o755)
    here = room(target_backend="CUDA", target_gpu="H100")
    monkeypatch.setenv("PATH", f"{tool.parent}:/usr/local/bin:/usr/bin:/bin")
    found = timed(here, blocks=2)
    assert isinstance(found, BenchmarkFailed)
    assert found.reason == "unstable"
    assert "other processes were computing on the card: train.py (453)" in found.detail
