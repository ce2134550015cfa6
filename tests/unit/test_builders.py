"""The builders build: a broken one would fail every other test in a confusing way."""

import pytest

from tests import builders

NAMES = sorted(name for name in dir(builders) if name.startswith("make_") and name != "make_scaled")


@pytest.mark.parametrize("name", NAMES)
def test_every_builder_has_defaults(name):
    assert getattr(builders, name)() == getattr(builders, name)()


def test_scaled_benchmark_multiplies_every_shape():
    assert builders.make_scaled(2.0).rows[0].metric(builders.METRIC) == 2 * builders.VALUES["small"]


@pytest.mark.parametrize("decision", ["accepted", "rolled_back", "split"])
def test_rounds_of_every_decision(decision):
    closed = builders.make_round(7, decision, gain=-0.02)
    assert closed.accepted == (decision == "accepted")
    assert (closed.commit is None) == (decision != "accepted")
