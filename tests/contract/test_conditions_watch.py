"""Watching real processes: the core they run on, and a card whose tool is a script."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ridgeline.graph.errors import ProgramMissing
from ridgeline.sandbox.devices.tools import HIDDEN, AmdSmi, CardWatch, NvidiaSmi, smi_of
from ridgeline.sandbox.isolation.process import run, run_beside
from ridgeline.sandbox.timing.observation import SLICE_S, TICK_S, CoreWatch, TreeUse, sources
from ridgeline.sandbox.workspace.commands import pinned_core, pinned_to

SPIN = "import time\nuntil = time.monotonic() + {seconds}\nwhile time.monotonic() < until: pass\n"
NVIDIA = """#!/bin/sh
# refuses what an older driver does not know; $HERE/apps holds the processes
now() { date -u '+%Y/%m/%d %H:%M:%S.%3N'; }
case "$*" in
  *no-such*|*event_reasons*) echo 'Field "x" is not a valid field to query.'; exit 2;;
  *compute-apps*) cat HERE/apps;;
  *-lms*) while :; do echo "$(now), 1980, 2619, 41, 75.5, 0x0000000000000020"; sleep 0.05; done;;
  *) echo "$(now), 345, 2619, 41, 75.5, 0x0000000000000001";;
esac
"""
AMD = """#!/bin/sh
case "$*" in
  *throttle*) exit 1;;
  *process*) echo '[{"gpu": 0, "process_list": []}]';;
  *) echo '{"gpu_data": [{"gpu": 0, "power": {"socket_power": {"value": 158, "unit": "W"}}}]}';;
esac
"""


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """`tool("nvidia-smi", text)` puts a script first on the path."""
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    def make(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text.replace("HERE", str(tmp_path)), encoding="utf-8")
        path.chmod(0o755)
        (tmp_path / "apps").touch()
        return tmp_path

    return make


def spun(seconds: float) -> tuple[CoreWatch, float]:
    """A watched process that keeps the timed core busy."""
    watch = CoreWatch(pinned_core())
    with watch:
        ended = run(
            (sys.executable, "-c", SPIN.format(seconds=seconds)), cwd=Path("/"), timeout_s=60, cpu=pinned_core()
        )
    assert ended.ok
    return watch, ended.seconds


def burn(cpu_s: float) -> None:
    until = time.process_time() + cpu_s
    while time.process_time() < until:
        pass


BURNS_IN_A_CHILD = """
import os, signal, sys, time
child = os.fork()
until = time.process_time() + 0.4
while time.process_time() < until: pass
if child == 0: signal.pause()
print(child, flush=True)
signal.pause()
"""


def test_what_this_process_and_its_children_use_is_its_own():
    tree = TreeUse()
    burn(0.3)
    here = tree.ticks()
    subprocess.run((sys.executable, "-c", SPIN.format(seconds=0.3)), check=True)
    ended = tree.ticks()
    with subprocess.Popen((sys.executable, "-c", "while True: pass")) as child:
        while tree.ticks() - ended < 0.2 / TICK_S:
            time.sleep(0.05)  # one that lives counts too, however slowly it gets on here
        child.kill()
    assert ended > here


def test_what_was_killed_and_waited_for_by_nobody_stays_its_own():
    tree = TreeUse()
    before = tree.ticks()
    with subprocess.Popen((sys.executable, "-c", BURNS_IN_A_CHILD), stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        orphan = int(parent.stdout.readline())
        while (lived := tree.ticks() - before) < 0.7 / TICK_S:
            time.sleep(0.05)
        os.kill(orphan, signal.SIGKILL)
        parent.kill()
    assert tree.ticks() - before >= lived, "what was seen of it is not forgotten when it goes"


def test_work_inside_this_process_is_not_foreign_to_it():
    with pinned_to(pinned_core()), (watch := CoreWatch(pinned_core(), inside=True)):
        burn(0.5)
    load = watch.conditions().load
    assert load.foreign_s is not None
    assert load.foreign_s < load.seconds - 0.4, "what was burnt here is not somebody else's"


def test_a_process_is_not_foreign_to_itself():
    before = time.monotonic()
    watch, seconds = spun(1.0)
    seen = watch.conditions()
    assert seen.core == pinned_core()
    assert seen.notes == ()
    assert before * 1e6 <= seen.load.began_us < time.monotonic() * 1e6
    assert seconds <= seen.load.seconds < seconds + 2
    assert seen.load.foreign_s is not None
    assert seen.load.foreign_s < 0.8 * seen.load.seconds  # all of it, were the process's own use counted
    assert seen.switches is not None
    whole = sum(one.seconds for one in seen.slices)
    assert whole == pytest.approx(seen.load.seconds, abs=1e-6)
    assert len(seen.slices) >= 0.5 * seen.load.seconds / SLICE_S - 1
    assert sum(one.foreign_s for one in seen.slices) == pytest.approx(seen.load.foreign_s, abs=1e-6)
    assert all(
        before.ended_us == pytest.approx(after.began_us)
        for before, after in zip(seen.slices, seen.slices[1:], strict=False)
    )


def test_another_process_on_the_core_is_foreign_and_takes_about_half():
    command = ("taskset", "-c", str(pinned_core()), sys.executable, "-c", SPIN.format(seconds=30))
    other = subprocess.Popen(command)
    try:
        seen = spun(1.5)[0].conditions()
    finally:
        other.kill()
        other.wait()
    assert seen.load.foreign_s is not None
    assert seen.load.foreign_s > 0.25 * seen.load.seconds  # a third process may want the core too
    assert seen.switches > 10


def test_a_process_too_short_for_a_slice_is_watched_whole():
    watch = CoreWatch(None)
    with watch:
        run(("true",), cwd=Path("/"), timeout_s=10)
    seen = watch.conditions()
    assert seen.core is None
    assert len(seen.slices) == 1
    assert seen.slices[0] == seen.load


def test_an_nvidia_card_is_read_before_during_and_after(tool):
    tool("nvidia-smi", NVIDIA)
    watch, core = CardWatch(NvidiaSmi("0")), CoreWatch(None)
    with watch.around(), core:
        time.sleep(0.5)
    load = core.conditions().load
    card, notes = watch.conditions(load.began_us, load.ended_us)
    assert card.before is not None
    assert (card.before.sm_mhz, card.before.idle) == (345, True)
    assert card.after is not None
    assert 2 <= len(card.during) <= 12
    assert {one.slowdowns for one in card.during} == {("software thermal slowdown",)}
    assert all(load.began_us <= one.at_us <= load.ended_us for one in card.during)
    assert card.before.at_us < card.during[0].at_us < card.after.at_us
    assert (card.foreign, notes) in [((), ()), (None, (HIDDEN,))]  # in a container other users cannot be seen


def test_who_else_computes_on_the_card(tool):
    folder = tool("nvidia-smi", NVIDIA)
    watch = CardWatch(NvidiaSmi("0"))
    with watch.around():
        (folder / "apps").write_text("453, /usr/bin/python3, 650\n", encoding="utf-8")
    assert watch.conditions(0, 1)[0].foreign == ("/usr/bin/python3 (453)",)


def test_a_card_whose_tool_fails_is_not_known(tool):
    tool("nvidia-smi", "#!/bin/sh\necho No devices were found; exit 6\n")
    watch = CardWatch(NvidiaSmi("0"))
    with watch.around():
        pass
    card, notes = watch.conditions(0, 1)
    assert (card.before, card.during, card.after, card.foreign) == (None, (), None, None)
    assert "not known" in notes[0]


def test_an_amd_card_and_what_it_does_without(tool, monkeypatch, tmp_path):
    tool("amd-smi", AMD)
    look = AmdSmi("0").look()
    assert look.reading is not None
    assert (look.reading.watts, look.reading.slowdowns, look.foreign) == (158, None, ())
    rocm = '#!/bin/sh\necho \'{"card0": {"sclk clock speed:": "(98Mhz)"}, "card1": {}, "system": {}}\'\n'
    tool("rocm-smi", rocm)
    tool("amd-smi", "#!/bin/sh\nexit 1\n")
    smi = AmdSmi("0")
    look = smi.look()
    assert look.reading is not None
    assert (smi.tool, look.reading.sm_mhz, look.foreign, len(look.notes)) == ("rocm-smi", 98, None, 2)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert AmdSmi("0").look().notes == ("neither amd-smi nor rocm-smi tells anything: the card's state is not known",)


@pytest.mark.parametrize(
    ("kind", "environment", "index"),
    [
        ("nvidia", {}, "0"),
        ("nvidia", {"CUDA_VISIBLE_DEVICES": "3,1"}, "3"),
        ("nvidia", {"CUDA_VISIBLE_DEVICES": "GPU-1f"}, "GPU-1f"),
        ("nvidia", {"CUDA_VISIBLE_DEVICES": ""}, "0"),
        ("amd", {"HIP_VISIBLE_DEVICES": "2"}, "2"),
        ("amd", {"ROCR_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "0"}, "1"),
    ],
)
def test_the_card_that_a_command_would_use(kind, environment, index):
    smi = smi_of(kind, environment)
    assert smi is not None
    assert smi.index == index


def test_a_processor_has_no_card():
    assert smi_of("cpu", {}) is None


def test_a_tool_beside_the_work_ends_with_it(tmp_path):
    said = tmp_path / "said"
    began = time.monotonic()
    with run_beside(("sh", "-c", "echo $$; exec sleep 60"), cwd=tmp_path, output_file=said):
        while not said.read_text() and time.monotonic() < began + 10:
            time.sleep(0.01)
    assert time.monotonic() < began + 10
    assert not Path(f"/proc/{said.read_text().strip()}").exists()
    with pytest.raises(ProgramMissing), run_beside(("no-such-tool",), cwd=tmp_path, output_file=said):
        pass


def test_doctor_names_what_can_be_read(tool):
    tool("nvidia-smi", NVIDIA)
    load, clock, card = sources()
    assert (load.name, load.available, load.cost) == ("load of the core", True, "")
    assert f"core {pinned_core()}" in load.detail
    assert clock.name == "clock of the core"
    assert clock.available is (not clock.cost)
    assert card.available
    assert "nvidia-smi: clock, temperature, power, throttling" in card.detail
    assert card.cost in ("", "measurements disturbed by it are not told apart: other users")


def test_a_tool_that_tells_nothing_costs_everything(tool):
    tool("rocm-smi", "#!/bin/sh\nexit 1\n")
    card = sources()[-1]
    assert (card.name, card.available) == ("state of the card", False)
    assert "clock, temperature, power, throttling, other users" in card.cost
