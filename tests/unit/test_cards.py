"""Every card is valid, unique, carries out what its example shows, and is one change under rule 1."""

from pathlib import Path
from typing import get_args

import pytest

from ridgeline.agent.planner.catalog import NOTHING_LEFT
from ridgeline.graph.rules.change import explain_forbidden, explain_several_changes
from ridgeline.graph.values import Category, Hypothesis, Prediction
from ridgeline.knowledge.cards import CARDS, CATEGORIES, Card, CardError, load, read_card
from ridgeline.knowledge.rewrite import apply
from ridgeline.knowledge.steps import Constant
from ridgeline.knowledge.sweeps import neighbours, settings

BY_ID = {card.id: card for card in load()}
CARRIED_OUT = [card.id for card in load() if card.edits]
LEAST = {"c": 14, "triton": 20, "cuda": 20, "hip": 20, "flydsl": 10, "cutedsl": 8, "ck": 5, "python": 7}
DESCRIBED = """---
id: keep-it-short
title: Keep it short
langs: [hip]
category: tile
bucket: K1
bottlenecks: [memory]
because: nothing is read twice
change: one pass
prediction: {counter: TCC_EA_RDREQ_sum, direction: down}
risks: none
verification: bytes fall
sources: [some-source]
---
## Applies when
Always.

## How
So.

## Pitfalls
None.
"""


def texts_after(card: Card) -> str:
    """All files of the card's example after its first variant."""
    example = card.example
    assert example is not None
    sources = {example.path: example.before}
    if example.flags is not None:
        sources["kernel.flags"] = example.flags
    target = {}
    for step in card.edits:
        if isinstance(step, Constant):
            setting = settings(step, sources)[0]
            target = {setting.name: neighbours(step, setting.value)[0]}
    edits = card.edits_of(card.variants[0] if card.variants else None)
    changed = apply(edits, sources, flags_file="kernel.flags" if example.flags is not None else None, target=target)
    assert changed is not None, f"{card.id} does not apply to its example"
    return "\n".join(changed.values())


@pytest.mark.parametrize("name", CARRIED_OUT)
def test_example_applies(name: str) -> None:
    after = texts_after(BY_ID[name])
    example = BY_ID[name].example
    assert example is not None
    for expected in example.after:
        assert expected in after


@pytest.mark.parametrize("name", CARRIED_OUT)
def test_fallbacks_apply_to_the_example(name: str) -> None:
    example = BY_ID[name].example
    assert example is not None
    sources = {example.path: example.before} | ({"kernel.flags": example.flags} if example.flags else {})
    for fallback in BY_ID[name].fallbacks:
        assert apply(fallback.edits, sources, flags_file="kernel.flags" if example.flags else None), fallback.why


@pytest.mark.parametrize("name", BY_ID)
@pytest.mark.feature("F031", "F046", "F063")
def test_is_one_allowed_change(name: str) -> None:
    card = BY_ID[name]
    asked = Hypothesis(
        id=card.id,
        lever=card.id,
        claim=card.because,
        change=card.change,
        category=card.category,
        bucket=card.bucket,
        evidence=("measured -> inferred -> done",),
        risks=card.risks,
        verification=card.verification,
        prediction=Prediction(counter=card.prediction.counter, direction=card.prediction.direction),
        sweep=card.sweep,
    )
    assert explain_several_changes(asked) is None
    assert explain_forbidden(asked) is None


def test_ids_are_unique_and_name_their_file() -> None:
    assert len(BY_ID) == len(load())
    assert all(Path(card.path).stem == card.id for card in load())


@pytest.mark.parametrize(("lang", "least"), LEAST.items())
def test_languages_are_covered(lang: str, least: int) -> None:
    assert sum(lang in card.langs for card in load()) >= least


def test_words_are_those_of_the_core() -> None:
    assert get_args(Category) == CATEGORIES
    assert set(NOTHING_LEFT) == set(CATEGORIES)


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("category: compiler", "category: magic", "category"),
        ("title: Compile at -O3\n", "", "title"),
        ("kind: flags", "kind: wish", "edits.0"),
        ("retry: true", "retry: true\nsurprise: 1", "surprise"),
        ("## Pitfalls", "## Traps", "card"),
        ("expected_speedup: 1.9", "expected_speedup: 0.9", "expected_speedup"),
        ("---\nid", "id", "front matter"),
        ("category: compiler", "category: [compiler", "front matter"),
    ],
)
def test_error_names_file_and_field(tmp_path: Path, old: str, new: str, field: str) -> None:
    text = (CARDS / "c" / "gcc-o3.md").read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / "bad.md"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(CardError, match=rf"bad\.md: {field}"):
        read_card(path, tmp_path)


def test_duplicate_id_is_refused(tmp_path: Path) -> None:
    text = (CARDS / "c" / "gcc-o3.md").read_text(encoding="utf-8")
    for name in ("one.md", "two.md"):
        (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(CardError, match=r"two\.md: id: gcc-o3 is also in .*one\.md"):
        load(tmp_path)


def test_a_lever_may_be_described_without_edits(tmp_path: Path) -> None:
    path = tmp_path / "keep-it-short.md"
    path.write_text(DESCRIBED.replace("risks:", "counters: [TCC_HIT_sum, TCC_EA_RDREQ_sum]\ngpus: [gfx942]\nrisks:"))
    card = read_card(path, tmp_path)
    assert card.edits == ()
    assert card.gpus == ("gfx942",)


@pytest.mark.parametrize(
    ("extra", "wrong"),
    [
        ("example: {before: a, after: [b]}\n", "example is given without edits"),
        ("variants: [{id: one}]\n", "variants is given without edits"),
        ("counters: ['']\n", "counters.0"),
        ("edits: [{kind: flags, add: ['-O3']}]\n", "example is missing"),
        ("edits: [{kind: flags, add: ['-O3']}]\nexample: {before: a, after: [b]}\n", "expected_speedup is missing"),
    ],
)
def test_a_card_is_carried_out_or_described(tmp_path: Path, extra: str, wrong: str) -> None:
    path = tmp_path / "keep-it-short.md"
    path.write_text(DESCRIBED.replace("risks:", extra + "risks:"))
    with pytest.raises(CardError, match=wrong):
        read_card(path, tmp_path)
