"""Slots are made without being checked twice; written and read back, they are what checked ones are."""

import json
from typing import Literal

from pydantic import TypeAdapter

from ridgeline.graph.values import Value
from ridgeline.sandbox.devices.values import Conditions, Load
from ridgeline.sandbox.timing.disturbances import FOREIGN_SHARE, Span, find_disturbed
from ridgeline.sandbox.timing.interleaving import Pair, Slot, TimedPair, read_slots

CSV = b"label,block,slot,side,time_us,at_us,shared\n" + b"".join(
    b"s1,0,%d,%s,%s,%d,0\n" % (number, side, time, 10 + number)
    for number, (side, time) in enumerate([(b"a", b"1.5"), (b"b", b"2"), (b"b", b"-"), (b"a", b"1e-3")])
)


class Checked(Value):
    """A slot as a value of ours, in the order it has always been written."""

    label: str
    block: int
    slot: int
    side: Literal["best", "candidate"]
    time_us: float | None
    at_us: float | None = None
    shared: bool | None = None
    process: int = 0


def test_a_slot_is_written_and_read_back_as_a_value_is():
    slots = read_slots(CSV, a="best", requested=("s1",), blocks=1)
    assert isinstance(slots, tuple)
    timed = TimedPair(pair=Pair(pair=3, slots=slots), processes=())
    written = timed.model_dump(mode="json")
    checked = TypeAdapter(tuple[Checked, ...]).validate_python(written["pair"]["slots"])
    assert json.dumps(written["pair"]["slots"]) == json.dumps([one.model_dump(mode="json") for one in checked])
    assert TimedPair.model_validate_json(timed.model_dump_json()) == timed
    assert all(type(slot) is Slot for slot in TimedPair.model_validate(written).pair.slots)


def test_a_quiet_machine_is_told_from_a_busy_one_at_the_limit():
    def seen(foreign: float) -> Conditions:
        load = Load(began_us=0, seconds=1, foreign_s=foreign, steal_s=0, sibling_s=None)
        return Conditions(core=1, load=load, slices=(load,))

    spans = [Span(label="s", block=0, side="best", process=0, at_us=5e5)]
    assert find_disturbed(spans, [seen(FOREIGN_SHARE)], host=True) == ()
    (found,) = find_disturbed(spans, [seen(FOREIGN_SHARE + 1e-6)], host=True)
    assert found.kind == "foreign_load"
    assert find_disturbed(spans, [seen(0.9)], host=False) == ()
