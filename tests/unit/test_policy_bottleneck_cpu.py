"""What misses of the first cache prove on a processor, and that nothing is said of launches there."""

from pathlib import Path

import pytest

from ridgeline.graph.contract import Scoring, Work
from ridgeline.graph.evidence import Ceilings
from ridgeline.graph.record import ShapeRoof
from ridgeline.graph.rules import history as fold
from ridgeline.graph.rules.bottleneck import classify_bottleneck, classify_by_timing
from ridgeline.graph.rules.roofline import compute_shape_roofs
from ridgeline.graph.trial import Traced, find
from ridgeline.sandbox.store.ledger import JsonlLedger
from tests.builders import make_profiled, make_row

RECORDED = Path(__file__).parents[2] / "evals" / "campaigns"
SCORING = Scoring(primary_metric="GFLOPS", time_ms="Time (ms)")
ROOF = ShapeRoof(label="s", flops=1.0, bytes=64_000.0, intensity=1.0, bound="memory", floor_us=1.0)
PASS = {"instructions": 20_000, "calls": 1, "d1_misses": 1000}
"""One pass over 64 kB, 50 misses per 1000 instructions."""


def profiled(**changes):
    values = {**PASS, **changes}
    return make_profiled({name: value for name, value in values.items() if value is not None})


@pytest.mark.feature("F062")
@pytest.mark.parametrize(
    ("changes", "roofs", "label", "word"),
    [
        ({}, (ROOF,), "unknown", "but 64 kB fetched in a call, where the largest shape moves 64 kB"),
        ({"d1_misses": 1999}, (ROOF,), "unknown", "no line needs to come twice"),
        ({"d1_misses": 2000}, (ROOF,), "memory", "128 kB fetched in a call, where the largest shape moves 64 kB"),
        # the same misses, of half the instructions: the rate doubles, and nothing else is known
        ({"instructions": 10_000}, (ROOF,), "unknown", "this rate rises when only the instructions fall"),
        # the same lines in twice as many calls
        ({"d1_misses": 3999, "calls": 2}, (ROOF,), "unknown", "64 kB"),
        ({"d1_misses": 4000, "calls": 2}, (ROOF,), "memory", "lines are fetched again"),
        # nothing says what a call must move, or how many there were
        ({}, (), "unknown", "neither cycles nor the bytes of a call say what they cost"),
        ({"calls": None}, (ROOF,), "unknown", "neither cycles nor the bytes"),
        # few misses, whatever is known besides
        ({"instructions": 33_334}, (ROOF,), "compute", "few misses"),
        # cycles decide: lost, or not
        ({"cycles": 20_001}, (), "memory", "d1_misses 50.0 per 1000 instructions at 1.00 a cycle"),
        ({"cycles": 20_000}, (), "compute", "misses overlapped -> the number of instructions leads"),
        ({"cycles": 20_000, "branch_misses": 100}, (), "latency", "branch_misses 5.0"),
        # what reaches memory is a rate of its own
        ({"ll_misses": 200}, (ROOF,), "memory", "ll_misses 10.0 per 1000"),
    ],
)
def test_misses_of_the_first_cache_need_lost_cycles_or_lines_that_come_again(changes, roofs, label, word):
    found, chain = classify_bottleneck(profiled(**changes), roofs, (), SCORING, cpu=True)
    assert found == label
    assert word in chain


def test_no_vectorised_loop_is_no_cause_where_misses_leave_it_open():
    """Intrinsics are no loop that a compiler vectorised."""
    seen = profiled(vectorized_loops=0, missed_vectorizations=9)
    assert classify_bottleneck(seen, (ROOF,), (), SCORING, cpu=True)[0] == "unknown"


@pytest.mark.feature("F062")
def test_the_recorded_softmax_is_not_called_memory_bound_because_its_instructions_fell():
    """As recorded: from round 2 on 31,400 misses in four calls, of 21.3, 0.91, 0.87 and 0.81 million instructions."""
    known = fold.fold_ledger(JsonlLedger(RECORDED / "softmax_c_mailbox" / "ledger.jsonl").lines())
    assert known is not None
    assert known.baseline is not None
    assert known.roofline is not None
    roofs = compute_shape_roofs(known.baseline.quick.rows, known.contract.work, known.roofline.ceilings)
    traced = [find(closed.judged, Traced) for closed in known.rounds]
    profiles = [one.profile for one in traced if one and one.profile]
    rates = [1e3 * (one.counter("d1_misses") or 0) / (one.counter("instructions") or 1) for one in profiles]
    assert [round(rate, 1) for rate in rates] == [34.8, 35.9, 36.0, 39.0, 39.0, 39.0]
    assert len({round((one.counter("d1_misses") or 0) / 1e3) for one in profiles}) <= 2
    for one in profiles:
        label, chain = classify_bottleneck(one, roofs, (), known.contract.scoring, cpu=True)
        assert label == "unknown"
        assert "502 kB" in chain or "501.9 kB" in chain or "506 kB" in chain
        assert "where the largest shape moves 1049 kB" in chain
    assert {closed.bottleneck for closed in known.rounds[1:]} == {"unknown"}


CEILINGS = Ceilings(copy_gbps=10.0, flops_gflops=100.0, method="m", machine="m")


def timed(*sizes, ceilings=None, cpu=True):
    """sizes: (bytes, GB/s)."""
    scoring = Scoring(primary_metric="GB/s", time_ms="Time (ms)")
    rows = tuple(
        make_row(f"s{n}", metrics={"N": size, "GB/s": rate, "Time (ms)": size / rate / 1e6})
        for n, (size, rate) in enumerate(sizes)
    )
    return classify_by_timing(
        compute_shape_roofs(rows, Work(flops="N/1000", bytes="N"), ceilings), rows, scoring, cpu=cpu
    )


@pytest.mark.parametrize(
    ("sizes", "ceilings", "gpu", "cpu"),
    [
        (((1e3, 1.0), (2e3, 2.0), (4e3, 4.0)), None, "launch", "latency"),
        (((1e3, 1.0),), CEILINGS, "launch", "unknown"),
        (((1e6, 1.0), (1e6, 3.0)), CEILINGS, "latency", "latency"),
        (((1e6, 1.0), (1e6, 1.1)), CEILINGS, "unknown", "unknown"),
        (((1e6, 9.0),), CEILINGS, "memory", "memory"),
    ],
)
def test_a_processor_launches_nothing(sizes, ceilings, gpu, cpu):
    assert timed(*sizes, ceilings=ceilings, cpu=False)[0] == gpu
    label, chain = timed(*sizes, ceilings=ceilings)
    assert label == cpu
    assert not any(word in chain for word in ("launch", "blocks", "threads", "device"))


SCALAR = {"vectorized_loops": 0, "missed_vectorizations": 4}


def test_code_that_is_written_in_vectors_is_not_told_to_let_its_loops_vectorise():
    """Seen: a kernel of intrinsics, about whose loops gcc says that they stayed scalar, for three rounds in a row."""
    label, chain = classify_bottleneck(make_profiled(SCALAR), (), (), SCORING, cpu=True)
    assert (label, "scalar loops -> let them vectorise" in chain) == ("compute", True)
    written = make_profiled({**SCALAR, "explicit_vectors": 28})
    label, chain = classify_bottleneck(written, (), (), SCORING, cpu=True)
    assert label == "unknown"
    assert "28 lines are written in vectors" in chain
    assert "vectorise" not in chain


@pytest.mark.parametrize(
    ("vectors", "advice"),
    [
        ({}, "vectorise, do less work"),
        ({"vectorized_loops": 3, "missed_vectorizations": 0}, "do less work for each element: the loops are vectors"),
        ({"vectorized_loops": 3, "missed_vectorizations": 2}, "do less work; 3 loops are vectors, 2 stay scalar"),
        ({**SCALAR, "explicit_vectors": 5}, "do less work for each element: the source is written in vectors"),
        ({"vectorized_loops": 0, "missed_vectorizations": 4, "explicit_vectors": 0}, "let them vectorise"),
    ],
)
def test_what_the_compiler_has_done_already_is_not_advised(vectors, advice):
    label, chain = classify_bottleneck(profiled(d1_misses=10, **vectors), (ROOF,), (), SCORING, cpu=True)
    assert label == "compute"
    assert advice in chain
    assert chain.count("vectorise") == advice.count("vectorise")
