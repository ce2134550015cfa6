"""R9: the accepted chain does not fall."""

import pytest

from ridgeline.graph.policy.chain import broken_links


@pytest.mark.feature("F043")
@pytest.mark.parametrize(
    ("aggregates", "expected"),
    [
        ([], ()),
        ([100.0], ()),
        ([100.0, 98.8], (1,)),
        ([100.0, 99.2], ()),
        ([100.0, 99.0], ()),
        ([100.0, 110.0, 108.5, 112.0], (2,)),
        ([100.0, 99.2, 98.4], (2,)),
    ],
)
def test_a_drop_beyond_the_tolerance_is_flagged(aggregates, expected):
    assert broken_links(aggregates, 0.0100001) == expected


def test_times_must_not_rise():
    assert broken_links([100.0, 90.0, 91.5, 90.5], 0.01, higher_is_better=False) == (2,)
