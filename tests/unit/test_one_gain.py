"""Of every recorded campaign: nothing that people or models read divides runs of different minutes by one another."""

from pathlib import Path

import pytest

from ridgeline.graph.reports import final_report
from ridgeline.graph.reports.figures import hypothesis
from ridgeline.graph.reports.files import render_all, tip_entry
from ridgeline.graph.reports.html import report_html
from ridgeline.graph.reports.markdown import markdown
from ridgeline.graph.reports.result import accepted_line, best_in_short, first_screen, notice
from ridgeline.graph.reports.text import times_at_least
from ridgeline.graph.rules.history import fold_ledger, standing
from ridgeline.graph.rules.result import compute_result
from ridgeline.graph.rules.score import ScoreError, delta
from ridgeline.sandbox.store.ledger import JsonlLedger

CAMPAIGNS = Path(__file__).parents[2] / "evals" / "campaigns"
RECORDED = sorted(folder.name for folder in CAMPAIGNS.iterdir() if (folder / "ledger.jsonl").is_file())


def recorded(name):
    return fold_ledger(JsonlLedger(CAMPAIGNS / name / "ledger.jsonl").lines())


def spelled(gain):
    """A gain as any document has ever written it."""
    return {f"{100 * gain:+.2f}%", f"{100 * gain:+.3f}%", f"{1 + gain:.2f}x", f"{1 + gain:.3f}x"}


def unpaired(history):
    """Every quotient of a run of the best version and a run of the original, as text."""
    best, done = standing(history), history.concluded
    runs = [(best.full or best.quick, history.baseline.quick)]
    if done.project is not None:
        runs += [(done.project, history.baseline.project)]
        runs += [(done.project, done.baseline_again)] if done.baseline_again else []
    found = set()
    for now, then in runs:
        try:
            compared = delta(now, then, history.contract.scoring)
        except ScoreError:
            continue
        for gain in (compared.gain, *(shape.gain for shape in compared.shapes)):
            found |= spelled(gain) if abs(gain) > 0.005 else set()
    return found


def measured(history):
    """What pairs have measured: the candidates' gains with their bounds, and the ledger's final test."""
    final = compute_result(history).final
    tested = (final, *final.shapes) if final else ()
    sides = [side for one in tested for side in (one.speedup, one.lower, getattr(one, "upper", None)) if side]
    found = {text for side in sides for text in spelled(side - 1)}
    found |= {times_at_least(one.lower, places) for one in tested if one.lower for places in (2, 3)}
    for closed in history.rounds:
        verdict = closed.judged.verdict
        for one in (verdict, *verdict.shapes):
            found |= {text for part in (one.gain, one.lower, one.upper) if part is not None for text in spelled(part)}
    return found


def told(history):
    files = {name: text for name, text in render_all(history, worktree="").items() if isinstance(text, str)}
    for closed in history.rounds:
        files[f"tip {closed.round}"] = tip_entry(closed, history.opened)
        files[f"line {closed.round}"] = accepted_line(closed)
    found = compute_result(history)
    files |= {"notification": notice(found), "summary": str(first_screen(found)), "progress": best_in_short(found)}
    return {**files, "report": final_report.render_final_report(history), "report.html": report_html(history, diffs={})}


@pytest.mark.parametrize("name", RECORDED)
def test_no_document_divides_two_readings(name):
    history = recorded(name)
    wrong = unpaired(history) - measured(history)
    foreign = " ".join(closed.model_dump_json() for closed in history.rounds)  # what planners wrote is theirs
    foreign += " ".join(f"{hypothesis(closed).prediction.ratio or 0:g}x" for closed in history.rounds)
    wrong = {text for text in wrong if text not in foreign}
    found = {(place, text) for place, words in told(history).items() for text in wrong if text in words}
    assert found == set()


@pytest.mark.parametrize("name", RECORDED)
def test_the_final_documents_hold_one_multiple_of_the_original(name):
    """The product of the rounds' gains belongs to the time before the final test, and to the logs of that time.

    But for the audit of Rule 11, which holds the final test against what the rounds account for.
    """
    history = recorded(name)
    audit = final_report.audit(history)
    whole = 1.0
    for closed in history.rounds:
        whole *= 1 + (closed.judged.verdict.gain if closed.accepted else 0.0)
    wrong = spelled(whole - 1) - measured(history) if whole != 1 else set()
    found = compute_result(history)
    for document in (
        final_report.render_final_report(history).replace(audit, ""),
        report_html(history, diffs={}).replace(str(markdown(audit)), ""),
        notice(found),
        str(first_screen(found)),
    ):
        assert {text for text in wrong if text in document} == set()
    done = history.concluded
    if done.speedup is not None:
        lower = times_at_least(done.speedup_lower)
        told = f"{done.speedup:.3f}x, at least {lower} at 99 % confidence"
        assert told in final_report.render_final_report(history)
        assert f"| **geometric mean** |  |  | **{done.speedup:.3f}x** |" in final_report.render_final_report(history)
