"""A whole request as the mailbox shows it: all that is needed to answer well, once, in 16 KB for the shipped tasks."""

import re

import pytest

from ridgeline.agent.campaign.tape import Tape, tape_port
from ridgeline.agent.planner.measurements import neutral
from ridgeline.agent.planner.model import ModelPlanner
from ridgeline.agent.planner.tools import ShippedBooks
from ridgeline.agent.providers.mailbox import page
from ridgeline.agent.providers.tape import estimate_tokens
from ridgeline.evals.task_folders import TASKS, Parts, contract_fields, folders, recorded_tasks
from ridgeline.graph.briefing import Briefing, Proposal
from ridgeline.graph.contract import Audit, Contract
from ridgeline.graph.loop.context import describe_shapes, describe_terms
from ridgeline.graph.rules import history as fold
from ridgeline.graph.rules.score import aggregate
from ridgeline.graph.trial import Drafted, find, find_proposal
from ridgeline.graph.values import Cost, FileEdit
from ridgeline.prompts.render import SHIPPED, TEMPLATES
from ridgeline.sandbox.audit.rules import RULES
from ridgeline.sandbox.store.ledger import JsonlLedger, seal_line
from tests.builders import make_hypothesis, make_judged, make_limits, make_machine, make_target
from tests.campaigns import make_campaign
from tests.catalog_briefs import brief, naive
from tests.model_fakes import ScriptedModel
from tests.world import SideBySide

MOST = 16 * 1024
"""Bytes of a first request."""
RECORDING = TASKS.parent / "campaigns" / "matmul_c_mailbox"
KNOWN = folders() | {"recorded matmul_c": recorded_tasks()["matmul_c"]}
LINES = JsonlLedger(RECORDING / "ledger.jsonl").lines()
ROUND = LINES[4].body
ASKED = find_proposal(ROUND.judged).hypothesis


class Tree:
    """The files of a task, as its repository has them."""

    def __init__(self, parts: Parts) -> None:
        self._files = {path.name: path for part in parts for path in part.iterdir() if path.is_file()}

    def paths(self, commit):
        return tuple(sorted(self._files))

    def text(self, commit, path):
        return self._files[path].read_text() if path in self._files else None

    def search(self, commit, text):
        return ()

    def read_artifact(self, artifact):
        return None


class Counted(ScriptedModel):
    def count(self, text):
        return estimate_tokens(text)


def at(lines: int, **fields) -> Briefing:
    """What the planner of the recorded campaign knew after so many lines of its ledger."""
    known = fold.fold_ledger(LINES[:lines])
    best = fold.standing(known)
    sources = naive("matmul_c")
    default = {
        "round": fold.next_round(known),
        "target": known.opened.target,
        "contract": known.contract,
        "machine": known.opened.machine,
        "specs": known.roofline.specs,
        "best_commit": best.commit,
        "best_round": best.round,
        "aggregate": aggregate(best.quick.rows, known.contract.scoring),
        "bottleneck": ROUND.bottleneck,
        "bottleneck_evidence": ROUND.bottleneck_evidence,
        "profile": known.baseline.profile,
        "shapes": describe_shapes(known),
        "terms": describe_terms(known),
        "head": LINES[lines - 1].sha256,
        "rounds": fold.unmasked_rounds(known),
    }
    given = {**default, **fields}
    return brief(sources, *given.pop("rounds"), **given)


def asked(question, *, task: str = "recorded matmul_c") -> str:
    """The page of the first question that `question` makes a planner ask."""
    model = Counted("{}", "{}", tools=False)
    limits = fold.fold_ledger(LINES[:4]).limits
    question(ModelPlanner(model, limits=limits, reader=Tree(KNOWN[task]), books=ShippedBooks()))
    return page(1, model.asks[0])


def first(task: str) -> Briefing:
    """Round 2 of a task: its own contract and sources, the numbers of the recorded campaign."""
    told = at(4)
    if task == "recorded matmul_c":
        return told
    contract = Contract.model_validate(contract_fields(KNOWN[task]))
    lang = "C" if task.endswith("_c") else "TRITON"
    fields = {
        "contract": contract,
        "target": make_target(target_op=contract.target_op, target_lang=lang, target_backend=lang),
        "machine": told.machine if lang == "C" else make_machine(kind="nvidia", name="H100", arch="sm_90"),
        "sources": tuple(
            FileEdit(path=name, text=(TASKS / task / name).read_text())
            for name in contract.editable_globs
            if (TASKS / task / name).is_file()
        ),
    }
    return told.model_copy(update=fields)


@pytest.mark.parametrize("task", ["recorded matmul_c", "matmul_c", "softmax_c", "matmul_triton", "softmax_triton"])
def test_a_first_request_is_short_and_has_everything(task):
    told = first(task)
    text = asked(lambda plan: plan.propose(told), task=task)
    assert len(text.encode()) <= MOST
    assert "(read-only)" in text
    assert "left out: " in text, "how many levers are not shown"
    assert f"These files may be edited and no others: {', '.join(told.contract.editable_globs)}." in text
    assert text.count('"directions": [') == 1, "the form of the answer stands there once"
    assert "$defs" not in text
    assert "ridgeline.yaml" not in text.split("not shown: ")[0]


def test_a_first_request_tells_numbers_ends_and_the_best_levers():
    text = asked(lambda plan: plan.propose(at(4)))
    assert "sq48 (regime=small): 3.308, 66.87 us, 3.35 % of its compute peak" in text
    assert "This is round 2; 7 may follow." in text
    assert "2.3 % of the compute ceiling" in text
    assert "geometric mean over the 6 shapes of Forward GFLOPS, higher is better" in text
    assert "work counted: operations 2*M*N*K" in text
    assert "threads granted 1" in text
    assert "At 90 % the campaign ends" in text
    assert "above 0.5 % at 99 % confidence" in text
    assert "2 rollbacks in a row (0 now)" in text
    assert "Spent:" not in text, "no budget is set"
    order = [text.index(f"[lever {name}") for name in ("loop-interchange", "register-tile", "gcc-o3")]
    assert order == sorted(order)
    assert "further levers left out: knowledge/cards/c/row-jam.md:1" in text
    assert '"prediction": {"counter": "name of a counter", "direction": "down", "ratio": 0.5, "speedup": 1.2}' in text


def test_a_later_request_shows_predicted_against_measured_for_each_shape():
    text = asked(lambda plan: plan.propose(at(5)))
    assert "predicted 20x, measured 26.8x, at least 26.2x" in text
    assert "wide16: 1494 -> 28.58 us, 52.6x" in text
    assert "original (round 1) -> best version (round 2)" in text


def test_a_draft_is_told_what_was_predicted_and_where_it_may_edit():
    text = asked(lambda plan: plan.draft(at(4), Proposal(hypothesis=ASKED)))
    assert (
        "prediction: instructions down, to 0.045 times what it was; speedup 20x, of every shape, so of the score: 20x"
        in text
    )
    assert "kind: tile, for all shapes" in text
    assert "how: " in text
    assert len(text.encode()) <= MOST


def test_a_gpu_is_told_what_the_timing_counts_and_nothing_of_threads():
    text = asked(lambda plan: plan.propose(first("matmul_triton")), task="matmul_triton")
    assert "timed by: replays of a CUDA or HIP graph: what the host does for a launch is not in it" in text
    assert "the judge's: timed calls find their inputs outside the L2 cache" in text
    assert "threads granted" not in text
    assert "{label: flat512, dims: {M: 4096, N: 4096, K: 512}, config_class: flat}" in text
    assert "high_risk`: control flow or data layout changes; for the record" in text


def test_looking_back_says_which_version_is_which_and_shows_the_change():
    text = asked(lambda plan: plan.reflect(at(4), ROUND.judged))
    assert "the candidate of round 2, which was accepted and is the best version now" in text
    assert "--- round-1/kernel.c\n+++ round-2/kernel.c" in text
    assert "+#include <immintrin.h>" in text
    assert "sq48: 64.03 -> 2.971 us (3.454 GFLOP/s -> 74.45 GFLOP/s), 22.4x" in text
    assert "counter instructions: predicted down to 0.045 of it, measured 4.51714e+07 -> 1.61555e+06" in text
    assert "numbers of other rounds were taken at another time" in text
    assert "best version: commit" not in text, "one state, told once"
    assert "Profile of" not in text, "the counters of both versions stand in the evidence"


@pytest.mark.parametrize(
    ("decision", "before", "said"),
    [("rolled_back", 0, 1), ("rolled_back", 1, 2), ("accepted", 3, 0)],
)
def test_looking_back_counts_the_round_that_is_being_closed(decision, before, said):
    told = at(4, consecutive_rollbacks=before)
    text = asked(lambda plan: plan.reflect(told, make_judged(decision)))
    assert f"2 rollbacks in a row ({said} now)" in text


def test_a_review_counts_the_rounds_that_led_to_it():
    told = at(4, consecutive_rollbacks=2)
    assert "2 rollbacks in a row (2 now)" in asked(lambda plan: plan.review(told, "2 consecutive rollbacks"))


@pytest.mark.parametrize(
    ("note", "said"),
    [
        (
            "suspicious: +50.0% is more than +30%; re-check the bucket, that all the work is still done",
            "flagged for people to look at: +50.0% is more than +30%",
        ),
        ("not read of the candidate, so not compared: spills", "not read of the candidate, so not compared: spills"),
    ],
)
def test_notes_for_people_ask_nothing_of_a_model(note, said):
    assert neutral(note) == said


def test_a_recorded_planner_still_hears_the_questions_that_it_answered():
    recorded = tape_port("planner", None, Tape(RECORDING / "tape.jsonl", mode="replay"))
    told = at(4)
    proposal = recorded.propose(told)
    assert proposal.hypothesis == ASKED
    assert recorded.draft(told, proposal).edits == find(ROUND.judged, Drafted).edits
    assert recorded.reflect(told, ROUND.judged) == ROUND.reflection


def test_a_recorded_ledger_would_be_written_the_same_today():
    for line in LINES:
        assert seal_line(line.body, seq=line.seq, prev=line.prev).sha256 == line.sha256


def test_every_prompt_that_the_recorded_ledger_cites_is_still_here():
    cited = re.findall(r'"([a-z_]+\.v\d+\.\w+)@([0-9a-f]{12})"', (RECORDING / "ledger.jsonl").read_text())
    assert {name for name, _ in cited} >= {"propose.v1.md", "draft.v1.md", "context.v1.md"}
    for name, digest in cited:
        assert (TEMPLATES / f"{name}.j2").is_file()
        assert SHIPPED.identity(name) == f"{name}@{digest}"


def test_a_page_says_which_source_is_refused_what_the_contract_lets_through_and_what_tiles_need():
    told = first("recorded matmul_c")
    contract = told.contract.model_copy(update={"audit": Audit(allow=("file-access", "raw-syscall"))})
    machine = told.machine.model_copy(update={"features": ("avx512f", "amx_tile")})
    known = told.model_copy(update={"contract": contract, "machine": machine})
    proposal = Proposal(hypothesis=make_hypothesis())
    for briefing, allowed in ((told, ()), (known, contract.audit.allow)):
        pages = (
            asked(lambda plan, it=briefing: plan.propose(it)),
            asked(lambda plan, it=briefing: plan.draft(it, proposal)),
        )
        (short,), (long,) = (re.findall(r"^refused code: (.*)", page, re.M) for page in pages)
        names = short.split(", ")
        assert set(names) | set(allowed) >= {"raw-syscall", "call-count", "file-access"}
        assert not {*names} & {*allowed, "memo", "inline-asm"}, "neither what is let through nor what C cannot have"
        assert all(f"{name} ({RULES[name].meaning})" in long for name in names)
        assert ("allowed code: file-access, raw-syscall" in pages[0]) == bool(allowed)
        assert ("amx: tiles need syscall(SYS_arch_prctl, 0x1023, 18)" in pages[1]) == (briefing is known)


class Priced(SideBySide):
    """Each direction and each draft costs tokens; keeps what its questions say of them."""

    def __init__(self, *scripts):
        super().__init__(*scripts)
        self.told = []

    def propose(self, briefing):
        return super().propose(briefing).model_copy(update={"cost": Cost(tokens=100)})

    def draft(self, briefing, proposal):
        self.told.append(briefing.terms.spent.tokens)
        return super().draft(briefing, proposal).model_copy(update={"cost": Cost(tokens=10)})

    def reflect(self, briefing, judged):
        self.told.append(briefing.terms.spent.tokens)
        return super().reflect(briefing, judged)


def test_what_an_open_round_has_cost_counts_as_spent_while_candidates_are_tried(tmp_path):
    planner = Priced("speed 120", "speed 130")
    limits = make_limits(candidates=2, target_peak_fraction=None, max_rounds=3, calibration_pairs=2, final_pairs=3)
    made = make_campaign(tmp_path, planner=planner, limits=limits)
    made.drive()
    assert planner.told[:3] == [100, 110, 120]


def test_a_page_says_what_is_left_of_the_tokens_and_what_a_question_keeps_back():
    terms = describe_terms(fold.fold_ledger(LINES[:4]))
    limits = terms.limits.model_copy(update={"max_tokens": 60_000})
    told = at(4, terms=terms.model_copy(update={"limits": limits, "spent": Cost(tokens=47_496)}))
    assert "tokens left: 12504 of 60000; where a question's page and 8192 tokens" in asked(
        lambda plan: plan.propose(told)
    )
