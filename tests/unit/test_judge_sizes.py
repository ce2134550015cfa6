"""Formulas for extents are found by changing sizes, and given up where they do not hold."""

import pytest

from ridgeline.sandbox.judge.torch_source import fit_power_law, infer_sizes


def found(extents, knobs, fixed=()):
    def probe(sizes):
        try:
            return tuple(extents(**{**knobs, **sizes}))
        except ZeroDivisionError:
            return None

    return infer_sizes(probe, knobs, fixed=fixed)


def need(true):
    if not true:
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("extents", "knobs", "formulas", "dims"),
    [
        (lambda n: (n, 3), {"n": 64}, ("n", "3"), {"n"}),
        (lambda n, m: (n, m, 2 * m), {"n": 64, "m": 64}, ("n", "m", "2*m"), {"n", "m"}),
        (lambda n, m: (n * m,), {"n": 64, "m": 32}, ("n*m",), {"n", "m"}),
        (lambda n: (n * n, 5 * n * n), {"n": 64}, ("64", "64"), set()),
        (lambda h, k: (h, h - k + 1), {"h": 128, "k": 3}, ("h", "h - k + 1"), {"h", "k"}),
        (lambda h: ((h + 2 - 3) // 2 + 1,), {"h": 128}, ("(h + 1)//2",), {"h"}),
        (lambda n, unused: (n,), {"n": 64, "unused": 7}, ("n",), {"n"}),
        (lambda n, groups: (n, need(n % groups == 0) or 2), {"n": 64, "groups": 8}, ("n", "2"), {"n"}),
    ],
)
def test_formulas(extents, knobs, formulas, dims):
    result = found(extents, knobs)
    assert set(result.dims) == dims
    if dims:
        assert result.extents == formulas


def test_a_size_that_fits_nothing_is_left_as_it_is():
    result = found(lambda n, odd: (n, 100 if odd == 5 else hash(odd) % 97), {"n": 64, "odd": 5})
    assert result.dims == {"n": 64}
    assert result.extents == ("n", "100")


def test_what_may_not_depend_on_a_size_takes_the_size_out():
    result = found(lambda n, classes: (n, classes, classes), {"n": 64, "classes": 10}, fixed=(2,))
    assert result.dims == {"n": 64}
    assert result.extents == ("n", "10", "10")


def test_smallest_values_and_multiples():
    result = found(lambda h, c: (need(h >= 5 and c % 8 == 0) or h, c), {"h": 128, "c": 64})
    assert result.low == {"h": 5, "c": 8}
    assert result.step == {"h": 1, "c": 8}


def test_a_program_that_does_not_run_has_no_sizes():
    assert found(lambda n: need(False), {"n": 4}) is None


@pytest.mark.parametrize(
    ("count", "law"),
    [
        (lambda m, n: 2 * m * n * n, "2*m*n*n"),
        (lambda m, n: 6 * n, "6*n"),
        (lambda m, n: m * n + n, None),
        (lambda m, n: 0, None),
        (lambda m, n: None, None),
    ],
)
def test_power_laws(count, law):
    dims = {"m": 8, "n": 16}
    assert fit_power_law(lambda sizes: count(**{**dims, **sizes}), dims) == law
