"""The judge's device path with the processor as the device: the same numbers as the other path, the same refusals."""

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ridgeline.graph.judgment import TimedCall
from ridgeline.graph.task import Input, Output, Shape, Task

torch = pytest.importorskip("torch")

from ridgeline.sandbox.judge import device_numerics, device_session, device_timing, device_values, inputs, numerics  # noqa: E402
from ridgeline.sandbox.judge.device_judge import TERMS_COUNTED, DeviceCallJudge, DeviceTests  # noqa: E402
from ridgeline.sandbox.judge.device_reference import DeviceReference  # noqa: E402
from ridgeline.sandbox.judge.device_session import (  # noqa: E402
    MOST_PACKS,
    CompiledCode,
    DeviceBuffers,
    DeviceSealed,
    DeviceSession,
    PackFolder,
    SizeTooLarge,
    open_memory,
    plan_memory,
)
from ridgeline.sandbox.judge.device_timing import DevicePairs, DeviceTurns  # noqa: E402
from ridgeline.sandbox.judge.device_values import Chance, to_storage  # noqa: E402
from ridgeline.sandbox.judge.dtypes import to_float64  # noqa: E402
from ridgeline.sandbox.judge.freeze import freeze_sources  # noqa: E402
from ridgeline.sandbox.judge.options import Options  # noqa: E402
from ridgeline.sandbox.judge.timing import TimingRefused  # noqa: E402

REFERENCE = "import torch\ndef reference(x):\n    return torch.softmax(x, -1)\n"
HONEST = "import torch\ndef soft(x, y):\n    e = torch.exp(x - x.amax(-1, keepdim=True))\n    y.copy_(e / e.sum(-1, keepdim=True))\n"
TASK = Task(
    name="soft",
    language="python",
    source=("kernel.py",),
    entry="soft",
    inputs=(Input(name="x", shape=("r", "c")),),
    outputs=(Output(name="y", shape=("r", "c")),),
    shapes=(Shape(label="s", dims={"r": 48, "c": 96}),),
)
KINDS = TASK.model_copy(
    update={
        "inputs": (
            Input(name="x", shape=("r", "c")),
            Input(name="h", shape=("c",), dtype="bfloat16", values="positive"),
            Input(name="u", shape=("r", "c"), dtype="float16", values="uniform"),
            Input(name="e", shape=("r", "c"), dtype="float8_e4m3fn"),
            Input(name="f", shape=("r", "c"), dtype="float8_e5m2", values="uniform"),
            Input(name="i", shape=("r",), dtype="int64", values="integers", low=-3, high=50),
            Input(name="m", shape=("r", "c"), dtype="bool", values="mask"),
        )
    }
)
Opener = Callable[[str], Callable[[], DeviceSession]]


@pytest.fixture
def bench(tmp_path: Path) -> DeviceCallJudge:
    (tmp_path / "reference.py").write_text(REFERENCE)
    chance = Chance.draw("cpu", np.random.default_rng(7))
    reference = DeviceReference(TASK, tmp_path, "cpu")
    return DeviceCallJudge(task=TASK, reference=reference, options=Options(device="cpu"), chance=chance)


@pytest.fixture
def opener(tmp_path: Path, bench: DeviceCallJudge) -> Iterator[Opener]:
    """Fresh workers with these sources."""
    frozen: list[Any] = []

    def make(text: str) -> Callable[[], DeviceSession]:
        folder = tmp_path / f"version{len(frozen)}"
        folder.mkdir(mode=0o755)
        (folder / "kernel.py").write_text(text)
        frozen.append(freeze_sources(TASK, folder))
        sources = frozen[-1].__enter__().folder
        memory = open_memory("cpu")
        return lambda: DeviceSession(TASK, sources, memory=memory, chance=bench.chance, device="cpu")

    yield make
    for each in frozen:
        each.__exit__(None, None, None)


@pytest.mark.parametrize("mix", [*inputs.MIXES, *inputs.PARTS])
def test_each_kind_of_values_is_that_of_the_other_path(mix: str) -> None:
    rng = np.random.default_rng(3)
    chance, dims = Chance.draw("cpu", rng), {"r": 64, "c": 128}
    sizes: dict[str, list[list[float]]] = {tensor.name: [[], []] for tensor in KINDS.inputs}
    for _ in range(24):
        here, there = device_values.draw(KINDS, dims, mix, chance), inputs.draw(KINDS, dims, mix, rng)
        for tensor in KINDS.inputs:
            drawn = to_storage(here[tensor.name], tensor.dtype)
            assert (drawn.dtype, drawn.shape) == (there[tensor.name].dtype, there[tensor.name].shape)
            for place, values in enumerate((drawn, there[tensor.name])):
                sizes[tensor.name][place].append(float(np.mean(np.abs(to_float64(values, tensor.dtype)))))
    for name, (here_sizes, there_sizes) in sizes.items():
        spread = np.std(here_sizes) + np.std(there_sizes) + 0.02 * np.mean(there_sizes)
        assert abs(np.mean(here_sizes) - np.mean(there_sizes)) <= 2 * spread, name


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int32"])
@pytest.mark.parametrize("damage", [0.0, 1e-7, 1e-2, 1.0, float("nan")])
def test_outputs_are_judged_as_by_the_other_path(dtype: Any, damage: float) -> None:
    rng = np.random.default_rng(5)
    oracle = rng.standard_normal((20, 30)) * 100
    kind = getattr(torch, dtype)
    if dtype == "int32":
        oracle, damage = np.round(oracle), 0.0 if np.isnan(damage) else np.ceil(damage)
    given = torch.from_numpy(oracle).to(kind)
    trusted = given.double()
    given[3, 4] = float(given[3, 4]) * (1 + damage)
    device = device_numerics.compare(
        given, torch.from_numpy(oracle), trusted, dtype=dtype, precision="strict", output="y"
    )
    plain = numerics.compare(
        to_storage(given, dtype), oracle, trusted.numpy(), dtype=dtype, precision="strict", output="y"
    )
    assert [(fault.kind, fault.detail) for fault in device] == [(fault.kind, fault.detail) for fault in plain]
    assert np.allclose([fault.measured for fault in device], [fault.measured for fault in plain], rtol=1e-9)


@pytest.mark.parametrize("shape", [(7, 33), (400,), (2, 3, 16)])
def test_what_few_passes_find_right_with_room_for_rounding_is_right_by_all(shape: tuple[int, ...]) -> None:
    chance, answers = torch.Generator().manual_seed(3), []
    for off in np.geomspace(1e-8, 1e-1, 60):
        oracle = torch.randn(shape, generator=chance, dtype=torch.float64) * 100
        noise = device_numerics.Noise(torch.rand(shape, generator=chance, dtype=torch.float64) * 100, 40.0)
        given = (oracle * (1 + off * torch.randn(shape, generator=chance, dtype=torch.float64))).float()
        words: Any = {"dtype": "float32", "precision": "strict", "noise": noise}
        exact = oracle.float().double()
        quick = device_numerics.is_plainly_right(given.double(), oracle, exact, **words)
        assert quick == (device_numerics.compare(given, oracle, exact, output="y", **words) == ())
        answers.append(quick)
        given.reshape(-1)[1] = float("nan")
        assert not device_numerics.is_plainly_right(given.double(), oracle, exact, **words)
    assert {True, False} == set(answers)
    assert not device_numerics.has_room(torch.full(shape, float("inf"), dtype=torch.float64), "float32")


def test_a_size_that_is_prepared_again_asks_the_reference_about_none_but_secret_calls(
    bench: DeviceCallJudge, opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    find_wrong = DeviceCallJudge.find_wrong
    monkeypatch.setattr(
        DeviceCallJudge,
        "find_wrong",
        lambda self, calls, *rest, **more: asked.append(1) or find_wrong(self, calls, *rest, **more),
    )
    sizes = (*TASK.timed, TASK.timed[0].model_copy(update={"label": "t", "dims": {"r": 20, "c": 96}}))
    quiet = replace(bench, options=bench.options.model_copy(update={"oracle_share": 0.0}))
    honest = opener(HONEST)
    assert not isinstance(DevicePairs(bench=quiet).run({"a": honest, "b": honest}, sizes, 2), TimingRefused)
    assert len(asked) == 2 * (2 + 1), "of each size: its first calls at both places, and one of another kind"


def test_an_honest_kernel_is_right_and_as_fast_as_itself(bench: DeviceCallJudge, opener: Opener) -> None:
    opened = CompiledCode(task=TASK, chance=bench.chance).opener("honest", opener(HONEST))

    assert DeviceTests(bench=bench).check(opened).answer == "yes"
    calls = DevicePairs(bench=bench).run({"a": opened, "b": opened}, TASK.timed, 3)
    assert not isinstance(calls, TimingRefused)
    assert len(calls) == 12


def test_a_later_command_starts_with_what_an_earlier_one_compiled(
    bench: DeviceCallJudge, opener: Opener, tmp_path: Path
) -> None:
    kept = PackFolder(folder=tmp_path / "compiled", place="here")
    leaves = "import os, pathlib\npathlib.Path(os.environ['XDG_CACHE_HOME'], 'made').write_text('by the first')\n"
    reads = (
        "import os, pathlib\nassert pathlib.Path(os.environ['XDG_CACHE_HOME'], 'made').read_text() == 'by the first'\n"
    )

    CompiledCode(task=TASK, chance=bench.chance, files=kept).opener("v", opener(leaves + HONEST))().close()
    (pack,) = kept.folder.glob("*.pack")
    later = CompiledCode(task=TASK, chance=bench.chance, files=kept).opener("v", opener(reads + HONEST))

    assert not kept.read("w")
    assert DeviceTests(bench=bench).check(later).answer == "yes"
    pack.unlink()
    fresh = CompiledCode(task=TASK, chance=bench.chance, files=kept).opener("v", opener(reads + HONEST))
    assert DeviceTests(bench=bench).check(fresh).answer == "no"


def test_only_so_many_packs_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = PackFolder(folder=tmp_path, place="here")
    for number in range(MOST_PACKS + 3):
        kept.write(str(number), b"bytes")
    assert len(list(tmp_path.iterdir())) == MOST_PACKS
    monkeypatch.setattr(device_session, "MOST_PACKED_BYTES", 100)
    kept.write("large", b"." * 90)
    assert len(list(tmp_path.iterdir())) <= 3, "5 bytes each beside it"
    assert kept.read("large")
    PackFolder(folder=tmp_path / "file" / "below", place="").write("v", b"")
    (tmp_path / "file").write_text("no folder")
    PackFolder(folder=tmp_path / "file" / "below", place="").write("v", b"bytes")


WRONG = {
    "half": HONEST.replace("torch.exp(x -", "torch.exp(x.half().float() -"),
    "input": HONEST + "    x.add_(1)\n",
    "beside": HONEST + "    torch.as_strided(y, (y.numel() + 64,), (1,), y.storage_offset())[y.numel():].fill_(3)\n",
    "memo": "import torch\nlast = []\n"
    + HONEST.replace("    y.copy_", "    if last: y.copy_(last[0]); return\n    y.copy_")
    + "    last.append(y.clone())\n",
    "nothing": "def soft(x, y):\n    pass\n",
    "ends": "import os\ndef soft(x, y):\n    os._exit(0)\n",
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_kernel_is_refused_in_tests_and_timings(bench: DeviceCallJudge, opener: Opener, name: str) -> None:
    honest, wrong = opener(HONEST), opener(WRONG[name])

    assert DeviceTests(bench=bench).check(wrong).answer == "no"
    refused = DevicePairs(bench=bench).run({"a": honest, "b": wrong}, TASK.timed, 6)
    assert isinstance(refused, TimingRefused)
    assert refused.side == "b"


def test_what_special_values_give_is_told_as_by_the_other_path(bench: DeviceCallJudge, opener: Opener) -> None:
    assert DeviceTests(bench=bench).check(opener(HONEST)).evidence[1:] == ()
    forgets = HONEST.replace("e = torch", "x = torch.where(x.isnan(), 0.0, x)\n    e = torch")
    told = DeviceTests(bench=bench).check(opener(forgets))
    assert told.answer == "yes", told
    assert told.evidence[1:] == (
        "NaN in x, s: 96 of 4608 elements of y differ from the reference in kind, such as a number for NaN",
    )


def test_larger_rounding_alone_is_told_the_field_that_allows_it(bench: DeviceCallJudge, opener: Opener) -> None:
    half = DeviceTests(bench=bench).check(opener(WRONG["half"])).evidence[0]
    assert "precision: relaxed" not in half, "what errs by a thousandth is no formula of float32"
    rounded = HONEST.replace(
        "e / e.sum(-1, keepdim=True)", "(e / e.sum(-1, keepdim=True) * 4097) - (e / e.sum(-1, keepdim=True) * 4096)"
    )
    told = (
        DeviceTests(bench=bench).check(opener(rounded)).evidence[0] for _ in range(6)
    )  # nothing is said beside outliers
    assert any("`precision: relaxed` in task.yaml allows that" in each for each in told)


def test_a_call_too_large_for_the_memory_is_judged_in_parts(
    bench: DeviceCallJudge, opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    dims = TASK.timed[0].dims
    monkeypatch.setattr(bench.reference, "free_bytes", lambda: bench.reference.needed_bytes(dims) // 5)
    values = device_values.draw(TASK, dims, "normal", bench.chance)
    assert len(list(bench.reference.parts(values, dims))) > 5

    assert DeviceTests(bench=bench).check(opener(HONEST)).answer == "yes"
    assert DeviceTests(bench=bench).check(opener(WRONG["half"])).answer == "no"


def test_calls_of_both_sides_with_the_same_values_are_held_against_one_answer(
    bench: DeviceCallJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    dims, asked, measured = TASK.timed[0].dims, [], []
    oracle, measure = bench.reference.oracle, device_numerics.measure_rounding_noise
    monkeypatch.setattr(bench.reference, "free_bytes", lambda: bench.reference.needed_bytes(dims) // 5)
    values = device_values.draw(TASK, dims, "normal", bench.chance)
    right = oracle(values)["y"]
    parts = len(list(bench.reference.parts(values, dims)))
    monkeypatch.setattr(bench.reference, "oracle", lambda inputs: asked.append(inputs) or oracle(inputs))
    monkeypatch.setattr(
        device_numerics, "measure_rounding_noise", lambda *a, **k: measured.append(k["terms"]) or measure(*a, **k)
    )

    def sealed(share: float) -> DeviceSealed:
        return DeviceSealed(outputs={"y": (right * (1 + share)).float()}, wall_us=1.0, called_us=1.0, claimed_us=1.0)

    for _ in range(TERMS_COUNTED):
        bench.find_wrong({"b": sealed(1e-2)}, bench.truth_of(values, dims))  # then terms are known
    counts = []
    for calls in ({"b": sealed(1e-2)}, {"a": sealed(1e-4), "b": sealed(1e-2)}, {"a": sealed(0.0), "b": sealed(1e-2)}):
        asked.clear(), measured.clear()
        wrong = bench.find_wrong(calls, bench.truth_of(values, dims))
        counts.append((len(asked), len(measured)))
        assert wrong.keys() == {name for name in calls if name == "b" or len(counts) == 2}
    assert counts[0] == counts[1]
    assert counts[2][0] >= parts, "what is right is compared to its end"


def test_terms_are_counted_by_a_few_items_of_an_independent_axis(bench: DeviceCallJudge) -> None:
    values, seen = device_values.draw(TASK, TASK.timed[0].dims, "normal", bench.chance), []

    def count(axis: str | None) -> float:
        def oracle(inputs: Any) -> Any:
            seen.append(tuple(inputs["x"].shape))
            return bench.reference.oracle(inputs)

        chance, sizes = bench.chance, {name: tuple(tensor.shape) for name, tensor in values.items()}
        return device_numerics.count_terms(TASK, sizes, oracle, chance.elements, chance.places, axis=axis)["y"]

    assert [count(None), count("r")] == [96.0, 96.0]
    assert seen == [(48, 96)] * 2 + [(4, 96)] * 2


def test_terms_are_counted_some_times_for_sizes_and_the_most_counts(
    bench: DeviceCallJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An element that is changed to count them may lie under a mask; what an operator feeds is no matter of a call's values."""
    counts, seen = iter((3.0, 96.0, 7.0, 1000.0)), []
    monkeypatch.setattr(
        device_numerics, "count_terms", lambda task, sizes, *a, **k: seen.append(sizes) or {"y": next(counts)}
    )
    dims = TASK.timed[0].dims
    terms = [bench._count_terms(device_values.draw(TASK, dims, "normal", bench.chance))["y"] for _ in range(5)]
    assert terms == [96.0] * 5
    assert len(seen) == TERMS_COUNTED


def test_noise_is_the_same_whether_terms_were_counted_before(bench: DeviceCallJudge) -> None:
    """Or a call that is made again by another process would be held against other numbers."""
    values, dims = device_values.draw(TASK, TASK.timed[0].dims, "normal", bench.chance), TASK.timed[0].dims
    terms: dict[str, dict[str, float]] = {}

    def measure() -> device_numerics.Noise:
        again = replace(bench, chance=Chance.draw("cpu", np.random.default_rng(7)), terms=terms)
        (part,) = again.truth_of(values, dims).parts()
        return again.sensitivity(part)["y"]

    first = measure()
    assert terms, "known from now on"
    second = measure()
    assert torch.equal(first.spread, second.spread)
    assert first.terms == second.terms


CANCELS = """
def reference(x, w):
    return (x * w).sum(-1, keepdim=True)
"""
CANCELLING = Task(
    name="cancelling",
    language="python",
    source=("kernel.py",),
    entry="run",
    inputs=(Input(name="x", shape=("r", "c")), Input(name="w", shape=("r", "c"))),
    outputs=(Output(name="y", shape=("r", "o")),),
    shapes=(Shape(label="s", dims={"r": 1 << 20, "c": 2, "o": 1}),),
    precision="tf32",
)


def test_what_few_moves_hardly_move_by_chance_is_moved_more_often_before_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a million sums of two terms that all but cancel, some hardly move in four moves of the inputs; factors in TF32 are right."""
    (tmp_path / "reference.py").write_text(CANCELS)
    dims, chance = CANCELLING.timed[0].dims, Chance.draw("cpu", np.random.default_rng(7))
    reference = DeviceReference(CANCELLING, tmp_path, "cpu")
    bench = DeviceCallJudge(task=CANCELLING, reference=reference, options=Options(device="cpu"), chance=chance)
    values = device_values.draw(CANCELLING, dims, "normal", chance)
    values["x"][:, 1] = -(values["x"] * values["w"])[:, 0] / values["w"][:, 1] * (1 + 1e-4)

    def judge(share: float) -> tuple[str, ...]:
        """Products of factors rounded to TF32, each by `share` more."""
        x, w = (((each.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32) for each in values.values())
        got = (x * w * (1 + share * torch.sign(x))).sum(-1, keepdim=True)
        sealed = DeviceSealed(outputs={"y": got}, wall_us=1.0, called_us=1.0, claimed_us=1.0)
        return bench.wrong(sealed, bench.truth_of(values, dims))

    assert judge(0.0) == ()
    assert judge(2**-6) != ()
    monkeypatch.setattr(numerics, "CLOSE", 0.0)
    (line,) = judge(0.0)
    assert "max_norm" in line


def test_of_a_large_array_little_leaves_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole rows, wherever the long axes are: a first axis of one item once took gigabytes to the processor in every sealed call."""
    monkeypatch.setattr(device_numerics, "LOOP_ROWS_BYTES", 4 * 1000)
    rng = np.random.default_rng(0)
    taken = {
        shape: device_numerics._take_rows(torch.arange(math.prod(shape)).float().reshape(shape), rng)
        for shape in [(1, 40, 50, 20), (3, 2000, 10), (200, 10), (500, 3), (5000,), (7,), ()]
    }
    assert [rows.shape for rows in taken.values()] == [
        (1, 1, 50, 20),
        (1, 100, 10),
        (100, 10),
        (333, 3),
        (5000,),
        (7,),
        (),
    ]
    rows = taken[3, 2000, 10].reshape(-1, 10)
    assert (np.diff(rows, axis=1) == 1).all()
    assert len(np.unique(rows[:, 0])) == 100


def test_a_segment_holds_chance_beside_arrays_and_nothing_of_before(bench: DeviceCallJudge) -> None:
    buffers = DeviceBuffers(open_memory("cpu"), TASK, TASK.timed[0].dims, bench.chance)
    lying = buffers.segment.tensor.clone()
    bands = [band for bands in buffers._bands for band in bands]
    for band in bands:
        there = lying[band.offset : band.offset + band.length]
        assert len(there.unique()) > 200, "no byte beside an array can be foretold"
        there.zero_()
    assert not lying.any()
    assert len({bytes(buffers._band(band)[:32].tolist()) for band in bands}) == len(bands)
    buffers.close()


def test_a_size_beyond_the_memory_is_refused_with_the_number() -> None:
    with pytest.raises(SizeTooLarge, match=r"160.* GB of|GB \("):
        plan_memory(TASK, {"r": 100_000, "c": 100_000}, oracle_bytes=1, free_bytes=80 * 10**9)
    assert plan_memory(TASK, {"r": 4096, "c": 393216}, oracle_bytes=1, free_bytes=80 * 10**9).placements == 1
    assert plan_memory(TASK, {"r": 4096, "c": 32768}, oracle_bytes=1, free_bytes=80 * 10**9).placements == 2
    call = 8 * 32768 * 32768  # a kernel with arrays of its own takes as much again, in each of two processes
    plan = plan_memory(TASK, {"r": 32768, "c": 32768}, oracle_bytes=call, free_bytes=84 * 10**9)
    assert (plan.placements, plan.spare >= 4 * call) == (1, True)


def test_what_the_clock_says_is_kept_over_process_pairs_in_either_order(bench: DeviceCallJudge) -> None:
    """One pair may be off by tens of microseconds; a claim that no pair shows is contradicted by several."""
    kept: dict[str, list[tuple[float, float]]] = {}
    for number in range(6):
        order = ("old", "new") if number % 2 else ("new", "old")
        sign = 1.0 if number % 2 else -1.0
        pairs = DevicePairs(bench=bench, versions=order, _clocked=kept)
        seen = pairs.add_clocked("large", sign * 3.0, sign * 40.0)
        assert seen == pairs.list_clocked("large") == [(sign * 3.0, sign * 40.0)] * (number + 1)
    assert DevicePairs(bench=bench, versions=("old", "other"), _clocked=kept).add_clocked("large", 1, 2) == [(1, 2)]
    assert DevicePairs(bench=bench).add_clocked("large", 1, 2) == [(1, 2)]
    outcomes = {}
    for wall_us in (-70.0, 0.0, 40.0):
        outcomes[wall_us] = []
        kept = {}
        for _ in range(8):
            pairs = DevicePairs(bench=bench, versions=("old", "new"), _clocked=kept)
            turns = DeviceTurns(pairs=pairs, sessions={}, shape=TASK.shapes[0])
            turns.gains[:] = [(wall_us + jitter, 40.0) for jitter in (-2.0, -1.0, 0.0, 1.0, 2.0) * 5]
            outcomes[wall_us].append(turns._contradict_claims() is not None)
    assert outcomes[40.0] == [False] * 8
    assert outcomes[0.0][:3] == [False] * 3
    assert outcomes[0.0][-1] is True, "a claim of 40 us that the clock never shows"
    assert outcomes[-70.0][0] is True
    for pairs in (DevicePairs(bench=bench).share_pools(), DevicePairs(bench=bench, is_one_version=True)):
        alike = DeviceTurns(pairs=pairs, sessions={}, shape=TASK.shapes[0])
        alike.gains[:] = [(-70.0, 40.0)] * 25  # as calibrations may be: a contradiction once cost one all its pairs
        assert alike._contradict_claims() is alike.contradict_by_chain() is None
        assert pairs.find_unasked_gain() == "both sides are the same version, so neither can gain"
    alike.pairs.is_one_version = False
    assert alike._contradict_claims() is not None


def test_a_size_whose_calls_take_long_is_timed_in_fewer_blocks(bench, opener, monkeypatch):
    unclocked = Options(
        device="cpu", without=frozenset({"own_clock"})
    )  # a busy machine's clock is not what is asked about
    pairs, honest = DevicePairs(bench=replace(bench, options=unclocked)), opener(HONEST)
    counted = []
    for size_s in (1000.0, 0.0):
        monkeypatch.setattr(device_timing, "SIZE_S", size_s)
        calls = pairs.run({"a": honest, "b": honest}, TASK.shapes, 6)
        assert not isinstance(calls, TimingRefused), calls
        counted.append(len({call.block for call in calls}))
    assert counted == [6, device_timing.LEAST_BLOCKS]


SPUN = """
import sys, time, torch
def spin(us):
    until = time.perf_counter() + us * 1e-6
    while time.perf_counter() < until:
        pass
def honest(x, y):
    torch.softmax(x, -1, out=y)
"""
CLAIMED = {
    "faster": "def soft(x, y):\n    honest(x, y)\n    spin(100)\n",
    "clock": """
def soft(x, y):
    honest(x, y)
    spin(200)
    if "plain" not in globals():
        device = sys._getframe(1).f_locals["self"]
        globals()["plain"] = device._clock
        device._clock = lambda: plain() // 2
""",
    "places": """
places = []
def soft(x, y):
    if len(places) < 2 and x.data_ptr() not in places:
        places.append(x.data_ptr())
    honest(x, y)
    spin(100 if x.data_ptr() in places else 200)
""",
    "part": """
places = set()
def soft(x, y):
    places.add(x.data_ptr())
    if len(places) <= 2:
        honest(x, y)
    spin(100)
""",
}


@pytest.mark.parametrize(
    ("claimed_us", "wall_us", "wall_error_us", "shown_us", "count", "asked"),
    [
        (14.0, 30.0, 900.0, 0.0, 28, False),  # claims too unlike each other in every process pair
        (14.0, 30.0, 900.0, 14.0, 28, True),
        (14.0, 30.0, 900.0, 11.0, 28, False),  # what they have shown is less
        (900.0, 880.0, 20.0, 0.0, 28, True),  # single calls show it
        (14.0, 2000.0, 20.0, 0.0, 28, False),  # and what they show is another process's turn on the card
        (14.0, 30.0, 900.0, 0.0, 2, True),  # too few in a row to ask: nothing can be known
        (1.0, 0.0, 900.0, 0.0, 28, True),  # below 1 %
        (
            2.0,
            0.0,
            900.0,
            0.0,
            28,
            False,
        ),  # below what 28 calls in a row resolve, and not what they do once more and once more
    ],
)
def test_a_gain_that_was_never_asked_about_for_its_scatter_is_not_called_shown(
    bench: DeviceCallJudge,
    claimed_us: float,
    wall_us: float,
    wall_error_us: float,
    shown_us: float,
    count: int,
    asked: bool,
) -> None:
    gains = [(wall_us + wall_error_us * (-1) ** one, claimed_us) for one in range(40)]
    pairs = DevicePairs(bench=bench, versions=("old", "new"), gains={"s": gains}, _chains={"s": (count, 140.0, True)})
    pairs.note_shown("s", shown_us)
    said = pairs.find_unasked_gain()
    assert (said is None) == asked, said
    if said:
        assert said.startswith(f"s: the card's timer claims {claimed_us:.1f} us less a call")
    once = DevicePairs(bench=bench, versions=("old", "new"), gains={"s": gains}, _chains={"s": (count, 140.0, False)})
    assert claimed_us != 2.0 or once.find_unasked_gain() is None, "one time alone does not resolve it"


def time_claim(bench: DeviceCallJudge, opener: Opener, name: str, shown: dict[str, float]) -> Any:
    """A process pair of a version that takes 200 us beside ordinary ones, and that version."""
    pairs = DevicePairs(bench=bench, versions=("old", name), _shown_us=shown)
    slow = opener(SPUN + "def soft(x, y):\n    honest(x, y)\n    spin(200)\n")
    return pairs.run({"a": slow, "b": opener(SPUN + CLAIMED[name])}, TASK.shapes, 8)


def note_chains(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Of every question that calls in a row are to answer from here on: how many, and how often."""
    asked: list[tuple[int, int]] = []
    time_chain = DeviceTurns._time_chain

    def note(turns: DeviceTurns, count: int, repeats: int, wanted_us: tuple[float, float]) -> Any:
        asked.append((count, repeats))
        return time_chain(turns, count, repeats, wanted_us)

    monkeypatch.setattr(DeviceTurns, "_time_chain", note)
    return asked


def test_calls_in_a_row_show_a_gain_that_one_call_s_clock_is_too_coarse_for(
    bench: DeviceCallJudge, opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = note_chains(monkeypatch)
    shown: dict[str, float] = {}
    for _ in range(2):
        calls = time_claim(bench, opener, "faster", shown)
        assert not isinstance(calls, TimingRefused), calls
    assert any(shown.values()) or len(asked) == 2, "until it is shown: once for two versions in a command"
    assert all(device_timing.LEAST_CHAIN <= count <= device_timing.MOST_CHAIN for count, _ in asked)


@pytest.mark.parametrize("name", ["clock", "places"])
def test_a_claim_that_calls_in_a_row_do_not_show_is_contradicted(
    bench: DeviceCallJudge, opener: Opener, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(device_timing, "CHAIN_US", 1000.0)  # which a busy machine leaves undisturbed now and then
    monkeypatch.setattr(device_timing, "CHAIN_PAIRS", 12)
    monkeypatch.setattr(device_timing, "MOST_CHAIN_PAIRS", 12)
    answers = (time_claim(bench, opener, name, {}) for _ in range(8))  # a busy machine's times resolve no claim in some
    refused = next((answer for answer in answers if isinstance(answer, TimingRefused)), None)
    assert refused is not None
    assert (refused.side, refused.unclear) == ("b", True)
    assert name == "clock" or "calls in a row show" in refused.detail
    if "calls in a row show" in refused.detail:
        assert re.search(
            r"seen \(the card's timer has those at [0-9.]+ us a call, against [0-9.]+ us\)$", refused.detail
        ), "whose clock it is"


def test_of_known_versions_the_lesser_of_two_clocks_counts(
    bench: DeviceCallJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Launches lie closer in a row of calls than the card's timer sees them: no version is to blame, and some lead is shown."""
    shown_us = {"a": 60.0, "b": 50.0}
    monkeypatch.setattr(DeviceTurns, "_time_chain", lambda self, *_: {side: [us] * 6 for side, us in shown_us.items()})
    monkeypatch.setattr(device_timing, "is_seen", lambda wall, claimed_us: False)
    bench = replace(bench, options=bench.options.model_copy(update={"lesser_clock": True}))

    def judge() -> tuple[TimingRefused | None, list[float]]:
        turns = DeviceTurns(pairs=DevicePairs(bench=bench, versions=("old", "new")), sessions={}, shape=TASK.timed[0])
        turns.gains[:] = [(0.0, 50.0)] * 24
        turns._claims["a"][:], turns._claims["b"][:] = [100.0] * 24, [50.0] * 24
        refused = turns.contradict_by_chain()
        label = turns.shape.label
        calls = [
            TimedCall(label=each, block=0, slot=0, side=side, time_us=us, claimed_us=us, at_us=0.0)
            for each in (label, "another")
            for side, us in (("a", 102.0), ("b", 50.0))
        ]
        return refused, [call.time_us for call in turns.count_lesser(calls)]

    refused, (a_us, b_us) = judge()
    assert refused is None
    assert b_us == 50.0
    assert 50.0 < a_us < 61.2, "a lead of 10 us less what the clock may be off, of the 50 that are claimed"
    shown_us["a"] = 50.0
    refused, times_us = judge()
    assert refused is not None, "no lead is shown"
    assert times_us == [102.0, 50.0]
    shown_us["a"] = 60.0
    bench = replace(bench, options=bench.options.model_copy(update={"lesser_clock": False}))
    assert judge()[0] is not None, "where somebody has to win it is a contradiction"


def test_a_clock_that_tells_a_tenth_less_is_not_called_shown(
    bench: DeviceCallJudge, opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four calls, for which a card has memory, do not tell it from a gain; the same four again and again do."""
    monkeypatch.setattr(device_timing, "CHAIN_BYTES", 800_000)
    # one call's clock says nothing on a card
    monkeypatch.setattr(device_timing, "is_seen", lambda wall, claimed_us: False)
    asked = note_chains(monkeypatch)
    spun = "def soft(x, y):\n    honest(x, y)\n    spin(600)\n"
    tenth = CLAIMED["clock"].replace("plain() // 2", "int(0.9 * plain())").replace("spin(200)", "spin(600)")
    opened, times_shown = {"a": opener(SPUN + spun), "b": opener(SPUN + tenth)}, 0
    for _ in range(6):
        pairs = DevicePairs(bench=bench, versions=("old", "tenth"))
        pairs.run(opened, TASK.shapes, 8)
        times_shown += any(pairs._shown_us.values())
    assert max(repeats for _, repeats in asked) > 1, "a busy machine's claims are alike enough in one of six"
    assert times_shown <= 1, "two processes of one version do differ by so much now and then"


@pytest.mark.parametrize(
    ("old_us", "new_us", "shown"),
    [
        ((20.0, 20.1, 20.2), (18.0, 18.1, 18.2), True),
        ((20.0, 20.1, 20.2), (20.1, 20.0, 20.2), False),
        ((20.0, 26.0, 30.0), (18.0, 20.1, 20.2), False),  # the fastest shows it, and no other pair
        ((22.0, 22.0, 19.0), (20.0, 20.0, 18.9), False),  # two of three do, and not the fastest
        ((22.0, 19.0, 22.0), (20.0, 20.0, 20.0), False),
        ((90.0, 91.0, 92.0), (20.0, 20.0, 20.0), False),  # far beyond
        ((22.0, 22.0, 21.9, 19.9), (20.0, 20.0, 20.0, 18.0), True),
    ],
)
def test_calls_in_a_row_show_what_most_of_them_and_the_fastest_show(
    old_us: tuple[float, ...], new_us: tuple[float, ...], shown: bool
) -> None:
    assert device_timing.is_chain_alike({"a": old_us, "b": new_us}, (1.0, 4.0)) == shown


@pytest.mark.parametrize(
    ("count", "claimed_us", "call_us", "times"),
    [(128, 50.0, 100.0, 1), (102, 1.5, 15.0, 4), (28, 2.0, 140.0, 10), (128, 0.07, 7.0, 60), (3, 50.0, 5000.0, 4), (3, 9.0, 9e5, 1)],
)  # fmt: skip
def test_calls_in_a_row_are_made_again_until_the_judge_s_clock_resolves_the_claim(
    count: int, claimed_us: float, call_us: float, times: int
) -> None:
    assert device_timing.count_repeats(count, claimed_us, call_us) == times


def test_what_is_told_of_calls_in_a_row_that_are_made_again_is_of_one_call(
    bench: DeviceCallJudge, opener: Opener
) -> None:
    values = [device_values.draw(TASK, TASK.shapes[0].dims, "normal", bench.chance) for _ in range(4)]
    with opener(SPUN + "def soft(x, y):\n    honest(x, y)\n    spin(3000)\n")() as session:
        assert session.open() is None
        assert session.open_chain(TASK.shapes[0].dims, values) == "eager"
        for times in (1, 5):
            calls = session.call_chain(values, decoy=None, times=times)
            assert not isinstance(calls, device_session.BrokenWorker), calls
            assert len(calls) == len(values)
            for call, own in zip(calls, values, strict=True):
                assert 3000 <= call.claimed_us <= call.called_us < 12_000
                assert torch.allclose(call.outputs["y"], torch.softmax(own["x"], -1))


def test_what_is_right_the_first_time_alone_is_no_answer_of_calls_in_a_row(
    bench: DeviceCallJudge, opener: Opener
) -> None:
    worn = "def soft(x, y):\n    honest(x, y)\n    y.mul_(1.0 if len(calls) < 4 else 1.5)\n    calls.append(1)\n"
    values = [device_values.draw(TASK, TASK.shapes[0].dims, "normal", bench.chance) for _ in range(4)]
    with opener(SPUN + "calls = []\n" + worn)() as session:
        assert session.open() is None
        assert isinstance(session.open_chain(TASK.shapes[0].dims, values), str)
        calls = session.call_chain(values, decoy=None, times=2)
        assert not isinstance(calls, device_session.BrokenWorker), calls
        assert not any(
            torch.allclose(call.outputs["y"], torch.softmax(own["x"], -1))
            for call, own in zip(calls, values, strict=True)
        )


def test_each_of_the_calls_in_a_row_is_judged(bench: DeviceCallJudge, opener: Opener) -> None:
    refused = time_claim(bench, opener, "part", {})
    assert isinstance(refused, TimingRefused)
    assert not refused.unclear


@pytest.mark.parametrize(
    ("call_us", "call_bytes", "free_bytes", "count"),
    [(110.0, 10**9, 80 * 10**9, 17), (5.0, 10**6, 80 * 10**9, 128), (2000.0, 10**9, 80 * 10**9, 2), (100.0, 10**9, 10**9, 0)],
)  # fmt: skip
def test_so_many_calls_are_made_in_a_row(call_us: float, call_bytes: int, free_bytes: int, count: int) -> None:
    assert device_timing.count_chain(call_us, call_bytes, free_bytes) == count
