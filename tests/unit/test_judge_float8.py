"""8-bit floats as the judge rounds, draws, moves and compares them, held against PyTorch's own where it is there."""

import numpy as np
import pytest

from ridgeline.graph.task import DType, Input, Task
from ridgeline.sandbox.harness import reference_host
from ridgeline.sandbox.judge import numerics
from ridgeline.sandbox.judge.dtypes import (
    FLOAT8,
    FLOAT8_VALUES,
    LARGEST,
    SMALLEST,
    from_float64,
    to_float8,
    to_float32,
    to_float64,
    unit,
)
from ridgeline.sandbox.judge.inputs import MIXES, PARTS, change_one_element, draw, make_probes
from ridgeline.sandbox.judge.lint import find_far_oracle
from ridgeline.sandbox.judge.numerics import (
    LARGEST_MOVE,
    _perturb,
    _step_ulps,
    agree,
    compare,
    derive_tolerance,
    find_discontinuities,
    is_plainly_right,
    measure_rounding_noise,
    perturbed_pairs,
)
from ridgeline.sandbox.judge.pool import InputPool, wrap_around
from tests.operators_judge import make_task

CODES = np.arange(256, dtype=np.uint8)
GROUP = 128
eights = pytest.mark.parametrize("dtype", FLOAT8)


def finite(dtype: DType) -> np.ndarray:
    values = FLOAT8_VALUES[dtype].astype(np.float64)
    return np.unique(values[np.isfinite(values)])


def near_ties(dtype: DType) -> np.ndarray:
    """Every tie, and the float32 numbers on either side of it."""
    numbers = finite(dtype)
    ties = ((numbers[1:] + numbers[:-1]) / 2).astype(np.float32)
    return np.concatenate([ties, np.nextafter(ties, np.float32(1e9)), np.nextafter(ties, np.float32(-1e9))])


def task_of(one: Input, n: int) -> Task:
    task = make_task([("x", ("n",), one.dtype)], [("y", ("n",), "float32")], {"n": n})
    return task.model_copy(update={"inputs": (one,)})


@eights
def test_every_pattern_is_the_number_that_pytorch_reads(dtype: DType) -> None:
    torch = pytest.importorskip("torch")
    theirs = torch.from_numpy(CODES).view(getattr(torch, dtype)).float().numpy()
    assert np.array_equal(to_float32(CODES, dtype), theirs, equal_nan=True)
    assert np.array_equal(reference_host.widen_eight_bits(CODES, dtype), theirs, equal_nan=True)


@eights
def test_numbers_come_back_as_their_patterns(dtype: DType) -> None:
    numbers = to_float64(CODES, dtype)
    are = ~np.isnan(numbers)
    assert np.array_equal(from_float64(numbers, dtype)[are], CODES[are])
    assert np.isnan(to_float64(from_float64(numbers[~are], dtype), dtype)).all()
    assert np.array_equal(np.isnan(numbers), np.isnan(reference_host.widen_eight_bits(CODES, dtype)))
    assert finite(dtype)[-1] == LARGEST[dtype]
    assert finite(dtype)[finite(dtype) > 0].min() == SMALLEST[dtype]


@eights
def test_floats_are_rounded_as_pytorch_rounds_them(dtype: DType) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    values = rng.standard_normal(50_000) * np.exp2(rng.uniform(-25, np.log2(LARGEST[dtype]) - 3, 50_000))
    values = np.concatenate([values, near_ties(dtype), [0.0, -0.0, np.nan]]).astype(np.float32)
    theirs = torch.from_numpy(values).to(getattr(torch, dtype)).view(torch.uint8).numpy()
    assert np.array_equal(from_float64(values.astype(np.float64), dtype), theirs)
    assert np.array_equal(to_float8(values, dtype), theirs)


@eights
def test_a_tie_goes_to_even_and_numbers_are_rounded_once(dtype: DType) -> None:
    step = 2 * unit(dtype)
    ties = np.array([1 + step / 2, 1 + 3 * step / 2, -(1 + step / 2)])
    assert to_float64(from_float64(ties, dtype), dtype).tolist() == [1.0, 1 + 2 * step, -1.0]
    just_above = 1 + step / 2 + 2.0**-40  # float32 in between would make it the tie, and lose it
    assert to_float64(from_float64(np.array([just_above]), dtype), dtype)[0] == 1 + step


@pytest.mark.parametrize(
    ("dtype", "value", "rounded"),
    [
        ("float8_e4m3fn", 464.0, 448.0),
        ("float8_e4m3fn", 480.0, 448.0),
        ("float8_e4m3fn", -np.inf, -448.0),
        ("float8_e5m2", 61439.0, 57344.0),
        ("float8_e5m2", 61440.0, np.inf),
        ("float8_e5m2", -1e30, -np.inf),
    ],
)
def test_what_is_too_large_is_the_largest_or_infinite(dtype: DType, value: float, rounded: float) -> None:
    assert to_float64(from_float64(np.array([value]), dtype), dtype)[0] == rounded


@eights
@pytest.mark.parametrize("mix", [*MIXES, *PARTS])
def test_every_kind_of_values_is_drawn_and_finite(dtype: DType, mix: str) -> None:
    task = make_task([("x", ("m", "n"), dtype), ("w", ("n",), dtype)], [("y", ("m",), "float32")], {"m": 64, "n": 96})
    for seed in range(8):
        drawn = draw(task, {"m": 64, "n": 96}, mix, np.random.default_rng(seed))
        for raw in drawn.values():
            assert raw.dtype == np.uint8
            assert np.isfinite(to_float64(raw, dtype)).all()
    spread = np.abs(to_float64(drawn["x"], dtype)).max()
    assert spread >= {"wide": 8, "offset": 0, "shift": 0, "spike": 16}.get(mix, 0.5)


@eights
@pytest.mark.parametrize("values", ["normal", "uniform", "positive", "integers", "mask"])
def test_timed_calls_have_finite_values_in_their_range_that_differ(dtype: DType, values: str) -> None:
    one = Input(name="x", shape=("n",), dtype=dtype, values=values, low=-3, high=5)
    pool = InputPool(task_of(one, 500), {"n": 500}, np.random.default_rng(1))
    low, high = {"normal": (-9, 9), "uniform": (-1, 1), "positive": (0.09, 1), "integers": (-3, 4), "mask": (0, 1)}[
        values
    ]
    calls = [pool.draw()["x"] for _ in range(8)] + [pool.cut_at(pool.places())["x"] for _ in range(8)]
    numbers = [to_float64(raw, dtype) for raw in calls]
    assert all(np.isfinite(each).all() and each.min() >= low and each.max() <= high for each in numbers)
    assert len({raw.tobytes() for raw in calls}) == 16
    if values in ("integers", "mask"):
        assert all((each == np.rint(each)).all() for each in numbers)


def test_the_largest_number_is_never_turned_into_none() -> None:
    one = Input(name="x", shape=("n",), dtype="float8_e4m3fn", values="uniform", within=(-448.0, 448.0))
    pool = InputPool(task_of(one, 4096), {"n": 4096}, np.random.default_rng(1))
    for _ in range(20):
        assert np.isfinite(to_float64(pool.cut_at(pool.places())["x"], "float8_e4m3fn")).all()


def test_whole_numbers_in_eight_bits_go_round() -> None:
    each = np.arange(-3, 5.0)
    values, over = (from_float64(one.reshape(-1), "float8_e4m3fn") for one in np.meshgrid(each, each))
    sums = to_float64(wrap_around(values, over, -3, 5, dtype="float8_e4m3fn"), "float8_e4m3fn")
    found, times = np.unique(sums, return_counts=True)
    assert found.tolist() == each.tolist()
    assert set(times.tolist()) == {8}


@eights
def test_probes_are_exact(dtype: DType) -> None:
    task = make_task([("a", ("m", "n"), dtype), ("b", ("n",), dtype)], [("y", ("m",), "float32")], {"m": 12, "n": 20})
    for probe in make_probes(task, {"m": 12, "n": 20}, np.random.default_rng(0)):
        assert all(np.isfinite(to_float64(raw, dtype)).all() for raw in probe.inputs.values())


@eights
def test_one_element_takes_another_value(dtype: DType) -> None:
    one = Input(name="x", shape=("n",), dtype=dtype)
    for value in (0.0, 1.0, SMALLEST[dtype], LARGEST[dtype]):
        raw = from_float64(np.full(9, value), dtype)
        changed, place = change_one_element({"x": raw}, one, np.random.default_rng(0))
        assert np.flatnonzero(changed["x"] != raw).tolist() == list(place)
        assert np.isfinite(to_float64(changed["x"], dtype)).all()


# Moves.


@eights
def test_a_unit_in_the_last_place_leads_to_the_neighbour(dtype: DType) -> None:
    numbers = finite(dtype)
    numbers = numbers[numbers > 0]
    raw = from_float64(numbers, dtype)
    one = np.ones(len(raw), np.int64)
    up = to_float64(_step_ulps(raw, dtype, one, one == 1), dtype)
    down = to_float64(_step_ulps(raw, dtype, one, one == 0), dtype)
    assert np.array_equal(up[1:-1], numbers[2:])
    assert np.array_equal(down[1:-1], numbers[:-2])
    assert (up[[0, -1]] == numbers[[0, -1]]).all(), "zero and what would leave the range stay"


@eights
def test_inputs_of_eight_bits_move_in_float32(dtype: DType) -> None:
    task = make_task([("x", ("n",), dtype), ("s", ("n",), "float32")], [("y", ("n",), "float32")], {"n": 400})
    inputs = draw(task, {"n": 400}, "normal", np.random.default_rng(0))
    moved, relative = _perturb(task, inputs, np.random.default_rng(1))
    assert moved["x"].dtype == np.float32
    right = to_float64(inputs["x"], dtype)
    away = np.abs(moved["x"] - right)[right != 0] / np.abs(right)[right != 0]
    assert away.min() > 0
    assert away.max() <= LARGEST_MOVE * 2.0**-23
    assert relative < LARGEST_MOVE * 2.0**-23
    pairs = list(perturbed_pairs(task, inputs, np.random.default_rng(2)))
    assert all(pair["x"].dtype == np.float32 for pair in pairs)


# Comparison: of a quantization of rows in groups, as of activations, and of a sum over rows.


def quantized(x: np.ndarray, dtype: DType) -> tuple[np.ndarray, np.ndarray]:
    """Numbers in the type's range, not rounded, and the scale of each group, in the arithmetic of `x`."""
    groups = x.reshape(x.shape[0], -1, GROUP)
    scales = np.maximum(np.abs(groups).max(axis=-1), x.dtype.type(1e-10)) / x.dtype.type(LARGEST[dtype])
    return (groups / scales[..., None]).reshape(x.shape), scales


def case(dtype: DType, mix: str = "normal", seed: int = 0):
    dims = {"t": 16, "h": 4 * GROUP}
    task = make_task([("x", ("t", "h"), "bfloat16")], [("q", ("t", "h"), dtype)], dims)
    inputs = draw(task, dims, mix, np.random.default_rng(seed))

    def oracle(moved):
        raw = moved["x"]
        wide = to_float64(raw, "bfloat16") if raw.dtype == np.uint16 else raw.astype(np.float64)
        return {"q": quantized(wide, dtype)[0]}

    exact = oracle(inputs)
    usual, scales = quantized(to_float32(inputs["x"], "bfloat16"), dtype)
    trusted = to_float64(from_float64(usual.astype(np.float64), dtype), dtype)
    return task, inputs, oracle, exact, trusted, usual, scales


def wrong(given: np.ndarray, exact, trusted, dtype: DType, noise=None, precision="strict"):
    told = {"dtype": dtype, "precision": precision}
    faults = compare(given, exact, trusted, output="q", noise=noise, **told)
    if noise is None:
        assert (not faults) is is_plainly_right(to_float64(given, dtype), exact, trusted, **told)
    return faults


@eights
@pytest.mark.parametrize("mix", MIXES)
def test_honest_quantizations_pass_with_every_kind_of_values(dtype: DType, mix: str) -> None:
    for seed in range(3):
        task, inputs, oracle, exact, trusted, usual, scales = case(dtype, mix, seed)
        noise = measure_rounding_noise(task, inputs, oracle, np.random.default_rng(0), exact=exact)["q"]
        x = to_float32(inputs["x"], "bfloat16")
        by_reciprocal = x * np.repeat(np.float32(1) / scales, GROUP, axis=1)
        for way in (usual, by_reciprocal):
            given = to_float8(np.clip(way, -LARGEST[dtype], LARGEST[dtype]), dtype)
            assert wrong(given, exact["q"], trusted, dtype, noise) == ()


@eights
def test_what_is_no_rounding_of_the_result_is_refused(dtype: DType) -> None:
    task, inputs, oracle, exact, trusted, usual, scales = case(dtype)
    noise = measure_rounding_noise(task, inputs, oracle, np.random.default_rng(0), exact=exact)["q"]
    right = to_float8(usual, dtype)
    assert wrong(right, exact["q"], trusted, dtype) == ()
    by_two = right.copy()
    by_two[3, 7] = by_two[3, 7] + 2 if by_two[3, 7] & 0x7F < 0x70 else by_two[3, 7] - 2
    swapped = usual.reshape(16, -1, GROUP) * scales[..., None] / np.roll(scales, 1, axis=1)[..., None]
    cut = right - (np.abs(to_float64(right, dtype)) > np.abs(usual)).astype(np.uint8)
    zeroed = right.copy()
    zeroed[5, :GROUP] = 0
    none = right.copy()
    none[2, 2] = 0x7F
    less = to_float8(usual * np.float32(0.98), dtype)
    for name, given in {
        "off by two steps": by_two,
        "a swapped scale": to_float8(np.clip(swapped.reshape(usual.shape), -LARGEST[dtype], LARGEST[dtype]), dtype),
        "cut, not rounded": cut,
        "zeros": zeroed,
        "no number": none,
        "two percent less": less,
    }.items():
        for allowed in (None, noise):
            faults = wrong(given, exact["q"], trusted, dtype, allowed)
            assert [fault.kind for fault in faults] == ["nonfinite" if name == "no number" else "max_norm"], name
            assert dtype in faults[0].detail


@eights
def test_next_to_a_tie_either_neighbour_is_right_and_elsewhere_one(dtype: DType) -> None:
    numbers = finite(dtype)
    below, above = numbers[numbers >= 1][:2]
    tie = (below + above) / 2
    exact = np.array([[tie * (1 + 1e-9), below, 1.5 * below + 0.5 * above]])
    trusted = to_float64(from_float64(exact, dtype), dtype)
    for first in (below, above):
        given = from_float64(np.array([[first, below, exact[0, 2]]]), dtype)
        assert wrong(given, exact, trusted, dtype) == ()
    assert wrong(from_float64(np.array([[above, above, exact[0, 2]]]), dtype), exact, trusted, dtype) != ()
    far = np.array([[tie * (1 + 1e-4), below, exact[0, 2]]])
    given = from_float64(np.array([[below, below, exact[0, 2]]]), dtype)
    assert wrong(given, far, to_float64(from_float64(far, dtype), dtype), dtype) != ()
    assert wrong(given, far, to_float64(from_float64(far, dtype), dtype), dtype, precision="relaxed") == ()


@pytest.mark.parametrize(
    ("dtype", "exact", "given", "passes"),
    [
        ("float8_e4m3fn", 1e6, 448.0, True),
        ("float8_e4m3fn", 1e6, np.nan, True),
        ("float8_e4m3fn", np.inf, np.nan, True),
        ("float8_e4m3fn", -np.inf, -448.0, True),
        ("float8_e4m3fn", 1e6, -448.0, False),
        ("float8_e4m3fn", 455.0, np.nan, False),
        ("float8_e4m3fn", 1e6, 416.0, False),
        ("float8_e5m2", 1e6, 57344.0, True),
        ("float8_e5m2", 1e6, np.inf, True),
        ("float8_e5m2", 1e6, -np.inf, False),
        ("float8_e5m2", 1e6, np.nan, False),
        ("float8_e5m2", 58000.0, np.inf, False),
        ("float8_e4m3fn", np.nan, np.nan, True),
        ("float8_e4m3fn", np.nan, 1.0, False),
        ("float8_e5m2", np.nan, np.inf, False),
    ],
)
def test_what_is_too_large_may_be_the_largest_or_what_pytorch_makes_of_it(dtype, exact, given, passes) -> None:
    oracle = np.array([[exact, 1.0, -3.0]])
    trusted = to_float64(from_float64(oracle, dtype), dtype)
    candidate = from_float64(np.array([[given, 1.0, -3.0]]), dtype)
    assert (wrong(candidate, oracle, trusted, dtype) == ()) is passes


@eights
def test_sides_agree_but_for_few_neighbours(dtype: DType) -> None:
    task, inputs, oracle, exact, trusted, usual, scales = case(dtype)
    noise = measure_rounding_noise(task, inputs, oracle, np.random.default_rng(0), exact=exact)["q"]
    within = derive_tolerance(exact["q"], trusted, dtype=dtype, precision="strict", noise=noise)
    right = to_float8(usual, dtype)
    near, far = right.copy(), right.copy()
    near[1, ::8] ^= 1
    far[1, 3] ^= 2
    assert agree(right.copy(), right, dtype=dtype, within=within)
    assert agree(near, right, dtype=dtype, within=within)
    assert not agree(far, right, dtype=dtype, within=within)
    assert not agree(right ^ 1, right, dtype=dtype, within=within), "too many for ties"
    assert not agree(np.where(right == right[0, 0], np.uint8(0x7F), right), right, dtype=dtype, within=within)


def test_a_scale_that_is_a_power_of_two_may_jump_where_a_rounding_decides() -> None:
    """As of MX formats: where the largest of a group is the power itself, both powers are right for that group."""
    dims = {"t": 128, "h": 4 * GROUP}
    task = make_task([("x", ("t", "h"), "bfloat16")], [("q", ("t", "h"), "float8_e4m3fn")], dims)
    x = np.clip(np.random.default_rng(0).standard_normal((128, 4 * GROUP)), -3, 3)
    x[7, 5] = 3.5  # 448 / 128
    inputs = {"x": from_float64(x, "bfloat16")}

    def scaled(values, nudge=1.0):
        groups = values.reshape(128, -1, GROUP)
        scales = np.exp2(np.ceil(np.log2(np.abs(groups).max(axis=-1) * nudge / 448)))
        return (groups / scales[..., None]).reshape(values.shape)

    def oracle(moved):
        raw = moved["x"]
        return {"q": scaled(to_float64(raw, "bfloat16") if raw.dtype == np.uint16 else raw.astype(np.float64))}

    exact = oracle(inputs)
    other = to_float8(scaled(to_float64(inputs["x"], "bfloat16"), 1 + 1e-7), "float8_e4m3fn")
    trusted = to_float64(from_float64(exact["q"], "float8_e4m3fn"), "float8_e4m3fn")
    assert wrong(other, exact["q"], trusted, "float8_e4m3fn") != ()
    got = {"q": to_float64(other, "float8_e4m3fn")}
    sides = find_discontinuities(task, inputs, oracle, np.random.default_rng(1), exact=exact, got=got)
    assert wrong(other, sides["q"], trusted, "float8_e4m3fn") == ()


@eights
def test_a_reference_that_rounds_itself_refuses_no_neighbour_of_a_tie(dtype: DType) -> None:
    """As one that ends with a cast to the type: its oracle holds one of the two, and jumps to the other."""
    dims = {"m": 32, "n": 64}
    task = make_task([("x", ("m", "n"), "float32")], [("q", ("m", "n"), dtype)], dims)
    inputs = {"x": np.random.default_rng(0).standard_normal((32, 64)).astype(np.float32)}
    inputs["x"][3, 4], inputs["x"][5, 6] = 1 + unit(dtype), 3 * SMALLEST[dtype] / 2

    def rounding(moved):
        return {"q": to_float64(from_float64(moved["x"].astype(np.float64), dtype), dtype)}

    exact = rounding(inputs)
    for place in ((3, 4), (5, 6), (7, 8)):
        given = from_float64(exact["q"], dtype)
        given[place] = given[place] + 1 if place != (5, 6) else given[place] - 1
        got = {"q": to_float64(given, dtype)}
        assert wrong(given, exact["q"], exact["q"], dtype) != ()
        sides = find_discontinuities(task, inputs, rounding, np.random.default_rng(1), exact=exact, got=got)
        assert bool(sides) is (place != (7, 8)), place
        if sides:
            assert wrong(given, sides["q"], exact["q"], dtype) == ()


KEPT_BITS, STEP, PROMOTED = 13, 32, 128


def sum_short(a: np.ndarray, b: np.ndarray, promoted: int) -> np.ndarray:
    """A product in a model of Hopper's tensor cores: in each step all is cut at so many bits behind the largest of it."""
    total, part = np.zeros((len(a), b.shape[1]), np.float32), np.zeros((len(a), b.shape[1]))
    for at in range(0, a.shape[1], STEP):
        terms = a[:, at : at + STEP].T[:, :, None].astype(np.float64) * b[at : at + STEP, None, :]
        terms = np.concatenate([part[None], terms])
        last = np.exp2(np.frexp(np.abs(terms).max(axis=0))[1] - 1.0 - KEPT_BITS)
        part = np.trunc(terms / last).sum(axis=0) * last
        if (at + STEP) % promoted == 0:
            total, part = total + part.astype(np.float32), np.zeros_like(part)
    return (total + part).astype(np.float64)


@pytest.mark.parametrize(
    ("k", "promoted", "passes"),
    [
        (2048, PROMOTED, {"bfloat16", "relaxed"}),
        (2048, 2048, {"bfloat16", "relaxed"}),
        (7168, 7168, {"bfloat16", "relaxed"}),  # what a result in bfloat16 does not tell from its own rounding
    ],
)
def test_what_sums_on_tensor_cores_of_hopper_are_right_for(k: int, promoted: int, passes: set[str]) -> None:
    dims, dtype = {"m": 8, "k": k, "n": 16}, "float8_e4m3fn"
    rng = np.random.default_rng(0)
    found = set()
    for out, precision in (("bfloat16", "strict"), ("float32", "strict"), ("float32", "relaxed")):
        task = make_task([("a", ("m", "k"), dtype), ("b", ("k", "n"), dtype)], [("c", ("m", "n"), out)], dims)
        inputs = draw(task, dims, "normal", np.random.default_rng(1))

        def oracle(moved):
            return {
                "c": np.matmul(
                    *(to_float64(raw, dtype) if raw.dtype == np.uint8 else raw.astype(float) for raw in moved.values())
                )
            }

        exact = oracle(inputs)
        a, b = (to_float32(inputs[name], dtype) for name in "ab")
        noise = measure_rounding_noise(task, inputs, oracle, rng, exact=exact)["c"]
        right = from_float64((a @ b).astype(np.float64), out)
        told = {"dtype": out, "precision": precision, "output": "c", "noise": noise}
        assert compare(right, exact["c"], to_float64(right, out), **told) == ()
        given = from_float64(sum_short(a, b, promoted), out)
        if compare(given, exact["c"], to_float64(right, out), **told) == ():
            found.add(out if out == "bfloat16" else precision)
    assert found == passes


@eights
def test_a_card_finds_the_same(dtype: DType) -> None:
    torch = pytest.importorskip("torch")
    from ridgeline.sandbox.judge import device_numerics as on_card
    from ridgeline.sandbox.judge.device_values import from_storage, to_storage, to_type

    rng = np.random.default_rng(0)
    for number in range(40):
        oracle = rng.standard_normal((6, 64)) * np.exp2(rng.uniform(-12, 16, (6, 1)))
        oracle[rng.random(oracle.shape) < 0.02] = rng.choice([np.inf, -np.inf, np.nan, 0.0])
        trusted = to_float64(from_float64(oracle, dtype), dtype)
        given = from_float64(oracle * (1 + 2.0 ** -(number % 12) * rng.standard_normal(oracle.shape) / 4), dtype)
        spread = np.abs(rng.standard_normal(oracle.shape))
        noises = None, numerics.RoundingNoise(spread=spread, terms=500.0)
        theirs = from_storage(given, dtype, "cpu")
        assert np.array_equal(to_storage(theirs, dtype), given)
        rounded = to_storage(to_type(torch.from_numpy(oracle), dtype), dtype)
        assert np.array_equal(to_float64(rounded, dtype), trusted, equal_nan=True)
        for noise in noises:
            told = {"dtype": dtype, "precision": "strict"}
            here = compare(given, oracle, trusted, output="q", noise=noise, **told)
            card = noise and on_card.Noise(torch.from_numpy(noise.spread), noise.terms)
            tensors = torch.from_numpy(oracle), torch.from_numpy(trusted)
            there = on_card.compare(theirs, *tensors, output="q", noise=card, **told)
            assert [(fault.kind, fault.detail, fault.measured) for fault in here] == [
                (fault.kind, fault.detail, fault.measured) for fault in there
            ]
        usual = from_float64(trusted, dtype)
        finite_oracle = np.nan_to_num(np.clip(oracle, -100, 100))
        within = derive_tolerance(finite_oracle, trusted, noise=noises[1], **told)
        same = on_card.derive_tolerance(torch.from_numpy(finite_oracle), tensors[1], noise=card, **told)
        assert np.allclose([within.l2, within.peak_amount], [same.l2, same.peak_amount])
        answer = agree(given, usual, dtype=dtype, within=within)
        assert answer is on_card.agree(theirs, from_storage(usual, dtype, "cpu"), dtype=dtype, within=within)


class _References:
    """Of an output of 8 bits that is its input: `far` makes the trusted answer another number altogether."""

    def __init__(self, dtype: DType, far: float) -> None:
        self.dtype, self.far = dtype, far

    def oracle(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {"y": inputs["x"].astype(np.float64)}

    def trusted(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {"y": to_float64(from_float64(inputs["x"].astype(np.float64) * self.far, self.dtype), self.dtype)}


@eights
def test_a_rounding_to_8_bits_is_no_hole_of_a_task_and_another_number_is(dtype: DType) -> None:
    """Of one element a single rounding is all there is; the lint once called a task of one row wrong by chance."""
    task, rng = make_task([("x", ("n",), "float32")], [("y", ("n",), dtype)], {"n": 1}), np.random.default_rng(0)
    for far, found in ((1.0, 0), (-3.0, 200)):
        told = 0
        for _ in range(200):
            inputs = {"x": rng.uniform(1, 16, 1).astype(np.float32)}
            reference = _References(dtype, far)
            told += len(list(find_far_oracle(task, reference, inputs, reference.oracle(inputs))))  # type: ignore[arg-type]
        assert told == found
