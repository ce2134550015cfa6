"""Retrieval: recall@5 and nDCG@5 over `evals/knowledge/queries.yaml`, ours beside plain grep and an embedding model.

Of the thirty questions of `plain.yaml`, which name no route, those are counted that are answered among the first three or
rightly said not to be covered.

Two recalls are told apart. "Answered" is the share of questions with a section that answers among the first five:
what a reader needs, and what is bounded. "Complete" is found answering sections / answering sections (at most five),
averaged: most questions are answered in several places (an overview, a card, a backend's page), all of them labelled.
`BENCH_MISSES=1` lists what was missed; questions of the held part are only counted, never looked at while tuning.
An embedding model is used where one is installed.
"""

import math
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median, quantiles
from typing import Any

import yaml

from ridgeline.knowledge.index import Entry, Row, rows
from ridgeline.knowledge.library import Library
from ridgeline.knowledge.search import Hit, Route, Search, searching
from ridgeline.knowledge.vocabulary import split_words, vocabulary
from tests.bench.embedding import Score, ranker

ROOT = Path(__file__).resolve().parents[2]
QUERIES = ROOT / "evals" / "knowledge" / "queries.yaml"
PLAIN = ROOT / "evals" / "knowledge" / "plain.yaml"
TOP, FIRST_PAGE, STARTS = 5, 3, 5
START_MS, QUERY_MS, RECALL, PLAIN_BOUND = 300.0, 20.0, 0.95, 27
Ranking = Callable[["Question"], Sequence[str]]
"""Ids of entries, best first."""


@dataclass(frozen=True, kw_only=True)
class Question:
    text: str
    route: Route
    relevant: frozenset[str]
    held: bool


def questions() -> list[Question]:
    """The labelled set; a card's path stands for the card."""
    return _read_questions(QUERIES)


def plain_questions() -> list[Question]:
    """Questions without a route; for one without a label "not covered" is the right answer."""
    return _read_questions(PLAIN)


def list_unanswered(base: Search, asked: Sequence[Question]) -> list[str]:
    """Questions that neither have an answer among the first three nor are rightly said not to be covered."""
    return [question.text for question in asked if not _is_answered(base, question)]


def _is_answered(base: Search, question: Question) -> bool:
    if base.uncovered_words(question.text, question.route):
        return not question.relevant
    hits = base.find(question.text, question.route, limit=FIRST_PAGE)
    return bool(question.relevant & {_label(hit) for hit in hits})


def _read_questions(path: Path) -> list[Question]:
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    return [
        Question(
            text=one["query"],
            route=Route(op=one.get("op"), gpu=one.get("gpu"), lang=one.get("lang"), phase=one.get("phase")),
            relevant=frozenset(f"knowledge/{name}" for name in one["relevant"]),
            held=one.get("part") == "held",
        )
        for one in found
    ]


def name_of(entry: Entry) -> str:
    """How a label names an entry."""
    return entry.path if entry.kind == "card" else entry.id


def run() -> Iterator[dict[str, Any]]:
    asked = questions()
    entries = [*rows(Library())]
    known = {name_of(row.entry) for row in entries}
    lost = sorted(label for question in asked for label in question.relevant if label not in known)
    yield {"what": "questions", "value": len(asked), "unit": "", "bound": 120, "ok": len(asked) >= 120}
    yield {"what": "labels without a section", "value": len(lost), "unit": "", "bound": 0, "ok": not lost}
    yield from _starts()
    with tempfile.TemporaryDirectory() as folder, searching(cache=Path(folder)) as base:
        ours = _ours(base)
        yield from _quality("ours", ours, asked, bound=RECALL)
        plain = plain_questions()
        right = len(plain) - len(list_unanswered(base, plain))
        what = f"plain questions answered in the first three, of {len(plain)}"
        yield {"what": what, "value": right, "unit": "", "bound": PLAIN_BOUND, "ok": right >= PLAIN_BOUND}
        yield from _times(base, asked)
        yield from _quality("grep over all files", _grep(entries, None), asked)
        yield from _quality("grep, same route", _grep(entries, base), asked)
        embedded = ranker([f"{row.entry.heading}. {row.about}. {row.text}" for row in entries])
        if embedded is None:
            yield {"what": "embedding model: none is installed", "value": 0, "unit": ""}
        else:
            yield from _quality("embedding, same route", _routed(entries, base, embedded), asked)
        if os.environ.get("BENCH_MISSES"):
            _misses(ours, asked)


def _ours(base: Search) -> Ranking:
    def ranking(question: Question) -> list[str]:
        hits = base.find(question.text, question.route, limit=TOP)
        return [_label(hit) for hit in hits]

    return ranking


def _label(hit: Hit) -> str:
    return hit.path if "/cards/" in hit.path else hit.id


def _grep(entries: Sequence[Row], base: Search | None) -> Ranking:
    """Sections by how many of the question's words they hold, then by how often: what `grep -ci` per word tells."""
    lowered = [f"{row.entry.heading}\n{row.about}\n{row.text}".lower() for row in entries]

    def score(question: str) -> list[float]:
        words = {word for word in split_words(question) if word not in vocabulary().stop}
        counts = [[len(re.findall(re.escape(word), text)) for word in words] for text in lowered]
        return [sum(n > 0 for n in found) + min(sum(found), 999) / 1000 for found in counts]

    return _routed(entries, base, score)


def _routed(entries: Sequence[Row], base: Search | None, score: Score) -> Ranking:
    def ranking(question: Question) -> list[str]:
        scores = score(question.text)
        gate = base.gate(question.route) if base is not None else None
        open_to = [at for at, row in enumerate(entries) if gate is None or gate.factor(row.entry)]
        best = sorted(open_to, key=lambda at: -scores[at])[:TOP]
        return [name_of(entries[at].entry) for at in best if scores[at] > 0]

    return ranking


def _quality(
    name: str, ranking: Ranking, asked: Sequence[Question], bound: float | None = None
) -> Iterator[dict[str, Any]]:
    found = [(question, ranking(question)) for question in asked]
    answered = [float(bool(question.relevant & set(ids))) for question, ids in found]
    complete = [recall(ids, question.relevant) for question, ids in found]
    gains = [ndcg(ids, question.relevant) for question, ids in found]
    held = [question.held for question in asked]
    total = fmean(answered)
    row = {"what": f"{name}: recall@{TOP}, answered", "value": total, "unit": ""}
    yield row | ({"bound": bound, "ok": total >= bound} if bound else {})
    yield {"what": f"{name}: recall@{TOP}, complete", "value": fmean(complete), "unit": ""}
    yield {"what": f"{name}: nDCG@{TOP}", "value": fmean(gains), "unit": ""}
    for what, values in (("answered", answered), ("complete", complete), ("nDCG", gains)):
        part = fmean(value for value, out in zip(values, held, strict=True) if out)
        yield {"what": f"{name}: {what}, {sum(held)} held out", "value": part, "unit": ""}


def recall(ids: Sequence[str], relevant: frozenset[str]) -> float:
    """Found share of what is relevant, of five at most."""
    return len(relevant & set(ids[:TOP])) / min(TOP, len(relevant))


def ndcg(ids: Sequence[str], relevant: frozenset[str]) -> float:
    """Normalised discounted cumulative gain with gains of 0 and 1."""
    gain = sum(1 / math.log2(place + 2) for place, name in enumerate(ids[:TOP]) if name in relevant)
    return gain / sum(1 / math.log2(place + 2) for place in range(min(TOP, len(relevant))))


def _times(base: Search, asked: Sequence[Question]) -> Iterator[dict[str, Any]]:
    took = []
    for question in asked:
        began = time.perf_counter()
        base.find(question.text, question.route, limit=TOP)
        took.append(1000 * (time.perf_counter() - began))
    slow = quantiles(took, n=20)[-1]
    yield {"what": "query, median", "value": median(took), "unit": "ms"}
    yield {"what": "query, 95th percentile", "value": slow, "unit": "ms", "bound": QUERY_MS, "ok": slow < QUERY_MS}


FIRST = """
import time; began = time.process_time()
import sys; from pathlib import Path; from ridgeline.knowledge.search import Route, searching
with searching(cache=Path(sys.argv[1])) as base:
    assert base.find("LDS bank conflicts", Route(op="gemm", gpu="MI300X", lang="hip"))
print(1000 * (time.process_time() - began))
"""


def _starts() -> Iterator[dict[str, Any]]:
    """Processor time from the first import to the first answer, in fresh interpreters.

    Without a kept index, with one, and as `ridgeline knowledge search` with all that the command line loads.
    """
    made, kept, command = [], [], []
    for _ in range(STARTS):
        with tempfile.TemporaryDirectory() as folder:
            argv = [sys.executable, "-c", FIRST, folder]
            first, *more = (
                float(subprocess.run(argv, check=True, capture_output=True, cwd=ROOT).stdout) for _ in "123"
            )
            made.append(first)
            kept += more
            command.append(_cpu_ms([sys.executable, "-m", "ridgeline", "knowledge", "search", "LDS banks"], folder))
    for what, values in (("no index kept", made), ("index kept", kept)):
        ms = median(values)
        yield {"what": f"first answer, {what}, CPU", "value": ms, "unit": "ms", "bound": START_MS, "ok": ms < START_MS}
    yield {"what": "ridgeline knowledge search, index kept, CPU", "value": median(command), "unit": "ms"}


def _cpu_ms(argv: list[str], cache: str) -> float:
    """Processor milliseconds of a process, second run: the first makes the index."""
    environment = {**os.environ, "RIDGELINE_CACHE": cache}
    for _ in range(2):
        before = os.times()
        subprocess.run(argv, check=True, capture_output=True, cwd=ROOT, env=environment)
        after = os.times()
    return 1000 * (after.children_user + after.children_system - before.children_user - before.children_system)


def _misses(ranking: Ranking, asked: Sequence[Question]) -> None:
    for question in asked:
        ids = ranking(question)
        if not question.held and (missed := question.relevant - set(ids)):
            sys.stdout.write(f"\n{question.text}  {question.route}\n")
            sys.stdout.writelines(f"   missed {name}\n" for name in sorted(missed))
            sys.stdout.writelines(f"   found  {name}\n" for name in ids)
