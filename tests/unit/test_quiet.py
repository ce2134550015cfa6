"""How long a disturbed pair waits for its core, on a clock and counters that are told."""

import pytest

from ridgeline.agent.campaign.wiring import quiet_s
from ridgeline.agent.errors import UserError
from ridgeline.sandbox.timing.observation import LOOK_S, LOOKS, RESTED, TICK_S, TOTAL_S, Quiet, Ticks


class Core:
    """Each second it is as busy as it is told; the last share lasts."""

    def __init__(self, *shares: float, steal: float = 0.0) -> None:
        self._shares, self._steal = list(shares), steal
        self._busy = self._stolen = 0.0
        self.slept_s = 0.0

    def look(self) -> Ticks:
        return Ticks(busy=round(self._busy / TICK_S), steal=round(self._stolen / TICK_S))

    def sleep(self, seconds: float) -> None:
        share = self._shares.pop(0) if len(self._shares) > 1 else self._shares[0]
        self._busy, self._stolen = self._busy + share * seconds, self._stolen + self._steal * seconds
        self.slept_s += seconds


@pytest.mark.parametrize(
    ("shares", "rested", "slept_s"),
    [
        ((0.0,), True, LOOKS * LOOK_S),
        ((RESTED,), True, LOOKS * LOOK_S),
        ((1.0, 0.5, 0.0), True, (2 + LOOKS) * LOOK_S),
        ((0.0, 0.0, 1.0, 0.0), True, (3 + LOOKS) * LOOK_S),
        ((0.5,), False, 20.0),
    ],
)
def test_it_waits_until_the_core_rested_for_some_looks(shares, rested, slept_s):
    core = Core(*shares)
    assert Quiet(0, total_s=20, look=core.look, sleep=core.sleep).wait() is rested
    assert core.slept_s == pytest.approx(slept_s)


def test_time_that_the_hypervisor_gives_away_is_no_rest():
    core = Core(0.0, steal=0.3)
    assert not Quiet(0, total_s=5, look=core.look, sleep=core.sleep).wait()


def test_patience_is_of_all_waits_together():
    core = Core(1.0)
    quiet = Quiet(0, total_s=7, look=core.look, sleep=core.sleep)
    assert not quiet.wait()
    assert not quiet.wait()
    assert core.slept_s == 7


def test_a_line_each_minute_says_what_is_waited_for_and_how_long():
    core, lines = Core(0.5), []
    assert not Quiet(0, total_s=150, look=core.look, sleep=core.sleep, say=lines.append).wait()
    assert [line.partition("; ")[2].split(" so far")[0] for line in lines] == ["1 s", "61 s", "121 s"]
    assert "machine was busy: waiting for the timed core to rest, 50% of it is in use" in lines[0]


def test_without_counters_nobody_waits_for_what_cannot_be_seen():
    core = Core(0.0)
    assert not Quiet(0, look=lambda: None, sleep=core.sleep).wait()
    assert core.slept_s <= LOOK_S


def test_the_real_core_can_be_looked_at():
    assert Quiet(0, total_s=1).wait() is False  # one look is not LOOKS


@pytest.mark.parametrize(
    ("told", "seconds"), [({}, TOTAL_S), ({"RIDGELINE_QUIET_S": "0"}, 0), ({"RIDGELINE_QUIET_S": "9"}, 9)]
)
def test_how_long_is_a_setting_of_the_machine(told, seconds):
    assert quiet_s(told) == seconds


@pytest.mark.parametrize("told", ["soon", "-1", "inf", "nan"])
def test_a_wait_that_is_no_number_of_seconds_is_refused(told):
    with pytest.raises(UserError, match="RIDGELINE_QUIET_S"):
        quiet_s({"RIDGELINE_QUIET_S": told})
