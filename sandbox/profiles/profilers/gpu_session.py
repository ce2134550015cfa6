"""A version's profile command under GPU profilers: bounded in time together, its evaluation files kept as committed."""

from dataclasses import dataclass

from ridgeline.graph.errors import ProgramMissing
from ridgeline.graph.evidence import Exit
from ridgeline.sandbox.profiles.profilers.cpu import printed
from ridgeline.sandbox.profiles.profilers.gpu import Session
from ridgeline.sandbox.workspace.commands import Commands, said

TOOLS = ("ncu", "rocprofv3")


class Tampered(Exception):
    """A run changed files that no run may change; `paths` are they."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        self.paths = paths
        super().__init__(f"files that no run may change were changed by the profile command: {', '.join(paths)}")


@dataclass(kw_only=True)
class Guarded(Session):
    """A session whose runs are the contract's own commands. `budget_s`: seconds of all of them together."""

    commands: Commands
    commit: str
    budget_s: float
    spent_s: float = 0.0

    def run(self, argv: tuple[str, ...], *, times: float = 1.0) -> Exit | None:
        """As `Session.run`; a run that the budget has no time for did not end in time. Raises `Tampered`."""
        left = self.budget_s - self.spent_s
        if left <= 0:
            self._note(f"the {self.budget_s:g} s for profiling one version (timeouts.profile_s) were used up")
            return Exit(argv=argv, returncode=None, timed_out=True, seconds=0.0, output="not started: no time is left")
        tool = argv[0] in TOOLS
        try:
            ran = self.commands.guarded(
                "" if tool else "profile.command",
                argv,
                commits=(self.commit,),
                cwd=self.cwd,
                timeout_s=min(self.timeout_s * times, left),
                profiler=True,
            )
        except ProgramMissing:
            if not tool:
                raise
            self._note(f"{argv[0]} is not installed")
            return None
        self.spent_s += ran.exit.seconds
        if ran.tampered:
            raise Tampered(ran.tampered)
        return ran.exit

    def own_times(self) -> dict[str, float] | None:
        """`kernel_time_us` and `calls` as the program prints them when nothing watches it; None when it failed."""
        ended = self.run(self.program)
        if ended is None or not ended.ok:
            self._note(f"the profile command failed: {said(ended)}" if ended else "the profile command did not run")
            return None
        return dict(printed(ended.output))

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)
