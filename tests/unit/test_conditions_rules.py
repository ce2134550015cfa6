"""Which blocks are left out: by what the machine did, and never by a time."""

from dataclasses import replace

import pytest

from ridgeline.graph.values import Named
from ridgeline.sandbox.devices.values import Card, Conditions, Load, Reading
from ridgeline.sandbox.timing.disturbances import Disturbance, Span, find_disturbed, left_out

SECOND = 1e6
BEGAN = 7 * SECOND


def load(foreign=0.0, steal=0.0, *, began=0.0, seconds=1.0):
    """`began` in seconds after the process; shares of the stretch."""
    used = (None if share is None else share * seconds for share in (foreign, steal))
    foreign_s, steal_s = used
    return Load(began_us=BEGAN + began * SECOND, seconds=seconds, foreign_s=foreign_s, steal_s=steal_s, sibling_s=None)


def conditions(foreign=0.0, steal=0.0, *, seconds=1.0, slices=(), card=None):
    return Conditions(core=1, load=load(foreign, steal, seconds=seconds), slices=slices, card=card)


def spans(blocks=2, *, ends=None, process=lambda block, slot: 0, shared=None):
    """`ends`: seconds after the process started at which each block had been timed."""
    return [
        Span(
            label="x",
            block=block,
            side=side,
            process=process(block, slot),
            at_us=None if ends is None else BEGAN + ends[block] * SECOND,
            shared=shared,
        )
        for block in range(blocks)
        for slot, side in enumerate(("best", "candidate", "candidate", "best"))
    ]


def causes(found):
    return [(one.block, one.kind) for one in found]


@pytest.mark.parametrize(
    ("seen", "kind"),
    [
        (conditions(), None),
        (conditions(foreign=0.25), None),
        (conditions(foreign=0.26), "foreign_load"),
        (conditions(foreign=-0.01), None),
        (conditions(foreign=None, steal=None), None),
        (conditions(steal=0.10), None),
        (conditions(steal=0.11), "steal"),
        (conditions(foreign=0.9, steal=0.5), "steal"),
        (conditions(foreign=0.9, seconds=0.49), None),  # too short to tell
        (conditions(foreign=0.9, seconds=0.5), "foreign_load"),
    ],
)
def test_load_on_the_timed_core(seen, kind):
    assert causes(find_disturbed(spans(), [seen], host=True)) == ([] if kind is None else [(0, kind), (1, kind)])
    assert find_disturbed(spans(), [seen], host=False) == ()  # a device's own clock does not care


@pytest.mark.parametrize(
    ("shared", "dropped"), [(None, 2), (True, 2), (False, 0)], ids=["did not look", "interrupted", "uninterrupted"]
)
def test_a_harness_that_saw_nobody_on_its_core_is_believed_about_load_but_not_about_steal(shared, dropped):
    assert len(find_disturbed(spans(shared=shared), [conditions(foreign=0.5)], host=True)) == dropped
    assert len(find_disturbed(spans(shared=shared), [conditions(steal=0.5)], host=True)) == 2


def test_only_the_blocks_that_met_the_load_where_slots_are_placed_in_time():
    seen = conditions(
        foreign=0.3,
        seconds=2.0,
        slices=(load(0, began=0, seconds=1), load(0.6, began=1, seconds=0.5), load(0, began=1.5, seconds=0.5)),
    )
    placed = spans(4, ends=(0.5, 1.0, 1.4, 1.9))
    assert causes(find_disturbed(placed, [seen], host=True)) == [(2, "foreign_load")]  # the last met a fifth of it
    assert len(find_disturbed(spans(4), [seen], host=True)) == 4


def test_times_may_count_from_the_start_of_the_process():
    seen = conditions(foreign=0.3, seconds=2.0, slices=(load(0, began=0), load(0.6, began=1)))
    absolute = spans(2, ends=(1.0, 2.0))
    relative = [replace(span, at_us=span.at_us - BEGAN) for span in absolute]
    assert find_disturbed(absolute, [seen], host=True) == find_disturbed(relative, [seen], host=True)
    assert causes(find_disturbed(relative, [seen], host=True)) == [(1, "foreign_load")]


@pytest.mark.parametrize("ends", [(2.5, 3.0), (1.0, 0.5)], ids=["after the process", "backwards"])
def test_times_of_another_clock_place_nothing(ends):
    seen = conditions(foreign=0.3, seconds=2.0, slices=(load(0.6, began=0), load(0, began=1)))
    assert (1, "foreign_load") in causes(find_disturbed(spans(2, ends=ends), [seen], host=True))


def test_a_block_of_whole_processes_is_held_to_all_four():
    seen = [conditions(seconds=0.3) for _ in range(7)] + [conditions(foreign=0.9, seconds=0.3)]
    each = spans(2, process=lambda block, slot: 4 * block + slot)
    assert find_disturbed(each, seen, host=True) == ()  # less than a quarter of the second block's time
    seen[6] = conditions(foreign=0.2, seconds=0.3)
    assert causes(find_disturbed(each, seen, host=True)) == [(1, "foreign_load")]


def card(*during, foreign=(), before=None, after=None):
    return Card(tool="nvidia-smi", index="0", before=before, during=during, after=after, foreign=foreign)


def reading(at, mhz=1980.0, *, slowdowns=(), idle=False):
    return Reading(at_us=BEGAN + at * SECOND, sm_mhz=mhz, slowdowns=slowdowns, idle=idle)


def counted(name, value):
    return Reading(at_us=None, counts=(Named(name=name, value=value),))


@pytest.mark.parametrize(
    ("seen", "kind"),
    [
        (card(), None),
        (card(foreign=None), None),
        (card(foreign=("a (1)",)), "foreign_process"),
        (card(reading(0.5)), None),
        (card(reading(0.5, slowdowns=None)), None),
        (card(reading(0.5, slowdowns=("power cap",))), None),
        (card(reading(0.5, slowdowns=("power cap", "hardware thermal slowdown"))), "throttled"),
        (card(reading(0.5, slowdowns=("software thermal slowdown",))), "throttled"),
        (card(reading(0.5, slowdowns=("hardware power brake",))), "throttled"),
        (card(reading(0.5, slowdowns=("hardware slowdown",))), "throttled"),
        (card(before=counted("socket too hot", 3), after=counted("socket too hot", 3)), None),
        (card(before=counted("socket too hot", 3), after=counted("socket too hot", 4)), "throttled"),
        (card(before=counted("power cap", 3), after=counted("power cap", 4)), None),
        (card(after=counted("socket too hot", 4)), None),  # not known before, so not known to have risen
    ],
)
@pytest.mark.parametrize("host", [True, False])
def test_what_disturbs_a_card(seen, kind, host):
    found = find_disturbed(spans(), [conditions(card=seen)], host=host)
    assert causes(found) == ([] if kind is None else [(0, kind), (1, kind)])


def test_a_slowdown_costs_the_blocks_during_which_it_was_seen():
    seen = card(
        *(reading(at / 10, slowdowns=("hardware thermal slowdown",) if at == 7 else ()) for at in range(1, 10)),
        before=counted("hardware thermal slowdown", 0),
        after=counted("hardware thermal slowdown", 90),
    )
    found = find_disturbed(spans(2, ends=(0.5, 1.0)), [conditions(card=seen)], host=False)
    assert causes(found) == [(1, "throttled")]


def processes_at(*clocks, slowdowns=(), idle=False, readings=5):
    """One block of four processes, whose card ran at these clocks."""
    each = (
        card(*(reading((at + 1) / (readings + 1), mhz, slowdowns=slowdowns, idle=idle) for at in range(readings)))
        for mhz in clocks
    )
    return [conditions(card=one).model_copy(update={"load": load(began=0)}) for one in each]


@pytest.mark.parametrize(
    ("seen", "kinds"),
    [
        (processes_at(1980, 1980, 1980, 1980), []),
        (processes_at(1980, 1965, 1965, 1980), []),  # 0.8 per cent
        (processes_at(1980, 1950, 1950, 1980), ["clock"]),  # 1.5 per cent
        (processes_at(1980, 1950, 1950, 1980, idle=True), []),
        (processes_at(1980, 1350, 1350, 1980, slowdowns=("power cap",)), []),
        (processes_at(1980, 1350, 1350, 1980, slowdowns=("power cap", "hardware slowdown")), ["throttled"]),
        (processes_at(1980, 1350, 1350, 1980, readings=1), []),  # two readings a side are no mean
        (processes_at(None, None, 1350, 1980), ["clock"]),
        (processes_at(None, None, None, 1980), []),
    ],
)
def test_clocks_of_the_two_versions(seen, kinds):
    each = spans(1, process=lambda block, slot: slot)
    later = [  # processes run one after another
        one.model_copy(
            update={
                "load": one.load.model_copy(update={"began_us": one.load.began_us + 10 * place * SECOND}),
                "card": one.card.model_copy(
                    update={
                        "during": tuple(
                            r.model_copy(update={"at_us": r.at_us + 10 * place * SECOND}) for r in one.card.during
                        )
                    }
                ),
            }
        )
        for place, one in enumerate(seen)
    ]
    assert [one.kind for one in find_disturbed(each, later, host=False)] == kinds


def test_sentences():
    load = [
        Disturbance(label="x", block=n, kind="foreign_load", amount=share) for n, share in enumerate((0.3, 0.4, 0.5))
    ]
    hot = Disturbance(label="x", block=9, kind="throttled", names=("hardware thermal slowdown",))
    assert left_out((*load, hot), 60) == (
        "3 of 60 blocks left out: other processes used 40% of the timed core",
        "1 of 60 blocks left out: the card was throttled (hardware thermal slowdown)",
    )
    assert left_out((), 60) == ()
