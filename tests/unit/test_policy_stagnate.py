"""When the direction must change."""

import pytest

from ridgeline.graph.evidence import BenchmarkFailed, Origin
from ridgeline.graph.record import Reviewed
from ridgeline.graph.reports.html import describe_losses
from ridgeline.graph.rules.escalation import advise_escalation, compare_machine_code, describe_best_known
from ridgeline.graph.rules.stagnation import find_stagnation
from tests.builders import (
    make_benchmark,
    make_contract,
    make_history,
    make_hypothesis,
    make_judged,
    make_limits,
    make_profiled,
    make_round,
    make_traced,
)

PATIENT = {"stagnation_rollbacks": 99, "stagnation_same_category": 99, "stagnation_same_bottleneck": 99}


def rounds(pattern, *, categories="", bottlenecks=""):
    """`pattern`: a accepted, t accepted as a tie, r rolled back; one letter a round. Others cycle by default."""
    names = {"t": "tile", "l": "layout", "p": "pipelining"}
    labels = {"m": "memory", "c": "compute", "u": "unknown"}
    found = []
    for n, letter in enumerate(pattern):
        category = names[categories[n]] if categories else list(names.values())[n % 3]
        bottleneck = labels[bottlenecks[n]] if bottlenecks else ("memory", "compute")[n % 2]
        found.append(
            make_round(
                n + 2,
                "rolled_back" if letter == "r" else "accepted",
                reason="tie_with_benefit" if letter == "t" else None,
                hypothesis=make_hypothesis(category=category),
                bottleneck=bottleneck,
            )
        )
    return found


def review(after_round):
    return Reviewed(after_round=after_round, trigger="", directions=("a", "b", "c"), escalation="")


@pytest.mark.feature("F056")
@pytest.mark.parametrize(
    ("pattern", "due"), [("", False), ("r", False), ("rr", True), ("rar", False), ("arr", True), ("rra", False)]
)
def test_two_rollbacks(pattern, due):
    why = find_stagnation(make_history(*rounds(pattern)))
    assert why == ("2 consecutive rollbacks" if due else None)


def unmeasured(number, reason="unstable"):
    """A round whose candidate was never timed."""
    commit = f"{number:x}".rjust(2, "0") * 20
    failed = BenchmarkFailed(commit=commit, reason=reason, detail="others took the core", seconds=2.0)
    trial = make_traced(failed, failed, failed, round=number, commit=commit)
    return make_round(number, judged=make_judged("rolled_back", "benchmark_failed", gain=None, trial=trial))


def test_what_a_busy_machine_left_unmeasured_is_no_sign_of_stagnation():
    apart = make_limits(**{**PATIENT, "stagnation_rollbacks": 2, "unmeasured_apart": True})
    assert find_stagnation(make_history(unmeasured(2), unmeasured(3), limits=apart)) is None
    lost = (*rounds("r"), unmeasured(3))
    assert find_stagnation(make_history(*lost, limits=apart)) is None
    failed = (*rounds("r"), unmeasured(3, "no_csv"))
    assert find_stagnation(make_history(*failed, limits=apart)) == "2 consecutive rollbacks"
    commit = "03" * 20
    lost_pair = BenchmarkFailed(commit=commit, reason="unstable", detail="others took the core", seconds=2.0)
    trial = make_traced(lost_pair, make_benchmark(commit=commit), round=3, commit=commit)
    refused = make_round(3, judged=make_judged("rolled_back", "benchmark_failed", gain=None, trial=trial))
    assert find_stagnation(make_history(*rounds("r"), refused, limits=apart)) == "2 consecutive rollbacks", (
        "it was timed"
    )
    before = apart.model_copy(update={"unmeasured_apart": False})
    assert find_stagnation(make_history(*lost, limits=before)) == "2 consecutive rollbacks"
    page = describe_losses(make_history(*lost, limits=apart))
    assert "round-2" in page.split("The machine")[0]
    assert "round-3" not in page.split("The machine")[0]
    assert "The machine was too busy to time round-3: nothing is known of what they changed." in page


@pytest.mark.feature("F056")
@pytest.mark.parametrize(("after", "due"), [((3,), False), ((2,), True), ((1, 2), True), ((2, 3), False)])
def test_no_review_again_before_two_more_rounds_closed(after, due):
    history = make_history(*rounds("rrr"), reviews=tuple(review(n) for n in after))
    assert (find_stagnation(history) is not None) is due


@pytest.mark.feature("F057")
@pytest.mark.parametrize(
    ("pattern", "categories", "due"),
    [
        ("rrr", "ttt", True),
        ("ttt", "ttt", True),
        ("rtr", "ttt", True),
        ("rr", "tt", False),
        ("rrr", "ttl", False),
        ("rar", "ttt", False),
        ("arrr", "tttt", True),
    ],
)
def test_three_rounds_of_one_category_without_gain(pattern, categories, due):
    limits = make_limits(**{**PATIENT, "stagnation_same_category": 3})
    why = find_stagnation(make_history(*rounds(pattern, categories=categories), limits=limits))
    assert why == ("3 rounds of category tile without a measurable gain" if due else None)


@pytest.mark.feature("F057")
@pytest.mark.parametrize(
    ("pattern", "bottlenecks", "due"),
    [
        ("rrrr", "mmmm", True),
        ("rrr", "mmm", False),
        ("rrrr", "mmmc", False),
        ("rrar", "mmmm", False),
        ("rrrr", "uuuu", False),
        ("arrrr", "cmmmm", True),
    ],
)
def test_the_same_bottleneck_for_four_rounds(pattern, bottlenecks, due):
    limits = make_limits(**{**PATIENT, "stagnation_same_bottleneck": 4})
    why = find_stagnation(make_history(*rounds(pattern, bottlenecks=bottlenecks), limits=limits))
    assert why == ("bottleneck memory for 4 rounds with nothing accepted" if due else None)


@pytest.mark.feature("F040")
@pytest.mark.parametrize(
    ("streak", "word"),
    [
        (1, "diagnose"),
        (2, "profile the best version afresh"),
        (3, "machine code"),
        (4, "best known"),
        (9, "best known"),
    ],
)
def test_escalation(streak, word):
    assert word in advise_escalation(streak)


@pytest.mark.parametrize("streak", [0, -1])
def test_nothing_to_escalate(streak):
    assert advise_escalation(streak) == ""


@pytest.mark.feature("F040")
def test_machine_code_is_laid_side_by_side_where_one_instrument_saw_both():
    names = ("best version", "the original")
    before = make_profiled({"instructions": 100.0, "vectorized_loops": 0.0, "d1_misses": 7.0})
    after = make_profiled({"instructions": 80.0, "vectorized_loops": 0.0, "d1_misses": 1.0})
    (line,) = compare_machine_code(after, before, names=names)
    assert line == ("machine code of best version against the original: instructions 100 -> 80; 1 numbers are the same")
    other = make_profiled({"instructions": 80.0}, rung="perf")
    assert "which are not compared" in compare_machine_code(other, before, names=names)[0]
    assert "not both were profiled" in compare_machine_code(None, before, names=names)[0]
    read = tuple(Origin(name="vgpr_spills", rung=rung, source="hipcc") for rung in ("isa",))
    spilling = make_profiled({"vgpr_spills": 3.0}, rung="rocprofv3", origins=read)
    whole = make_profiled({"vgpr_spills": 0.0}, rung="rocprofv3", origins=read)
    assert "vgpr_spills 0 -> 3" in compare_machine_code(spilling, whole, names=names)[0]


def test_the_time_of_a_processors_run_is_no_number_of_its_machine_code():
    """Seen: where gcc's remarks were the best rung, the time and calls that the program prints stood there too."""
    before, after = (
        make_profiled({"kernel_time_us": time, "calls": 4.0, "vectorized_loops": 0.0}, rung="compiler_report")
        for time in (10.0, 13.0)
    )
    (line,) = compare_machine_code(after, before, names=("best version", "the original"))
    assert line == "machine code of best version against the original: the same in every number"


@pytest.mark.feature("F040")
@pytest.mark.parametrize(
    ("ours", "advice"), [(40.0, "far from it"), (60.0, "profile methodically"), (90.0, "machine code"), (101.0, "past")]
)
def test_the_share_of_the_best_known_kernel_says_what_next(ours, advice):
    contract = make_contract()
    theirs = make_benchmark({"small": 100.0, "large": 100.0}).rows
    rows = {row.label: row for row in make_benchmark({"small": ours, "large": 120.0}).rows}
    (line,) = describe_best_known("hipBLASLt", theirs, rows, contract.scoring)
    assert f"small {ours:.0f} %, large 120 % of its speed" in line
    assert advice in line
