"""A card to itself: real leases, recorded answers, and a clock that only the test moves."""

from contextlib import ExitStack

import pytest

from ridgeline.graph.errors import DeviceBusy, DeviceLost
from ridgeline.sandbox.devices.gate import CardGate, Choice, IdleWait, card_for, gate_of
from ridgeline.sandbox.devices.idle import Cards, Floors
from ridgeline.sandbox.devices.lease import lease
from ridgeline.sandbox.devices.tools import AmdTools, NvidiaTools, watch
from ridgeline.sandbox.devices.values import Floor, GateSettings
from tests.builders import make_contract
from tests.standins_smi import ReplayedTools, apps, cards, h100, stand_in

SETTINGS = GateSettings(samples=1, repeat_samples=1, settle_s=0)
BUSY, IDLE = cards(h100(use="97 %", watts="500.00 W")), cards(h100())
FIRST, SECOND = "gpu-0000:06:00.0", "gpu-0000:07:00.0"


class Time:
    """A clock that moves only when somebody waits."""

    def __init__(self):
        self.now = 0.0
        self.waits = []

    def sleep(self, seconds):
        self.waits.append(seconds)
        self.now += seconds


@pytest.fixture
def make_gate(tmp_path, monkeypatch):
    """`make_gate(tools)` -> a gate, its clock, and what it said."""
    monkeypatch.setenv("PATH", f"{stand_in(tmp_path / 'bin', 'nvidia-smi', [IDLE])}:/usr/bin:/bin")

    def make(tools, *, settings=SETTINGS, **choice):
        time, said = Time(), []
        gate = CardGate(
            Cards(tools, settings=settings, floors=Floors(None), sleep=time.sleep),
            vendor="nvidia",
            settings=settings,
            choice=Choice(**choice),
            waiting=IdleWait(clock=lambda: time.now, sleep=time.sleep),
            say=said.append,
            leases=tmp_path / "leases",
        )
        return gate, time, said

    return make


def test_an_idle_card_is_held_under_its_lease_and_bound(make_gate, tmp_path):
    gate, time, said = make_gate(ReplayedTools(cards(h100(0, use="80 %"), h100(1))))
    assert gate.environment == {}
    with gate.hold() as bound:
        assert bound.card.key == SECOND
        assert gate.environment["CUDA_VISIBLE_DEVICES"] == "GPU-00000001-0000-0000-0000-000000000000"
        with pytest.raises(DeviceBusy), lease(SECOND, wait_s=0, folder=tmp_path / "leases"):
            pass
        with lease(FIRST, wait_s=0, folder=tmp_path / "leases"):
            pass
    assert gate.environment == {}
    with lease(SECOND, wait_s=0, folder=tmp_path / "leases"):
        pass
    assert (time.waits, said) == ([], [])


def test_the_seconds_of_every_lease_are_counted_and_waiting_is_not(make_gate):
    gate, time, _ = make_gate(ReplayedTools(BUSY, IDLE))
    with gate.hold():
        time.now += 90
    with gate.hold():
        time.now += 62
    assert (time.now, gate.held_s) == (600 + 152, 152)


@pytest.mark.feature("F098")
@pytest.mark.parametrize("idle_at", [0, 1, 3, 6])
def test_looked_at_every_ten_minutes_up_to_an_hour(make_gate, idle_at):
    gate, time, said = make_gate(ReplayedTools(*[BUSY] * idle_at, IDLE))
    with gate.hold():
        pass
    assert time.now == 600 * idle_at
    assert len(said) == idle_at
    assert all("no idle card (nvidia 0 NVIDIA H100 80GB HBM3 busy: utilization 97 %" in line for line in said)


@pytest.mark.feature("F098")
def test_never_idle_is_seven_looks_and_then_a_stop(make_gate):
    tools = ReplayedTools(BUSY)
    gate, time, said = make_gate(tools)
    with pytest.raises(DeviceBusy, match=r"no idle GPU within 60 min.*ridgeline resume") as caught, gate.hold():
        pass
    assert (caught.value.exit_code, tools.asked, time.now, len(said)) == (4, 7, 3600, 6)


def test_a_tool_that_fails_is_a_busy_card(make_gate):
    gate, _, said = make_gate(ReplayedTools(""))
    with pytest.raises(DeviceBusy, match="no visible card is told of"), gate.hold():
        pass
    assert said


def test_a_card_that_got_busy_before_the_lease_was_had_is_left_alone(make_gate, tmp_path):
    gate, time, _ = make_gate(ReplayedTools(IDLE, BUSY, BUSY, IDLE))
    with gate.hold():
        pass
    assert time.now == 1200, "idle, busy under the lease; busy; idle"


def test_a_card_whose_lease_is_out_is_passed_over(make_gate, tmp_path):
    gate, time, _ = make_gate(ReplayedTools(cards(h100(0), h100(1))))
    with lease(FIRST, wait_s=0, folder=tmp_path / "leases"), gate.hold() as bound:
        assert bound.card.key == SECOND
    assert time.now == 0


def test_two_commands_are_never_on_one_card(make_gate):
    tools = ReplayedTools(cards(h100(0), h100(1)))
    gates = [make_gate(tools)[0] for _ in range(3)]
    with ExitStack() as stack:
        held = [stack.enter_context(gate.hold()).card.key for gate in gates[:2]]
        assert sorted(held) == [FIRST, SECOND]


def test_the_lease_of_another_command_is_waited_for_not_slept_over(make_gate, tmp_path):
    """The card looks busy because one of ours is on it: the lease comes sooner than the next look."""
    gate, time, said = make_gate(ReplayedTools(BUSY, IDLE))
    other = ExitStack()
    other.enter_context(lease(FIRST, wait_s=0, folder=tmp_path / "leases"))
    real = gate._free  # the lease is given back right after it was seen to be out

    def seen_and_ended(key):
        found = real(key)
        other.close()
        return found

    gate._free = seen_and_ended
    with gate.hold():
        pass
    assert (time.now, len(said)) == (0, 1)


def test_the_card_used_before_is_kept_without_a_long_look(make_gate):
    settings = SETTINGS.model_copy(update={"samples": 5, "repeat_samples": 2})
    light, heavy = h100(0, used="100 MiB"), h100(1, used="200 MiB")
    tools = ReplayedTools(*[cards(light, heavy)] * 7, cards(h100(0, used="300 MiB"), heavy))
    gate, time, _ = make_gate(tools, settings=settings)
    with gate.hold() as bound:
        assert (bound.card.key, tools.asked) == (FIRST, 7)
    with gate.hold() as bound:
        assert (bound.card.key, tools.asked) == (FIRST, 9)
    time.now += settings.recent_s + 1
    with gate.hold() as bound:
        assert (bound.card.key, tools.asked) == (FIRST, 16), "others have less in use now, times stay comparable"


def test_another_card_is_taken_when_ours_is_busy_and_that_is_said(make_gate):
    gate, _, said = make_gate(ReplayedTools(*[cards(h100(0), h100(1))] * 2, cards(h100(0, use="50 %"), h100(1))))
    with gate.hold() as bound:
        assert bound.card.key == FIRST
    with gate.hold() as bound:
        assert bound.card.key == SECOND
    assert said == ["GPU gate: the card used before is busy; nvidia 1 NVIDIA H100 80GB HBM3 from now on"]


def test_utilization_of_the_command_that_just_ended_is_not_waited_ten_minutes_for(make_gate):
    settings = SETTINGS.model_copy(update={"settle_s": 5.0, "repeat_samples": 2})
    gate, time, said = make_gate(ReplayedTools(IDLE, IDLE, IDLE, BUSY, IDLE, BUSY, IDLE), settings=settings)
    with gate.hold():
        pass
    with gate.hold():
        pass
    assert time.waits == [settings.repeat_interval_s] * 5, "twice idle in a row"
    assert said == []


def test_a_card_that_does_not_become_idle_again_is_given_up_soon(make_gate):
    settings = SETTINGS.model_copy(update={"settle_s": 5.0})
    gate, time, said = make_gate(ReplayedTools(IDLE, *[BUSY] * 21, IDLE), settings=settings)
    with gate.hold():
        pass
    assert time.now == 5 + 600
    assert len(said) == 1


def test_only_visible_cards_of_the_wanted_product(make_gate):
    told = cards(h100(0), h100(1))
    gate, _, _ = make_gate(ReplayedTools(told), environment={"CUDA_VISIBLE_DEVICES": "1"}, target="H100")
    with gate.hold() as bound:
        assert bound.card.key == SECOND
    gate, _, _ = make_gate(ReplayedTools(told), environment={"CUDA_VISIBLE_DEVICES": ""})
    with pytest.raises(DeviceBusy, match="no visible card"), gate.hold():
        pass


@pytest.mark.feature("F096")
def test_no_tool_on_path_is_said_at_once(make_gate, monkeypatch, tmp_path):
    gate, time, _ = make_gate(ReplayedTools(IDLE))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DeviceLost, match="no nvidia-smi on PATH.*ridgeline doctor"), gate.hold():
        pass
    assert time.now == 0


def test_the_tools_as_processes(monkeypatch, tmp_path):
    """Stand-ins for nvidia-smi and rocm-smi, started as the real ones are."""
    monkeypatch.setenv("PATH", f"{stand_in(tmp_path / 'n', 'nvidia-smi', [BUSY, IDLE])}:/usr/bin:/bin")
    ((first, second),) = watch(NvidiaTools(), samples=2, interval_s=0)
    assert (first.utilization_pct, second.utilization_pct, second.pci) == (97, 0, "0000:06:00.0")
    recording = '{"card0": {"GPU use (%)": "3", "Unique ID": "0x71"}, "system": {"PID9": "python3, 1, 900, 0, 0"}}'
    monkeypatch.setenv("PATH", f"{stand_in(tmp_path / 'r', 'rocm-smi', [recording])}:/usr/bin:/bin")
    ((card,),) = watch(AmdTools(), samples=1, interval_s=0)
    assert (card.utilization_pct, card.uuid, [one.pid for one in card.processes or ()]) == (3, "GPU-71", [9])
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert watch(AmdTools(), samples=2, interval_s=0) == ()


def test_a_foreign_process_of_the_list_counts_where_all_processes_can_be_seen(monkeypatch, tmp_path):
    listed = apps("GPU-00000000-0000-0000-0000-000000000000, 42, trainer, 40000 MiB")
    folder = stand_in(tmp_path / "n", "nvidia-smi", [cards(h100(used="40100 MiB"))], apps_text=listed)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    (found,) = Cards(NvidiaTools(), settings=SETTINGS, floors=Floors(None)).judge(samples=1, interval_s=0)
    assert found.state == "busy"
    assert "trainer (pid 42) holds 40,000 MiB of it" in found.reasons


def test_which_contracts_have_a_gate(monkeypatch, tmp_path):
    def opened(**fields):
        return gate_of(make_contract(**fields), retry_s=1, max_s=1, say=str)

    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert opened() is None
    assert opened(target_gpu="H100") is not None
    with card_for(make_contract(), wait_s=1, say=str) as environment:
        assert environment == {}
    folder = stand_in(tmp_path / "n", "nvidia-smi", [IDLE])
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("RIDGELINE_GATE", "samples=1 repeat_samples=1")
    with card_for(make_contract(target_gpu="H100"), wait_s=1, say=str) as environment:
        assert environment["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"


def test_what_was_seen_of_cards_is_kept_and_a_broken_file_is_begun_anew(tmp_path):
    (card,) = watch(ReplayedTools(IDLE), samples=1, interval_s=0)[0]
    floors = Floors(tmp_path)
    floors.learn(card)
    floors.learn(card.model_copy(update={"power_w": 200.0, "memory_used_bytes": None}))
    assert Floors(tmp_path).of(card) == Floor(memory_bytes=0, power_w=71)
    for broken in ("", "[]", '{"x": {"power_w": "many"}}', "{"):
        (tmp_path / "floors.json").write_text(broken)
        assert Floors(tmp_path).of(card) == Floor()
