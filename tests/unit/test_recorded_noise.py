"""Recordings of a real H100: that they are read rightly, and what the rule of preset `evidence` says of them again."""

import functools
import gzip
import json
import math

import pytest

from ridgeline.evals.research.noise.recordings import (
    Block,
    KernelRecord,
    Process,
    RecordingError,
    load,
    parse_recording,
    recordings,
)
from ridgeline.evals.research.noise.rejudge import Case, decide, effect, noises, pick, scatter_of, tally
from ridgeline.graph.limits import Limits
from ridgeline.graph.stats.noise import estimate_noise
from ridgeline.graph.values import Artifact

RAW = Artifact(sha256="0" * 64, name="made.jsonl.gz", size=1)
OLD, SHORT, LONG = recordings()
loaded = functools.cache(load)


def recorded_in(path, kernel: str, engine: str) -> KernelRecord:
    return next(item for item in loaded(path) if (item.kernel, item.engine) == (kernel, engine))


def made(processes: int, *, ratio: float, captured: str = "AB", us: float = 100.0) -> KernelRecord:
    """Blocks that alternate by a thousandth around `ratio` = ln(t_A / t_B)."""
    sides = [us * math.exp(ratio + wobble) for wobble in (-0.001, 0.001)]
    blocks = tuple(Block(order="ABBA", us=(side, us, us, side)) for side in (*sides, *sides, *sides))
    process = Process(captured=captured, blocks=blocks, seconds=2.0)
    return KernelRecord(
        name="made", kernel="k", engine="graph", machine="m", planted=False, processes=(process,) * processes, raw=RAW
    )


@pytest.mark.parametrize(
    ("order", "us", "best", "candidate", "expected"),
    [
        ("ABBA", (100, 200, 200, 100), "A", "B", math.log(0.5)),
        ("BAAB", (100, 200, 200, 100), "A", "B", math.log(2)),
        ("ABBA", (100, 101, 102, 103), "A", "B", math.log(100 * 103 / 101 / 102) / 2),
        ("ACBBA", (4, 8, 1, 1, 4), "C", "A", math.log(2)),
        ("ADBCCBDA", (1, 1, 1, 8, 8, 1, 1, 2), "C", "A", math.log(8) - math.log(2) / 2),
    ],
)
def test_a_ratio_compares_the_two_roles_of_a_block_and_nothing_else(order, us, best, candidate, expected):
    process = Process(captured="ABCD", blocks=(Block(order=order, us=us),), seconds=0.0)
    assert process.ratios(best, candidate, blocks=5) == pytest.approx((expected,))


def test_a_role_that_was_not_timed_is_an_error_and_not_a_number():
    process = Process(captured="AB", blocks=(Block(order="ABBA", us=(1, 1, 1, 1)),), seconds=0.0)
    with pytest.raises(RecordingError, match="no sample of C"):
        process.ratios("C", "A", blocks=1)
    with pytest.raises(RecordingError, match="no sample of D"):
        process.median_us("D")


@pytest.mark.parametrize(("captured", "sign"), [("ABCD", 1), ("BA", -1), ("CBDA", -1), ("DACB", 1)])
def test_the_coin_that_swapped_the_twins_is_undone_by_the_order_of_capture(captured, sign):
    assert Process(captured=captured, blocks=(), seconds=0.0).sign("A", "B") == sign


@pytest.mark.parametrize(
    "content", [b"", b"not gzip", gzip.compress(b"not json", mtime=0), gzip.compress(b'{"seed": 1}', mtime=0)]
)
def test_a_file_that_is_no_recording_is_named(tmp_path, content):
    path = tmp_path / "broken.jsonl.gz"
    path.write_bytes(content)
    with pytest.raises(RecordingError, match=r"broken\.jsonl\.gz"):
        load(path)


def test_seconds_of_a_pair_count_the_start_this_kernel_and_two_of_four_roles():
    one = {"captured": "AB", "prepared_s": 1.0, "event": [["ABBA", 1, 1, 1, 1]], "event_s": 0.4}
    one |= {"graph": [["ABBA", 1, 1, 1, 1]], "graph_s": 0.6}
    lines = [{"schema": "s", "device": "card"}, {"seed": 1, "seconds": 10.0, "kernels": {"a": one, "b": one}}]
    found = parse_recording(lines, raw=RAW)
    assert [(item.kernel, item.engine, item.processes[0].seconds) for item in found] == [
        ("a", "event", pytest.approx(7.2)),
        ("a", "graph", pytest.approx(7.3)),
        ("b", "event", pytest.approx(7.2)),
        ("b", "graph", pytest.approx(7.3)),
    ]


def test_a_gain_given_afterwards_moves_every_ratio_by_it():
    recorded = made(3, ratio=0.0)
    plain, scaled = (recorded.comparison("A", "B", blocks=6, gain=gain) for gain in (0.0, 0.01))
    moved = zip(plain.shapes[0].pairs[0], scaled.shapes[0].pairs[0], strict=True)
    assert [after - before for before, after in moved] == pytest.approx([math.log(1.01)] * 6)
    assert (plain.seconds, pick(plain, [2]).seconds) == (6.0, pytest.approx(2.0))


@pytest.mark.parametrize(
    ("ratio", "stand", "pairs"), [(0.05, "faster", 2), (0.0, "not_better", 1), (-0.05, "not_better", 1)]
)
def test_deciding_stops_at_the_first_look_that_decides(ratio, stand, pairs):
    limits, twins = Limits(), made(16, ratio=0.0)
    noise = estimate_noise([twins.comparison("A", "B", blocks=limits.blocks)])
    judged = made(1, ratio=ratio).comparison("A", "B", blocks=limits.blocks)
    decision = decide([judged] * 12, noise, limits)
    assert (decision.stand, decision.pairs) == (stand, pairs)


def test_the_shipped_recordings_hold_what_they_claim():
    for path, processes, blocks in ((OLD, 59, 16), (SHORT, 72, 10), (LONG, 48, 32)):
        found = loaded(path)
        assert {(item.engine, len(item.processes)) for item in found} == {("event", processes), ("graph", processes)}
        assert {len(process.blocks) for item in found for process in item.processes} == {blocks}
    graph = sorted(item.level_us for item in loaded(LONG) if item.engine == "graph")
    assert graph[0] < 5 < graph[2] < 200 < 1000 < graph[-1]


def test_twins_of_the_new_recordings_are_the_same_machine_code_captured_in_random_order():
    lines = [json.loads(line) for line in gzip.decompress(LONG.read_bytes()).decode().splitlines()[1:]]
    codes = [found["code"] for line in lines for found in line["kernels"].values()]
    assert all(code["A"] == code["B"] for code in codes)
    signs = [process.sign("A", "B") for process in recorded_in(LONG, "poly_64k", "graph").processes]
    assert 10 < signs.count(1) < len(signs) - 10
    assert all(line["before"] and line["after"] for line in lines)


@pytest.mark.parametrize(
    ("kernel", "engine", "offset", "block_sd"),
    [
        ("add_64k", "graph", 0.0139, 0.039),
        ("gemm_1024_bf16", "graph", 0.0024, 0.021),
        ("softmax_8192x4096", "graph", -0.0001, 0.0033),
        ("softmax_8192x4096", "event", 0.001, 0.048),
    ],
)
def test_the_noise_of_the_older_recording(kernel, engine, offset, block_sd):
    seen = scatter_of(recorded_in(OLD, kernel, engine))
    assert seen.offset == pytest.approx(offset, abs=3e-4)
    assert seen.block_sd == pytest.approx(block_sd, rel=0.05)


def test_twins_that_differ_systematically_are_never_kept():
    recorded, limits = recorded_in(OLD, "add_64k", "graph"), Limits(blocks=16)
    assert min(noise.allowance for noise in noises(recorded, limits, orders=40)) > 0.01
    for case in (Case(best="A", candidate="B"), Case(best="B", candidate="A")):
        assert tally(recorded, case, limits, orders=40).share("faster") == 0


@pytest.mark.parametrize(
    ("path", "kernel", "case", "within"),
    [
        (OLD, "softmax_8192x4096", Case(best="C", candidate="A"), 2),
        (OLD, "add_64M", Case(best="C", candidate="A"), 2),
        (OLD, "gemm_4096_bf16", Case(best="A", candidate="B", gain=0.03), 2),
        (OLD, "gemm_4096_bf16", Case(best="A", candidate="B", gain=0.01), 4),
        (LONG, "add_256m", Case(best="A", candidate="D"), 2),
        (LONG, "gemm_4096_bf16", Case(best="C", candidate="A"), 2),
        (LONG, "softmax_8192x4096", Case(best="A", candidate="B", gain=0.01), 4),
    ],
)
def test_gains_of_large_kernels_are_decided_in_few_pairs(path, kernel, case, within):
    recorded = recorded_in(path, kernel, "graph")
    seen = tally(recorded, case, Limits(blocks=len(recorded.processes[0].blocks)), orders=40)
    assert seen.share("faster", within=within) >= 0.9
    assert seen == tally(recorded, case, Limits(blocks=len(recorded.processes[0].blocks)), orders=40)


def test_what_was_planted_is_what_was_measured():
    for kernel in ("add_256m", "gemm_4096_bf16", "softmax_8192x4096"):
        recorded = recorded_in(LONG, kernel, "graph")
        assert effect(recorded, "C", "A") == pytest.approx(0.03, abs=0.002)
        assert effect(recorded, "A", "D") == pytest.approx(0.03, abs=0.002)
    assert abs(effect(recorded_in(LONG, "add_64k", "graph"), "C", "A")) < 0.005
