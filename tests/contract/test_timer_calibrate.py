"""A version against itself: two checkouts, two builds of a real C kernel, and what is remembered of it."""

import json
import time
from pathlib import Path

import pytest

from ridgeline.graph.evidence import BenchmarkFailed, Comparison
from ridgeline.graph.stats.noise import KnownNoise
from ridgeline.sandbox.store.durable import cache_folder
from ridgeline.sandbox.timing.interleaving import Steady
from ridgeline.sandbox.timing.timer import KEPT_S, BusyMachineRule, Calibrations, ContractTimer
from tests.rooms import OUTSIDE, Room, StillDevice, open_room, script_contract

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
  fputs("label,block,slot,side,time_us\n", csv);
  for (int block = 0; block < atoi(word[5]); block++)
    for (int slot = 0; slot < 4; slot++) {
      int side = (slot == 1 || slot == 2) ^ ((atoi(word[6]) + block) & 1);
      double began = now();
      volatile double kept = work[side]();
      (void)kept;
      fprintf(csv, "small,%d,%d,%c,%.3f\n", block, slot, "ab"[side], now() - began);
    }
  fclose(csv);
  fprintf(stderr, "%s %s\n", word[1], word[2]);
  return count == 7 ? 0 : 3;
}
"""
KERNEL = "double work(void) { double s = 0; for (int i = 1; i < 20000; i++) s += 1.0 / i; return s; }\n"
BUILD = """#!/bin/sh
set -e
echo built >> built.log
gcc -O1 -shared -fPIC kernel.c -o kernel.so
gcc -O1 bench.c -o paired -ldl
"""
COMMAND = ("./paired.sh", "{a}", "{b}", "{csv}", "{shapes}", "{blocks}", "{seed}")


class Desk:
    """A room, and the cache that its timer asks."""

    def __init__(self, make_repository, tmp_path: Path) -> None:
        self.now = time.time()
        self.cache = tmp_path / "cache"
        self.ran = tmp_path / "notes" / "ran"
        self.ran.parent.mkdir()
        self._make, self._root = make_repository, tmp_path

    def room(self, name="one", kernel=KERNEL, paired="", **fields) -> Room:
        script = f'#!/bin/sh\necho "$1 $2" >> {self.ran}\n{paired}\nexec ./paired "$@"\n'
        own = {"kernel.c": kernel, "bench.c": BENCH, "build.sh": BUILD, "paired.sh": script, "test.sh": "#!/bin/sh\n"}
        contract = script_contract(
            **{
                "kernel_source": ("kernel.c",),
                "rebuild": {"required": True, "command": ("./build.sh",)},
                "paired_command": COMMAND,
                "pass_environment": (OUTSIDE,),
                **fields,
            }
        )
        return open_room(self._make(own, name), self._root / f"campaign-{name}", contract)

    def timer(self, here: Room) -> ContractTimer:
        """As in a new process."""
        kept = Calibrations(self.cache, now=lambda: self.now)
        return ContractTimer(
            here.commands, here.builder, artifacts=here.artifacts, device=StillDevice(), calibrations=kept, wait_s=120
        )

    def ask(self, here: Room, commit="", **changes) -> Comparison | BenchmarkFailed:
        asked = {"shapes": ("small",), "pairs": 2, "blocks": 2, "budget_s": 60, "fresh": False}
        return self.timer(here).calibrate(commit or here.base, **{**asked, "purpose": "round-1", **changes})

    def processes(self) -> list[list[str]]:
        """The two folders of every pair that was really timed."""
        return [line.split() for line in self.ran.read_text().splitlines()] if self.ran.exists() else []


@pytest.fixture
def desk(make_repository, tmp_path: Path, monkeypatch) -> Desk:
    desk = Desk(make_repository, tmp_path)
    monkeypatch.setenv(OUTSIDE, str(desk.ran.parent))
    return desk


STILL = """printf 'label,block,slot,side,time_us\\n' > "$3"
for block in 0 1; do
  for slot in 0 1 2 3; do
    side=$(echo abba | cut -c$((slot + 1)))
    printf 'small,%d,%d,%s,100.%d\\n' $block $slot $side $(($6 % 2)) >> "$3"
  done
done
exit 0
"""
"""A benchmark of a machine without noise."""
KNOWN = KnownNoise(looks=(4, 6), margin=0.005, shape_guard=0.02)


def count_pairs(result: Comparison) -> list[int]:
    """Process pairs of each shape."""
    return [len(shape.pairs) for shape in result.shapes]


def test_where_noise_is_small_for_sure_fewer_pairs_are_timed_and_that_is_remembered(desk):
    here = desk.room(paired=STILL)
    assert count_pairs(desk.ask(here, pairs=8, known=KNOWN)) == [4]
    again = desk.ask(here, pairs=8, known=KNOWN)
    assert (count_pairs(again), again.seconds) == ([4], 0.0)
    assert count_pairs(desk.ask(here, pairs=8)) == [8], "who asks for all pairs is not answered by fewer"
    noisy = desk.room("two")
    assert count_pairs(desk.ask(noisy, pairs=5, known=KNOWN.model_copy(update={"margin": 1e-9}))) == [5]


@pytest.mark.parametrize(("fails_at", "kept"), [(6, [5]), (4, None)])
def test_a_pair_that_fails_late_leaves_what_was_timed_before_it(desk, fails_at, kept):
    """One refused pair once cost a calibration the ten before it."""
    fails = f'[ "$(wc -l < {desk.ran})" -ge {fails_at} ] && {{ echo it broke >&2; exit 3; }}\n'
    here = desk.room(paired=fails + STILL)
    result = desk.ask(here, pairs=8)
    if kept is None:
        assert isinstance(result, BenchmarkFailed), "three pairs are too few"
        return
    assert isinstance(result, Comparison), result
    assert count_pairs(result) == kept
    assert result.notes[-1].startswith("of these 5 pairs alone: the next failed (crash): ")
    assert "it broke" in result.notes[-1]
    desk.ran.unlink()
    assert count_pairs(desk.ask(here, pairs=5)) == [5], "it is measured anew"
    assert len(desk.processes()) == 5


def test_a_version_is_timed_against_its_twin_from_another_checkout_and_build(desk):
    here = desk.room()
    result = desk.ask(here, pairs=3)
    assert isinstance(result, Comparison), result
    assert (result.best, result.candidate, result.notes) == (here.base, here.base, ())
    (shape,) = result.shapes
    assert [len(pair) for pair in shape.pairs] == [2, 2, 2]
    assert (result.taken_blocks, result.dropped_blocks) == (6, 0)
    assert any(ratio != 0 for pair in shape.pairs for ratio in pair)
    folders = {folder for pair in desk.processes() for folder in pair}
    assert len(folders) == 2
    assert all(a != b for a, b in desk.processes())
    logs = [(Path(folder) / "built.log").read_text() for folder in folders]
    assert logs == ["built\n", "built\n"]
    inodes = {(Path(folder) / "kernel.so").stat().st_ino for folder in folders}
    assert len(inodes) == 2


class Patient(ContractTimer):
    """Remembers what waits for the machine in each measurement."""

    def choose_interleaver(self, patience_s: float) -> Steady:
        self.steady = super().choose_interleaver(patience_s)
        return self.steady


@pytest.mark.parametrize(("budget_s", "waits_s"), [(40.0, 40.0), (600.0, 180.0)])
def test_calibrating_waits_for_a_busy_machine_no_longer_than_its_share(desk, budget_s, waits_s):
    here = desk.room(paired=STILL)
    timer = Patient(
        here.commands,
        here.builder,
        artifacts=here.artifacts,
        device=StillDevice(),
        wait_s=120,
        bearing=BusyMachineRule(dropped_limit=0.2, quiet_s=180),
    )
    timer.calibrate(
        here.base, shapes=("small",), pairs=2, blocks=2, budget_s=budget_s, fresh=True, purpose="bench-calibration"
    )
    assert timer.steady.quiet is not None
    assert timer.steady.quiet.total_s == waits_s


def test_a_twin_costs_no_other_version_its_build(desk):
    here = desk.room()
    candidates = [here.candidate({"kernel.c": KERNEL + f"// {n}\n"}) for n in range(2)]
    for commit in (here.base, *candidates):
        assert here.builder.build(commit).ok
    assert isinstance(desk.ask(here), Comparison)
    assert isinstance(desk.ask(here, candidates[0], fresh=True), Comparison)
    assert all(here.trees.built(commit) for commit in (here.base, *candidates))
    assert len(desk.processes()) == 4


def test_the_next_campaign_on_this_machine_need_not_measure_again(desk):
    first = desk.ask(desk.room())
    desk.now += 3 * 3600
    other = desk.room("two")
    again = desk.ask(other)
    assert isinstance(first, Comparison)
    assert isinstance(again, Comparison)
    assert len(desk.processes()) == 2
    assert (again.shapes, again.seconds, again.candidate) == (first.shapes, 0.0, other.base)
    assert "measured on this machine 3 h ago" in again.notes[0]
    assert len(json.loads(other.artifacts.get(again.raw))) == 2


@pytest.mark.parametrize(
    ("second", "asks"),
    [
        ({}, {"fresh": True}),
        ({"kernel": KERNEL + "// other\n"}, {}),
        ({"threads": 2}, {}),
        ({"paired_command": (*COMMAND, "")}, {}),
        ({}, {"blocks": 3}),
        ({}, {"pairs": 3}),
    ],
)
@pytest.mark.slow
def test_another_question_is_measured(desk, second, asks):
    assert isinstance(desk.ask(desk.room()), Comparison)
    result = desk.ask(desk.room("two", **second), **asks)
    assert isinstance(result, Comparison | BenchmarkFailed)
    assert len(desk.processes()) > 2
    assert isinstance(result, BenchmarkFailed) or result.notes == ()


@pytest.mark.parametrize("age", [KEPT_S + 1, -60])
@pytest.mark.slow
def test_an_answer_of_another_day_or_from_the_future_is_not_used(desk, age):
    here = desk.room()
    desk.ask(here)
    desk.now += age
    assert isinstance(desk.ask(here), Comparison)
    assert len(desk.processes()) == 4


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"schema_version": 2}', "raw", "machine", "key"])
@pytest.mark.slow
def test_a_file_that_is_not_ours_is_a_miss(desk, damage):
    here = desk.room()
    desk.ask(here)
    (path,) = desk.cache.glob("*.json")
    changed = json.loads(path.read_text())
    if damage == "raw":
        changed["raw"] = "[]"
    elif damage == "machine":
        changed["comparison"]["machine"] = "e" * 64
    elif damage == "key":
        changed["key"] = "0" * 64
    path.write_text(json.dumps(changed) if damage in ("raw", "machine", "key") else damage)
    result = desk.ask(here)
    assert isinstance(result, Comparison)
    assert result.notes == ()
    assert len(desk.processes()) == 4


def test_a_cache_that_cannot_be_written_is_no_error(desk):
    desk.cache.write_text("a file where the folder should be")
    assert isinstance(desk.ask(desk.room()), Comparison)


@pytest.mark.parametrize(("budget_s", "pairs", "timed"), [(0.0, 6, 2), (60.0, 3, 3), (0.0, 1, 1)])
@pytest.mark.slow
def test_the_budget_ends_it_but_not_before_the_second_pair(desk, budget_s, pairs, timed):
    result = desk.ask(desk.room(), budget_s=budget_s, pairs=pairs)
    assert isinstance(result, Comparison)
    assert len(result.shapes[0].pairs) == len(desk.processes()) == timed


def test_fewer_pairs_are_enough_only_where_time_would_run_out_again(desk):
    here = desk.room()
    desk.ask(here, budget_s=0.0, pairs=4)
    desk.ask(here, budget_s=0.0, pairs=4)
    assert len(desk.processes()) == 2
    more = desk.ask(here, budget_s=60.0, pairs=4)
    assert isinstance(more, Comparison)
    assert len(more.shapes[0].pairs) == 4


def test_a_canary_does_not_shorten_what_is_remembered(desk):
    here = desk.room()
    desk.ask(here, pairs=3)
    desk.ask(here, pairs=2, fresh=True)
    again = desk.ask(here, pairs=3)
    assert isinstance(again, Comparison)
    assert len(again.shapes[0].pairs) == 3
    assert len(desk.processes()) == 5


def test_old_files_go_when_a_new_one_is_kept(desk):
    desk.cache.mkdir()
    old = desk.cache / f"{'0' * 64}.json"
    old.write_text("{}")
    desk.now += KEPT_S + 60
    desk.ask(desk.room())
    assert not old.exists()


def test_what_changes_evaluation_files_of_the_twin_is_tampering(desk):
    here = desk.room(paired='echo >> "$2/bench.c"')
    result = desk.ask(here)
    assert isinstance(result, BenchmarkFailed)
    assert (result.reason, result.commit) == ("tampered", here.base)
    assert list(desk.cache.glob("*")) == []


def test_a_version_that_does_not_build_is_said_so(desk):
    result = desk.ask(here := desk.room(kernel="no C\n"))
    assert isinstance(result, BenchmarkFailed)
    assert (result.reason, result.commit) == ("crash", here.base)


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({"RIDGELINE_CACHE": "/own"}, "/own/calibrations"),
        ({"XDG_CACHE_HOME": "/shared"}, "/shared/ridgeline/calibrations"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/users/u"}, "/users/u/.cache/ridgeline/calibrations"),
        ({"HOME": "/users/u"}, "/users/u/.cache/ridgeline/calibrations"),
    ],
)
def test_where_the_cache_is(monkeypatch, variables, folder):
    for name in ("RIDGELINE_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache_folder("calibrations") == Path(folder)
