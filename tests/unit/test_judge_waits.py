"""Who had the core while a call was timed: judge and worker that share one wait for each other, and that is nobody else's work."""

import pytest

from ridgeline.graph.judgment import TimedCall
from ridgeline.sandbox.judge.worker import CallTime, CoreTimes, SharedCore
from ridgeline.sandbox.timing.interleaving import had_company


def times(
    *, judge_waited: float = 0, worker_waited: float = 0, judge_ran: float = 0, worker_ran: float = 0
) -> CoreTimes:
    return CoreTimes(
        judge_waited_us=judge_waited, worker_waited_us=worker_waited, judge_ran_us=judge_ran, worker_ran_us=worker_ran
    )


def call(time_us: float, waited_us: float | None) -> TimedCall:
    return TimedCall(
        label="s", block=0, slot=0, side="a", time_us=time_us, claimed_us=None, at_us=0.0, waited_us=waited_us
    )


@pytest.mark.parametrize(
    ("within", "others_us"),
    [
        (times(judge_waited=97, judge_ran=9, worker_ran=124), 0),
        (times(worker_waited=9, judge_ran=12, worker_ran=60), 0),
        (times(judge_waited=97, worker_waited=3, judge_ran=9, worker_ran=124), 0),
        (times(judge_waited=4060, judge_ran=9, worker_ran=60), 4000),
        (times(worker_waited=3010, judge_ran=10, worker_ran=60), 3000),
    ],
)
def test_what_judge_and_worker_wait_for_each_other_is_no_work_of_others(within: CoreTimes, others_us: float) -> None:
    assert within.others_us == others_us


def test_times_within_a_call_are_what_grew() -> None:
    began = times(judge_waited=1, worker_waited=2, judge_ran=3, worker_ran=4)
    ended = times(judge_waited=11, worker_waited=22, judge_ran=33, worker_ran=44)
    assert ended.since(began) == times(judge_waited=10, worker_waited=20, judge_ran=30, worker_ran=40)
    assert ended.since(began).waited_us == 30


def test_a_machine_is_called_busy_for_more_than_a_tick_in_its_calls() -> None:
    assert not had_company([call(60, 0.0), call(60, None)])
    assert not had_company([*(call(60, 0.0) for _ in range(50)), call(60, 20.0)])
    assert had_company([*(call(60, 0.0) for _ in range(50)), call(60, 4000.0)])


class PlayedCore(SharedCore):
    """One whose counters were written down: at a call's beginning, at its answer and when the worker stands still."""

    def __init__(self, *read: CoreTimes, judge_us: float, is_one: bool) -> None:
        self._left, self.is_one = list(read), is_one
        self.begin()
        self._judge_ran_us = judge_us
        self.mark_answer()

    def _read_times(self) -> CoreTimes:
        return self._left.pop(0)


def on_one_core(worker_ran: float, *, others: float = 0, is_one: bool = True, slept: float = 0) -> CallTime:
    """A call of which the judge's own part is 80 us: it waits for its worker, and what others had before it went on."""
    answered = times(judge_waited=worker_ran + others, judge_ran=90, worker_ran=worker_ran)
    core = PlayedCore(times(), answered, answered, judge_us=80, is_one=is_one)
    return core.take_off(80 + worker_ran + others + slept, 0.0)


def test_a_call_takes_beyond_an_empty_one_what_its_worker_does() -> None:
    """The judge's wait for its worker was once taken off both: of the call that is the worker's work, of the empty one the judge's."""
    for is_one in (True, False):  # whether both are known to keep to it
        empty, call = on_one_core(25, is_one=is_one), on_one_core(65, is_one=is_one)
        assert (call.own_us or 0) - (empty.own_us or 0) == 40
    beside_others = on_one_core(65, others=4000)
    assert (beside_others.own_us, beside_others.others_us) == (65, 4000)


def test_what_the_judge_does_is_no_time_of_a_call_and_a_workers_sleep_is() -> None:
    assert on_one_core(65).own_us == 65
    assert on_one_core(65, slept=300).own_us == 365
    assert on_one_core(65, is_one=False).own_us == 145
