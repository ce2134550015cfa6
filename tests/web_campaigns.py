"""Campaigns on disk for the tests of pages: ledgers of made histories, some full of text that wants to be a script."""

from pathlib import Path

from ridgeline.agent.campaign.approvals import ApprovalFiles
from ridgeline.graph.approval import ApprovalRequest, Section
from ridgeline.graph.record import Reflection
from ridgeline.graph.standing import History
from ridgeline.graph.trial import Traced
from ridgeline.sandbox.store.campaign_folder import ArtifactStore
from ridgeline.sandbox.store.ledger import FIRST, _canonical, seal_line
from tests.builders import (
    make_applied,
    make_baseline,
    make_built,
    make_drafted,
    make_hypothesis,
    make_judged,
    make_opened,
    make_proposed,
    make_round,
    make_scaled,
    make_target,
    make_timed,
    make_verified,
)
from tests.document_builders import make_roofline

SCRIPT = "<script>alert(1)</script>"
IMAGE = '"><img src=x onerror=alert(2)>'
HOSTILE = f"{SCRIPT}{IMAGE}</title></style></textarea></pre><a href='javascript:alert(3)' onclick=alert(4)>x</a>"
KERNEL = "kernel.c"


def write_ledger(folder: Path, history: History) -> Path:
    """The folder of a campaign with that history; returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    prev, lines = FIRST, []
    middle = (history.roofline, history.baseline, *history.calibrations, *history.rounds, history.concluded)
    for seq, body in enumerate(body for body in (history.opened, *middle) if body is not None):
        line = seal_line(body, seq=seq, prev=prev)
        prev = line.sha256
        lines.append(_canonical(line.model_dump(mode="json")) + b"\n")
    (folder / "ledger.jsonl").write_bytes(b"".join(lines))
    return folder


def hostile_campaign(folder: Path, text: str = HOSTILE) -> Path:
    """Every text that a model, a kernel or a person may write is `text`."""
    folder.mkdir(parents=True, exist_ok=True)
    artifacts = ArtifactStore(folder)
    diff = artifacts.put("candidate.diff", f"+++ b/{KERNEL}\n+{text}\n-\u202e{text}\n".encode())
    hypothesis = make_hypothesis(
        claim=text, change=text, lever=text, evidence=(text,), risks=text, verification=text, target_class=text
    )
    drafted = make_drafted(make_proposed(2, hypothesis), explanation=text)
    applied = make_applied(drafted, diff=diff, commit="02" * 20)
    timed = make_timed(make_scaled(1.1, commit="02" * 20), verified=make_verified(make_built(applied)))
    judged = make_judged(
        gain=0.1, lower=0.05, upper=0.2, sentence=text, notes=(text,), trial=Traced(timed=timed, profile=None)
    )
    reflection = Reflection(attribution=text, root_cause=text, next_direction=text, lesson=text)
    target = make_target(campaign=text, target_op=text, target_backend=text)
    history = History(
        opened=make_opened(target=target, repository=text, confirmation=text, tips=text),
        roofline=make_roofline().model_copy(update={"note": text}),
        baseline=make_baseline(),
        rounds=(make_round(2, judged=judged, reflection=reflection),),
    )
    write_ledger(folder, history)
    return folder


def ask(folder: Path, text: str = "faster by 12 %", *, source: str = "int x;\n") -> ApprovalRequest:
    """A change of round 3 that waits for a person."""
    artifacts = ArtifactStore(folder)
    diff = artifacts.put("candidate.diff", f"--- a/{KERNEL}\n+++ b/{KERNEL}\n@@ -1 +1 @@\n-int y;\n+{text}\n".encode())
    request = ApprovalRequest(
        key="round-3-change-0123456789ab",
        gate="change",
        round=3,
        campaign="toy",
        title=text,
        asked_at="2026-11-22T09:00:00+00:00",
        sections=(Section(heading="Measured", text=f"Gain **{text}**\n\n| Shape | Gain |\n|---|---|\n| {text} | 1 |"),),
        diff=diff,
        snapshot=(artifacts.put(KERNEL, source.encode()),),
    )
    assert ApprovalFiles(folder, artifacts).decision(request) is None
    return request
