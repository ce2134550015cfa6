"""Partial restart: what is forgotten, and what never is."""

import pytest

from ridgeline.graph.record import Restarted
from ridgeline.graph.rules.stagnation import can_restart, choose_masked_versions
from tests.builders import make_history, make_limits, make_round


def history(*, best=None, last=8, masked=(), **limits):
    rounds = [make_round(n, "accepted" if n == best else "rolled_back", gain=0.05) for n in range(2, last + 1)]
    restarts = tuple(Restarted(after_round=last, masked=versions, note="") for versions in masked)
    return make_history(*rounds, restarts=restarts, limits=make_limits(**{"max_restarts": 9, **limits}))


@pytest.mark.feature("F085")
@pytest.mark.parametrize("seed", range(20))
def test_about_half_never_the_original_never_the_best(seed):
    found = choose_masked_versions(history(best=5), seed=seed)
    assert len(found) == 3
    assert set(found) <= {1, 2, 3, 5, 6, 7}
    assert list(found) == sorted(found)
    assert found == choose_masked_versions(history(best=5), seed=seed)


@pytest.mark.feature("F085")
def test_every_version_but_the_best_is_reached_by_some_seed():
    assert {version for seed in range(50) for version in choose_masked_versions(history(best=5), seed=seed)} == {
        1,
        2,
        3,
        5,
        6,
        7,
    }


def test_the_best_may_be_the_original():
    assert {version for seed in range(50) for version in choose_masked_versions(history(), seed=seed)} == set(
        range(1, 8)
    )


@pytest.mark.parametrize(
    ("fields", "count"),
    [
        ({"last": 2}, 1),
        ({"last": 2, "best": 2}, 0),
        ({"last": 1}, 0),
        ({"last": 8, "mask_fraction": 1.0}, 7),
        ({"last": 8, "best": 3, "mask_fraction": 1.0}, 6),
        ({"last": 8, "masked": ((1, 2, 3),)}, 2),
        ({"last": 3, "masked": ((1, 2),)}, 0),
    ],
)
def test_how_many(fields, count):
    found = choose_masked_versions(history(**fields), seed=1)
    assert len(found) == count
    assert can_restart(history(**fields)) is (count > 0)
    assert not set(found) & {version for versions in fields.get("masked", ()) for version in versions}


@pytest.mark.parametrize(("allowed", "used", "answer"), [(0, 0, False), (1, 0, True), (1, 1, False), (2, 1, True)])
def test_the_number_of_restarts_is_bounded(allowed, used, answer):
    assert can_restart(history(masked=((1,),) * used, max_restarts=allowed)) is answer
