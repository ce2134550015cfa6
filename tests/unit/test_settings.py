"""Layers: who wins, where a value came from, and what a mistake says."""

import re
from pathlib import Path

import pytest

from ridgeline.agent.bench.request import limits_of
from ridgeline.agent.campaign.settings import (
    PREFIX,
    Layer,
    adjust_limits,
    from_assignments,
    from_contract,
    from_environment,
    from_flags,
    resolve,
)
from ridgeline.agent.errors import UserError
from ridgeline.graph.contract import Contract
from ridgeline.graph.limits import PRESETS, Limits
from ridgeline.graph.rules.archive import has_archive
from tests.builders import make_contract
from tests.projects import document

ROOT = Path(__file__).parents[2]


def contract(**changes) -> Contract:
    return Contract.model_validate(document(**changes))


def test_nothing_given_is_the_default_preset():
    found = resolve([])
    assert found.limits == PRESETS["evidence"]
    assert found.origins == ()


def test_later_layers_win_and_origins_are_kept():
    layers = [
        from_contract(contract(max_iterations=5, limits={"margin": 0.02, "blocks": 4})),
        from_environment({"RIDGELINE_MARGIN": "0.03", "HOME": "/root"}),
        from_flags({"max_rounds": 7, "preset": None}),
        from_assignments(["margin=0.04"]),
    ]
    for kept, margin in ((1, 0.02), (2, 0.03), (4, 0.04)):
        assert resolve(layers[:kept]).limits.margin == margin
    found = resolve(layers)
    assert (found.limits.max_rounds, found.limits.blocks) == (7, 4)
    assert dict(found.origins) == {
        "max_rounds": "--max-rounds",
        "margin": "--set margin",
        "blocks": "ridgeline.yaml: limits.blocks",
    }


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_is_taken_whole_and_may_be_adjusted(preset):
    assert resolve([from_flags({"preset": preset})]).limits == PRESETS[preset]
    adjusted = resolve([from_flags({"preset": preset}), from_assignments(["max_repairs=1"])]).limits
    assert adjusted == PRESETS[preset].model_copy(update={"max_repairs": 1})


def test_text_becomes_numbers_lists_and_absence():
    found = resolve([from_assignments(["looks=2,4", "target_peak_fraction=none", "split=false", "max_minutes=4.5"])])
    assert found.limits.looks == (2, 4)
    for text, looks in (("calibration_looks=4,6", (4, 6)), ("calibration_looks=none", ())):
        assert resolve([from_assignments([text])]).limits.calibration_looks == looks
    assert found.limits.target_peak_fraction is None
    assert found.limits.split is False
    assert found.limits.max_minutes == 4.5


@pytest.mark.feature("F004")
@pytest.mark.parametrize(("rounds", "good"), [(1, True), (119, True), (120, False), (0, False), (-1, False)])
def test_the_number_of_rounds_is_bounded_everywhere(rounds, good):
    layers = [from_flags({"max_rounds": rounds})], [from_assignments([f"max_rounds={rounds}"])]
    for given in layers:
        if good:
            assert resolve(given).limits.max_rounds == rounds
            continue
        with pytest.raises(UserError, match=rf"is {rounds}; give 1 to 119"):
            resolve(given)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: from_assignments(["magrin=1"]), "--set magrin: unknown setting 'magrin'; did you mean 'margin'?"),
        (lambda: from_assignments(["margin"]), "--set: 'margin' is not key=value"),
        (
            lambda: from_environment({"RIDGELINE_ALHPA": "1"}),
            "RIDGELINE_ALHPA: unknown setting 'alhpa'; did you mean 'alpha'?",
        ),
        (lambda: from_contract(contract(limits={"bloks": 2})), "ridgeline.yaml: limits.bloks: unknown setting 'bloks'"),
        (lambda: from_flags({"preset": "campain"}), "--preset: unknown preset 'campain'; did you mean 'campaign'?"),
        (lambda: from_assignments(["alpha=0.9"]), "--set alpha: input should be less than 0.5; correct the value"),
        (lambda: from_assignments(["max_rounds=ten"]), "--set max_rounds: 'ten' is not a whole number"),
        (lambda: from_assignments(["looks=a,b"]), "--set looks: 'a,b' is not a list of numbers"),
        (lambda: from_assignments(["looks=6,3"]), "--set looks: looks must rise"),
        (lambda: from_flags({"max_minutes": 0}), "--max-minutes: input should be greater than 0"),
        (lambda: from_flags({"max_dollars": -1}), "--budget-usd: input should be greater than 0"),
    ],
)
def test_a_mistake_names_its_origin_and_the_mend(make, said):
    with pytest.raises(UserError) as caught:
        resolve([make()])
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_layer_may_be_empty():
    assert resolve([Layer(), from_flags({}), from_environment({})]).limits == PRESETS["evidence"]


@pytest.mark.parametrize(
    ("changes", "blocks"),
    [
        ({"target_gpu": "H100", "target_backend": "TRITON"}, 24),
        ({"target_gpu": "H100", "target_backend": "TRITON", "limits": {"blocks": 7}}, 7),
        ({"target_gpu": "H100", "target_backend": "TRITON", "paired_command": None}, 5),
        ({"target_gpu": "cpu"}, 5),
    ],
)
def test_a_pair_on_a_gpu_has_more_blocks(changes, blocks):
    contract = make_contract(**{"paired_command": ["build/bench", "{a}", "{b}"], **changes})
    assert resolve([from_contract(contract)]).limits.blocks == blocks


@pytest.mark.feature("F094")
def test_mode_evolve_tries_three_and_needs_an_error_rate_to_share():
    plain = resolve([from_assignments(["search_mode=evolve"])]).limits
    assert (plain.candidates, has_archive(plain)) == (3, True)
    alone = resolve([from_assignments(["search_mode=evolve", "candidates=1"])]).limits
    assert (alone.candidates, has_archive(alone)) == (1, False)
    with pytest.raises(UserError, match="--set search_mode: .*search mode evolve needs preset evidence: campaign"):
        resolve([from_assignments(["search_mode=evolve", "preset=campaign"])])
    with pytest.raises(UserError, match="--set search_mode"):
        resolve([from_assignments(["search_mode=evolving"])])


def test_every_variable_of_ours_that_is_no_limit_is_let_through():
    """Seen: with RIDGELINE_SEARCH, RIDGELINE_CHECKPOINTS or RIDGELINE_DEVICE_HOST as documented, `run` refused to begin."""
    folders = [ROOT / name for name in ("agent", "sandbox", "graph", "evals", "docs")]
    files = [file for folder in folders for ending in ("*.py", "*.md") for file in folder.rglob(ending)]
    names = {name for file in files for name in re.findall(r"RIDGELINE_[A-Z_]*[A-Z]", file.read_text(encoding="utf-8"))}
    assert {"RIDGELINE_SEARCH", "RIDGELINE_CHECKPOINTS", "RIDGELINE_DEVICE_HOST"} <= names
    ours = {name: "word" for name in names if name.removeprefix(PREFIX).lower() not in Limits.model_fields}
    assert from_environment(ours) == Layer()
    with pytest.raises(UserError, match="RIDGELINE_SEARHC: unknown setting"):
        from_environment({"RIDGELINE_SEARHC": "word"})


@pytest.mark.parametrize("plan", ["", "write it anew", "none"])
def test_the_limits_of_a_campaign_that_began_with_a_deep_round_can_be_adjusted_at_its_target(plan):
    """Seen: `approve --yes --set margin=0.02` was refused, as if no model were given."""
    begun = resolve([from_flags({"deep": "start", "deep_plan": plan})], model=True).limits
    assert adjust_limits(begun, ["margin=0.02"], model=True) == (("margin", 0.02),)
    with pytest.raises(UserError, match="a deep round needs a model"):
        adjust_limits(PRESETS["evidence"], ["deep=start"], model=False)


def test_a_command_without_rounds_asks_for_no_model_where_campaigns_begin_with_a_deep_round():
    """Seen: with `limits: {deep: stagnation}` in the contract, `bench`, `check` and `roofline` asked for --model."""
    layers = (from_contract(contract(limits={"deep": "stagnation"})), from_environment({"RIDGELINE_DEEP": "start"}))
    assert limits_of(layers, max_pairs=5).looks == (1, 2, 3, 4, 5)
    assert resolve(layers, model=None).limits.deep == "start"
    with pytest.raises(UserError, match="RIDGELINE_DEEP: a deep round needs a model"):
        resolve(layers)
