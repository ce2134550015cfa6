"""A request to stop is heard while the gate waits, within seconds of a wait of ten minutes."""

import pytest

from ridgeline.graph.errors import DeviceBusy, StopAsked
from ridgeline.sandbox.devices.gate import CardGate, Choice, IdleWait
from ridgeline.sandbox.devices.idle import Cards, Floors
from ridgeline.sandbox.devices.lease import lease
from ridgeline.sandbox.devices.values import GateSettings
from tests.standins_smi import ReplayedTools, cards, h100, stand_in

SETTINGS = GateSettings(samples=1, repeat_samples=1, settle_s=0)
BUSY, IDLE = cards(h100(use="97 %", watts="500.00 W")), cards(h100())
CARD = "gpu-0000:06:00.0"


@pytest.fixture
def gate_at(tmp_path, monkeypatch):
    """`gate_at(tools, stop_at)` -> a gate, and its clock's now, in seconds that pass only while it waits."""
    monkeypatch.setenv("PATH", f"{stand_in(tmp_path / 'bin', 'nvidia-smi', [IDLE])}:/usr/bin:/bin")

    def make(tools, stop_at, step_s=5.0):
        now = [0.0]

        def sleep(seconds):
            now[0] += seconds

        gate = CardGate(
            Cards(tools, settings=SETTINGS, floors=Floors(None), sleep=sleep),
            vendor="nvidia",
            settings=SETTINGS,
            choice=Choice(),
            waiting=IdleWait(clock=lambda: now[0], sleep=sleep, stopped=lambda: now[0] >= stop_at, step_s=step_s),
            say=lambda _: None,
            leases=tmp_path / "leases",
        )
        return gate, now

    return make


@pytest.mark.parametrize(("stop_at", "noticed"), [(0, 0), (5, 5), (7, 10), (599, 600), (601, 605)])
def test_a_stop_is_noticed_within_a_step(gate_at, stop_at, noticed):
    gate, now = gate_at(ReplayedTools(BUSY), stop_at)
    words = r"asked to stop while no GPU was idle: .*ridgeline resume"
    with pytest.raises(StopAsked, match=words) as caught, gate.hold():
        pass
    assert now[0] == noticed
    assert isinstance(caught.value, DeviceBusy)
    assert caught.value.exit_code == 4


def test_an_idle_card_is_taken_whoever_asked_to_stop(gate_at):
    gate, now = gate_at(ReplayedTools(IDLE), 0)
    with gate.hold() as bound:
        assert bound.card.key == CARD
    assert now[0] == 0


def test_a_stop_is_noticed_while_another_command_has_the_lease(gate_at, tmp_path):
    gate, now = gate_at(ReplayedTools(IDLE), 0.15, step_s=0.1)  # a lease is waited for in real time
    with lease(CARD, wait_s=0, folder=tmp_path / "leases"), pytest.raises(StopAsked), gate.hold():
        pass
    assert now[0] == pytest.approx(0.2)
