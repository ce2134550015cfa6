"""The audit in a campaign: what convicts is rolled back unbuilt, what routes is told, old ledgers read as before."""

import json
import sys
from pathlib import PurePosixPath

import pytest

from ridgeline.graph.record import RoundClosed
from ridgeline.graph.rules.audit import classify_simulation, list_weight_caches
from ridgeline.graph.trial import Applied, Built, find
from ridgeline.graph.values import FileEdit
from ridgeline.sandbox.audit.examine import audit
from ridgeline.sandbox.workspace.builder import ContractBuilder
from ridgeline.sandbox.workspace.checker import ContractChecker
from ridgeline.sandbox.workspace.checkouts import Trees
from ridgeline.sandbox.workspace.commands import Commands
from ridgeline.sandbox.workspace.worktree import GitWorkspace
from tests.builders import make_contract
from tests.campaigns import make_campaign
from tests.fakes import FakeArtifacts
from tests.repositories import make_repository
from tests.world import ScriptedPlanner

CONVICTED = "speed 150\nint clock_gettime(int id, struct timespec *t) { return 0; }\n"
ROUTED = "speed 130\nvoid f(void) { pthread_create(&t, 0, work, o); }\n"


@pytest.mark.feature("F047")
def test_a_convicted_candidate_is_rolled_back_before_it_is_built(tmp_path):
    campaign = make_campaign(tmp_path, CONVICTED, "speed 120")
    campaign.drive()
    lost, kept = campaign.history().rounds
    assert lost.judged.verdict.reason == "convicted"
    assert lost.judged.verdict.own_work == "no"
    assert "kernel.c:2 replaced-clock" in lost.judged.verdict.sentence
    assert find(lost.judged, Built) is None
    assert kept.accepted
    assert "replaced-clock" in campaign.files.read("rounds/round-2/summary.md")


def test_a_routed_finding_is_evidence_and_a_note_and_stands_in_the_report(tmp_path):
    campaign = make_campaign(tmp_path, ROUTED)
    campaign.drive()
    (kept,) = campaign.history().rounds
    assert kept.accepted
    assert [one.rule for one in find(kept.judged, Applied).audit] == ["thread"]
    assert any("nothing here settles it" in note for note in kept.judged.verdict.notes)
    assert "nothing here settles it" in campaign.files.read("rounds/round-2/summary.md")
    reports = [text for name, text in campaign.files.texts().items() if "Source audit" in text]
    assert reports
    assert all("thread" in text and "kernel.c:2" in text for text in reports)


FILES = 'speed 130\nvoid f(void) { FILE *p = fopen("kept", "r"); }\n'


@pytest.mark.feature("F047")
def test_what_nothing_here_settles_is_rolled_back_unbuilt_unless_the_contract_allows_it(tmp_path):
    campaign = make_campaign(tmp_path, FILES)
    campaign.drive()
    (lost,) = campaign.history().rounds
    assert (lost.judged.verdict.reason, lost.judged.verdict.own_work) == ("unsettled", "unverified")
    assert "kernel.c:2 file-access" in lost.judged.verdict.sentence
    assert any("audit: {allow: [file-access]}" in note for note in lost.judged.verdict.notes)
    assert find(lost.judged, Built) is None
    (tmp_path / "again").mkdir()
    allowed = make_campaign(tmp_path / "again", FILES, audit={"allow": ["file-access"]})
    allowed.drive()
    (kept,) = allowed.history().rounds
    assert kept.accepted
    assert any("allowed by audit.allow" in note for note in kept.judged.verdict.notes)


def test_a_line_without_findings_reads_as_before_there_was_an_audit(tmp_path):
    campaign = make_campaign(tmp_path, "speed 120")
    campaign.drive()
    (kept,) = campaign.history().rounds
    written = kept.model_dump(mode="json")
    assert '"audit"' not in json.dumps(written)
    assert RoundClosed.model_validate(written) == kept


FAST = 'speed 130\n#pragma GCC optimize("O3,fast-math")\nvoid f(void) {}\n'


def test_relaxed_arithmetic_is_rolled_back_unbuilt_unless_the_contract_allows_it(tmp_path):
    campaign = make_campaign(tmp_path, FAST)
    campaign.drive()
    (lost,) = campaign.history().rounds
    assert lost.judged.verdict.reason == "unsettled"
    assert "kernel.c:2 relaxed-math: `fast-math` lets the compiler change what NaN" in lost.judged.verdict.sentence
    assert "relaxed_math: allowed" in " ".join((lost.judged.verdict.sentence, *lost.judged.verdict.notes))
    assert find(lost.judged, Built) is None
    (tmp_path / "again").mkdir()
    allowed = make_campaign(tmp_path / "again", FAST, relaxed_math="allowed")
    allowed.drive()
    (kept,) = allowed.history().rounds
    assert kept.accepted
    assert any("allowed by relaxed_math" in note for note in kept.judged.verdict.notes)


WEIGHT_CACHE = """
C = {}
def f(x, weight):
    k = (id(weight), weight._version)
    if k not in C: C[k] = q(weight)
    return mine(x, C[k])
"""


class Caching(ScriptedPlanner):
    """Proposes a weight cache as W1, beside the kernel's own text."""

    def propose(self, briefing):
        proposal = super().propose(briefing)
        if proposal.hypothesis is None:
            return proposal
        update = {"bucket": "W1", "real_gain_bound": 0.02}
        return proposal.model_copy(update={"hypothesis": proposal.hypothesis.model_copy(update=update)})

    def draft(self, briefing, proposal):
        draft = super().draft(briefing, proposal)
        return draft.model_copy(update={"edits": (*draft.edits, FileEdit(path="cache.py", text=WEIGHT_CACHE))})


@pytest.mark.feature("F049", "F050")
def test_a_weight_cache_is_run_over_fresh_steps_before_it_is_built_and_refused_where_it_cannot_be(tmp_path):
    planner = Caching("speed 120 cannot be simulated", "speed 125")
    campaign = make_campaign(tmp_path, planner=planner, editable=("kernel.c", "cache.py"))
    campaign.drive()
    lost, kept = campaign.history().rounds
    assert lost.judged.verdict.reason == "overfit"
    assert "could not be simulated: no torch here" in lost.judged.verdict.sentence
    assert find(lost.judged, Built) is None
    assert kept.accepted
    (cache,) = find(kept.judged, Applied).caches
    assert (cache.path, cache.line, cache.bounded) == ("cache.py", 5, True)
    summary = campaign.files.read("rounds/round-3/summary.md")
    assert "8 fresh steps (symbols): hit rate 8/8, and a miss after every change of the weight" in summary


STAND_IN_TORCH = """
import contextlib

class Tensor:
    def __init__(self): self._version = 0
    def add_(self, _): self._version += CHANGE

def ones(*_): return Tensor()
def no_grad(): return contextlib.nullcontext()
"""


@pytest.mark.feature("F049", "F050")
@pytest.mark.parametrize(
    ("torch", "answer", "why"),
    [
        ("CHANGE = 1" + STAND_IN_TORCH, "bounded", "a miss after every change of the weight"),
        ("CHANGE = 0" + STAND_IN_TORCH, "refused", "found a weight as it was before it changed"),
        ("raise ImportError('no torch')", "refused", "could not be simulated: ImportError: no torch"),
    ],
    ids=["misses after a change in place", "stale after a change in place", "no torch"],
)
def test_the_checker_runs_a_cache_in_the_interpreter_of_the_contract(tmp_path, torch, answer, why):
    """Real processes; torch is a stand-in whose weight says, or hides, that it was changed in place."""
    (tmp_path / "torch.py").write_text(torch)
    root = make_repository(tmp_path / "repo", {"kernel.py": WEIGHT_CACHE, "bench.py": "", "ridgeline.yaml": ""})
    argv = ("env", f"PYTHONPATH={tmp_path}", sys.executable, "bench.py", "{csv}")
    contract = make_contract(kernel_source=("kernel.py",), benchmark_command=argv, quick_command=argv)
    workspace = GitWorkspace(root, PurePosixPath(), tmp_path / "campaign", contract, FakeArtifacts())
    commands = Commands(contract=contract, trees=Trees(workspace))
    checker = ContractChecker(commands, ContractBuilder(commands))
    (finding,) = list_weight_caches(audit("kernel.py", WEIGHT_CACHE))
    simulation = checker.simulate_cache(workspace.open("none").commit, finding.key)
    verdict = classify_simulation(simulation)
    assert (verdict.answer, why in verdict.why) == (answer, True), verdict
