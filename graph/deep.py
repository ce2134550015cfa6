"""Deep rounds: a round whose change is made in many steps, in a work tree of its own, with tools.

The node `go_deep` stands where `draft` stands in other rounds. It asks the port `Worker` for the edits of the round, and
what it returns is one change with its own story: applied, audited, built, tested, timed and judged as any other. What
happens inside is nobody's evidence: a step may leave the tree broken, and a timing taken on the way is a hint.

- **Due** (`graph/rules/deep.py`): as the start (`--deep`), when a person asks (`ridgeline deep ask`), or after a stagnation
  review whose planner says that what is left takes several steps. The ledger says which, and the plan.
- **A step** is one call of a tool. The tree is a set of edits of the best version; each call that needs it commits them
  beside the accepted line (`Workspace.apply`), so that protected files are refused there and then, and the contract's
  commands run on that commit in the same isolation as in every round.
- **Budget**: minutes of work, tokens, seconds on the device, calls. Where one is used up, or the campaign's own, what
  stands is handed in if it builds; else the round ends without a change.
- **Going on after a kill**: a model's answers are on the model tape and the tools' on the tape, so the same steps are taken
  again without asking or running anything. Who edits files of a work tree (a person, a coding agent) finds them as the
  last call left them: `deep/round-N/steps.jsonl` in the campaign's folder has every step with its commit.
"""

from typing import Annotated, Literal

from pydantic import Field

from ridgeline.graph.values import Cost, FileEdit, Value, add_up, is_empty

ToolName = Literal["write_file", "edit_file", "delete_file", "go_back", "build", "test", "time", "profile", "isa"]
"""Tools that change or run the tree; looking at it is no step."""


class DeepStep(Value):
    """One call of a tool that changed or ran the work tree."""

    tool: ToolName
    outcome: str
    """What came of it, in a line."""
    commit: str = ""
    """The tree after it, committed beside the accepted line; empty where it could not be committed."""
    seconds: float = 0.0
    """Of the command that it ran."""
    device_s: float = 0.0
    """Of those, on the device: a card's lease; on a processor all that a timing or a profile took."""


class DeepSpent(Value):
    """What a deep round has used of its budget."""

    work_s: float
    tokens: int
    device_s: float
    steps: int


class DeepRound(Value):
    """What makes a round a deep one, and what was done in it."""

    origin: Literal["start", "person", "planner"]
    """Who wanted it."""
    plan: str
    """What is to be reached, and by which steps, in the words of who wanted it."""
    steps: tuple[DeepStep, ...] = ()
    tokens: int = 0
    """Of the model, for all steps."""
    work_s: float = 0.0
    """Seconds of work from the first step to the last."""
    ended: Annotated[str, Field(exclude_if=is_empty)] = ""
    """Why it ended before the worker said that it is done; empty where the worker did."""

    @property
    def device_s(self) -> float:
        """Seconds on the device, of all steps of a deep round."""
        return add_up(step.device_s for step in self.steps)


class DeepWork(Value):
    """What a worker hands in: the edits of the whole round against the best version, or why there are none."""

    edits: tuple[FileEdit, ...]
    story: str = ""
    """Why it is faster, and the way there: goes into the commit's message."""
    refusal: str = ""
    stopped: Annotated[bool, Field(exclude_if=is_empty)] = False
    """Whether a person, or the campaign's time limit, ended it."""
    exhausted: Annotated[str, Field(exclude_if=is_empty)] = ""
    """Why nothing worth a round is left, where the worker says so: the campaign ends."""
    steps: tuple[DeepStep, ...] = ()
    work_s: float = 0.0
    ended: str = ""
    """As in `DeepRound`."""
    prompts: tuple[str, ...] = ()
    cost: Cost = Cost()
