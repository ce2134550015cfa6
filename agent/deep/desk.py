"""The work tree of a deep round and its tools: every call a step with a commit, an outcome in words and its cost.

The tree is a set of edits of the best version. What runs is the commit that holds them, by the ports that every round
uses: the same isolation, the same tape. Nothing that a tool says here is evidence for the verdict.
"""

import math
from collections.abc import Callable, Mapping
from pathlib import Path

from ridgeline.graph.deep import DeepSpent, DeepStep, DeepWork, ToolName
from ridgeline.graph.evidence import BenchmarkFailed, BuildResult, Comparison, Profiled, TestResult
from ridgeline.graph.ports import EditRefusal, Ports
from ridgeline.graph.rules.audit import list_refusals
from ridgeline.graph.rules.deep import BUCKET, describe_deep_budget, explain_deep_end, narrow_deep_limits
from ridgeline.graph.rules.history import standing
from ridgeline.graph.standing import History
from ridgeline.graph.values import Cost, FileEdit
from ridgeline.sandbox.isolation import stopping
from ridgeline.sandbox.isolation.stopping import StepEnded
from ridgeline.sandbox.store.durable import write_whole

HINT_PAIRS = 1
"""Process pairs of a timing: enough to see a large gain, far from enough to prove one."""
SHOWN = 6000
"""Characters of a command's output that a tool answers with."""
COUNTERS = 24
"""Counters of a profile that a tool answers with."""
REFUSALS = 6
"""Places that would have the tree refused, as a tool answers with."""
READ_AT = frozenset({"build", "test", "time"})
"""Tools that tell what the audit would refuse of the tree."""
STEPS_FILE = "steps.jsonl"


class DeepEnded(Exception):
    """A budget of the deep round is used up; the text says which."""


class Desk:
    """One deep round's tree. `run` is every tool; `hand_in` ends the round."""

    def __init__(
        self,
        ports: Ports,
        history: History,
        *,
        round: int,
        opened_at: str,
        folder: Path | None = None,
        tokens: Callable[[], int] = lambda: 0,
    ) -> None:
        """The desk of a deep round. `history`: before the round. `folder`: where the steps are shown; `tokens`: of the model so far."""
        self._ports = ports
        self._history = history
        self._best = standing(history)
        self._round = round
        self._opened_at = opened_at
        self._folder = folder
        self._tokens = tokens
        self._original = {edit.path: edit.text for edit in ports.workspace.sources(self._best.commit)}
        self._build_s: dict[str, float] = {}
        """Seconds of each build that a step counts, by commit."""
        self._began_s = ports.clock.worked_s(f"round-{round} deep begins")
        self.limits = narrow_deep_limits(history, opened_at=opened_at, worked_s=self._began_s)
        """With the deep round's budget: its own, or what the campaign has left."""
        self._worked_s = 0.0
        self._pending_s = 0.0
        """Seconds of a build that the next step counts."""
        self.edits: dict[str, str | None] = {}
        """Path -> text, or None for a file that is deleted; only what differs from the best version."""
        self.commit = self._best.commit
        self.steps: list[DeepStep] = []
        self._refusals: dict[str, tuple[str, ...]] = {}
        """Of each tree that was committed: what reading it speaks against, as the round will say it."""

    def text(self, path: str) -> str | None:
        """An editable file of the deep round's tree as it stands; None where there is none."""
        return self.edits[path] if path in self.edits else self._original.get(path)

    def take_up(self, steps: tuple[DeepStep, ...]) -> None:
        """Go on with a deep round after these steps, which an earlier process took; the tree is that of the last."""
        self.steps = list(steps)
        if steps:
            self._read_clock()
        self._set_commit(next((step.commit for step in reversed(steps) if step.commit), self._best.commit))

    def describe_budget(self) -> str:
        """What is left of the deep round's budget, in a line."""
        return describe_deep_budget(self.limits, self._spent())

    def check_budget(self) -> None:
        """Raises DeepEnded where the deep round's budget is used up, and StepEnded where a person or a time limit ends the campaign."""
        stopping.check()
        if why := explain_deep_end(self.limits, self._spent()):
            raise DeepEnded(why)

    # Tools that change the tree.

    def write_file(self, path: str, text: str) -> str:
        """A deep round's tool: write the whole new text of one file."""
        return self._change("write_file", {**self.edits, path: text}, f"{path}: {len(text.splitlines())} lines")

    def edit_file(self, path: str, old: str, new: str) -> str:
        """A deep round's tool: replace a text that stands in the file exactly once."""
        before = self.text(path)
        count = before.count(old) if before is not None and old else 0
        if before is None or count != 1:
            why = "no such editable file" if before is None else f"`old` stands there {count} times, and must once"
            return self._note("edit_file", f"not done: {path}: {why}")
        return self._change("edit_file", {**self.edits, path: before.replace(old, new)}, f"{path}: 1 place changed")

    def delete_file(self, path: str) -> str:
        """A deep round's tool: remove one file."""
        if self.text(path) is None:
            return self._note("delete_file", f"not done: {path}: no such editable file")
        return self._change("delete_file", {**self.edits, path: None}, f"{path}: deleted")

    def go_back(self, step: int) -> str:
        """A deep round's tool: the tree as it was after that step; 0 is the best version."""
        if not 0 <= step <= len(self.steps):
            return self._note("go_back", f"not done: there are steps 0 to {len(self.steps)}")
        self._set_commit(self.steps[step - 1].commit if step else self._best.commit)
        return self._note("go_back", f"the tree is that of step {step}")

    def replace_tree(self, edits: Mapping[str, str | None]) -> str:
        """The tree that lies on a disk, in place of the deep round's; why it may not be, or nothing. No step."""
        return self._commit(edits)

    # Tools that run it.

    def build(self) -> str:
        """A deep round's tool: compile the tree."""
        return self._tell_build(self._build())

    def test(self) -> str:
        """A deep round's tool: compile, then the contract's test."""
        build = self._build()
        if not build.ok:
            return self._tell_build(build, tool="test")
        test = self._ports.checker.check(self.commit, purpose=self._purpose())
        self._require_unstopped(test.kind == "stopped", test.detail)
        outcome = "right" if test.passed else f"not right ({test.kind})"
        return self._note("test", outcome, test.detail, run=test)

    def time(self) -> str:
        """A deep round's tool: compile, then one process pair against the best version: a hint."""
        build = self._build()
        if not build.ok:
            return self._tell_build(build, tool="time")
        run = self._ports.timer.compare(
            best=self._best.commit,
            candidate=self.commit,
            shapes=self._best.all_shapes,
            first_pair=0,
            pairs=HINT_PAIRS,
            blocks=self._history.limits.blocks,
            purpose=self._purpose(),
        )
        if isinstance(run, BenchmarkFailed):
            self._require_unstopped(run.reason == "stopped", run.detail)
            return self._note("time", f"no numbers ({run.reason})", run.detail, run=run)
        outcome, detail = describe_hint(run)
        return self._note("time", outcome, detail, run=run)

    def profile(self) -> str:
        """A deep round's tool: compile, then the counters of the tree."""
        build = self._build()
        if not build.ok:
            return self._tell_build(build, tool="profile")
        run = self._ports.profiler.profile(self.commit, purpose=self._purpose())
        if run is None:
            return self._note("profile", "no profiler works here")
        lines = [f"{counter.name} = {counter.value:g}" for counter in run.counters[:COUNTERS]]
        return self._note(
            "profile", f"{len(run.counters)} counters by {run.rung}", "\n".join([*lines, *run.notes]), run=run
        )

    def isa(self) -> str:
        """A deep round's tool: compile, then what the compiler made of the tree; nothing of it runs."""
        build = self._build()
        if not build.ok:
            return self._tell_build(build, tool="isa")
        run = self._ports.profiler.inspect(self.commit, purpose=self._purpose())
        if run is None:
            return self._note("isa", "the contract has no profile command, so no kernel is named")
        outcome = f"{len(run.counters)} numbers by {run.rung}" if run.counters else "no compiler's report here"
        lines = [f"{counter.name} = {counter.value:g}" for counter in run.counters[:COUNTERS]]
        return self._note("isa", outcome, "\n".join([*lines, *run.notes]), run=run)

    # The end of the round.

    def hand_in(self, story: str, *, ended: str = "", cost: Cost, prompts: tuple[str, ...] = ()) -> DeepWork:
        """The deep round's tree as one change. Where a budget ended the round it must build; a broken tree is nothing then."""
        refusal = ""
        if not self.edits:
            refusal = ended or "the tree is the best version's: nothing was changed"
        elif ended and not self._is_usable():
            refusal = f"{ended}; what stands does not build"
        return DeepWork(
            edits=() if refusal else self._list_edits(),
            story=story or (f"{len(self.steps)} steps; {ended}" if ended else ""),
            refusal=refusal,
            steps=tuple(self.steps),
            work_s=self._worked_s,
            ended=ended,
            prompts=prompts,
            cost=cost + self._command_cost(),
        )

    def stop(self, why: str, *, cost: Cost, prompts: tuple[str, ...] = ()) -> DeepWork:
        """End the deep round with nothing handed in: a person or the campaign's time limit ended it."""
        return DeepWork(
            edits=(),
            refusal=why,
            stopped=True,
            steps=tuple(self.steps),
            work_s=self._worked_s,
            ended=why,
            prompts=prompts,
            cost=cost + self._command_cost(),
        )

    def _is_usable(self) -> bool:
        """Whether the deep round's tree builds; where the contract's test compiles it, whether it passes that."""
        if not self._ports.builder.build(self.commit).ok:
            return False
        return self._has_build or self._ports.checker.check(self.commit, purpose=self._purpose()).passed

    @property
    def _has_build(self) -> bool:
        """Whether the deep round's contract has a command that builds; else its test and benchmark compile what they run."""
        return self._history.contract.rebuild.required

    def _command_cost(self) -> Cost:
        """Cost of all steps of the deep round; the build of what is handed in is counted where the round builds it."""
        command_s = sum(step.seconds for step in self.steps) - self._build_s.get(self.commit, 0.0)
        device_s = sum(step.device_s for step in self.steps) if self._on_card else 0.0
        return Cost(command_seconds=max(0.0, command_s), gpu_seconds=device_s)

    @property
    def _on_card(self) -> bool:
        return self._history.opened.machine.kind != "cpu"

    def _spent(self) -> DeepSpent:
        return DeepSpent(
            work_s=self._worked_s,
            tokens=self._tokens(),
            device_s=sum(step.device_s for step in self.steps),
            steps=len(self.steps),
        )

    def _purpose(self) -> str:
        """A deep round's step by name for the tape: the same step of the same tree is the same question."""
        return f"round-{self._round} deep step {len(self.steps) + 1}"

    def _list_edits(self) -> tuple[FileEdit, ...]:
        return tuple(FileEdit(path=path, text=text) for path, text in sorted(self.edits.items()))

    def _change(self, tool: ToolName, edits: Mapping[str, str | None], outcome: str) -> str:
        """Commit edits of the deep round's tree; what may not be edited is refused, and the tree stays."""
        refused = self._commit(edits)
        return self._note(tool, f"refused: {refused}" if refused else outcome)

    def _commit(self, edits: Mapping[str, str | None]) -> str:
        """Make these files the deep round's tree, committed beside the accepted line; why they may not be, or nothing."""
        changed = {
            path: text for path, text in edits.items() if path not in self._original or text != self._original[path]
        }
        changed = {path: text for path, text in changed.items() if text is not None or path in self._original}
        if not changed:
            self.edits, self.commit = {}, self._best.commit
            return ""
        files = tuple(FileEdit(path=path, text=text) for path, text in sorted(changed.items()))
        made = self._ports.workspace.apply(round=self._round, parent=self._best.commit, edits=files, at=self._opened_at)
        if isinstance(made, EditRefusal):
            return made.detail
        self.edits, self.commit = changed, made.commit
        refusals = list_refusals(made.audit, BUCKET, self._history.contract)
        self._refusals[made.commit] = tuple(refusal.detail for refusal in refusals)
        return ""

    def _set_commit(self, commit: str) -> None:
        """Make the tree of an earlier step that of the deep round."""
        texts = {edit.path: edit.text for edit in self._ports.workspace.sources(commit)}
        deleted = dict.fromkeys(self._original.keys() - texts.keys())
        self.commit = commit
        self.edits = {path: text for path, text in {**texts, **deleted}.items() if text != self._original.get(path)}

    def _build(self) -> BuildResult:
        result = self._ports.builder.build(self.commit)
        self._require_unstopped(bool(result.stopped), result.stopped)
        self._pending_s = 0.0
        if result.exit is not None and self.commit not in self._build_s:
            self._build_s[self.commit] = self._pending_s = result.exit.seconds
        return result

    def _tell_build(self, result: BuildResult, tool: ToolName = "build") -> str:
        output = result.exit.output if result.exit else ""
        warnings = "\n".join(result.warnings)
        outcome = "builds" if result.ok else "does not build"
        if result.ok and not self._has_build:
            outcome = "nothing to build by itself: `test` compiles it"
        return self._note(tool, outcome, warnings if result.ok else output)

    def _require_unstopped(self, stopped: bool, why: str) -> None:
        """Raises StepEnded where a person or the campaign's time limit ended a command of the deep round."""
        if stopped:
            raise StepEnded(why or "the step was stopped")

    def _read_clock(self) -> None:
        """Seconds of work of a deep round until the last step: the wait for an answer is not in them."""
        now_s = self._ports.clock.worked_s(f"round-{self._round} deep step {len(self.steps)}")
        self._worked_s = max(0.0, now_s - self._began_s)

    def _note(
        self,
        tool: ToolName,
        outcome: str,
        detail: str = "",
        *,
        run: TestResult | Comparison | BenchmarkFailed | Profiled | None = None,
    ) -> str:
        """Keep a deep round's step, and say what came of it and what is left."""
        seconds = run.seconds if run else 0.0
        device_s = 0.0 if run is None or tool == "isa" else run.gpu_s if self._on_card else seconds
        step = DeepStep(
            tool=tool, outcome=outcome, commit=self.commit, seconds=seconds + self._pending_s, device_s=device_s
        )
        self._pending_s = 0.0
        self.steps.append(step)
        self._read_clock()
        number = len(self.steps)
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            lines = "".join(f"{taken.model_dump_json()}\n" for taken in self.steps)
            write_whole(self._folder / STEPS_FILE, lines.encode(), synced=False)
        refusals = self._tell_refusals() if tool in READ_AT else ""
        text = detail if len(detail) <= SHOWN else f"{detail[: SHOWN // 2]}\n[...]\n{detail[-SHOWN // 2 :]}"
        return "\n".join(
            part for part in (f"step {number}, {tool}: {outcome}", text, refusals, self.describe_budget()) if part
        )

    def _tell_refusals(self) -> str:
        """What the round would say of the deep round's tree as it stands, before it is built; nothing where it would go on."""
        refusals = self._refusals.get(self.commit, ())
        more = [f"would be refused: at {len(refusals) - REFUSALS} more places"] if refusals[REFUSALS:] else []
        return "\n".join([*(f"would be refused: {each}" for each in refusals[:REFUSALS]), *more])


def describe_hint(run: Comparison) -> tuple[str, str]:
    """A deep round's timing in a line, and each shape; both say that it is a hint."""
    logs = [sum(map(sum, shape.pairs)) / max(1, sum(map(len, shape.pairs))) for shape in run.shapes]
    mean = math.exp(sum(logs) / len(logs))
    lines = [
        f"{shape.label}: {shape.best_us:.4g} us -> {shape.candidate_us:.4g} us ({math.exp(log):.3f}x)"
        for shape, log in zip(run.shapes, logs, strict=True)
    ]
    return (
        f"HINT: {mean:.3f}x the best version's speed, {HINT_PAIRS} process pair, without an error bound",
        "\n".join([*lines, "a hint, no evidence: the round is decided by its own measurement"]),
    )


def folder_of(campaign: Path, round: int) -> Path:
    """Where the steps of a deep round are shown, and where files lie that hands edit."""
    return campaign / "deep" / f"round-{round}"


def read_steps(folder: Path) -> tuple[DeepStep, ...]:
    """A deep round's steps on a disk, oldest first; none where there is no such file."""
    try:
        lines = (folder / STEPS_FILE).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return ()
    return tuple(DeepStep.model_validate_json(line) for line in lines)
