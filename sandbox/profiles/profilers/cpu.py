"""Profiles a version on the processor: hardware counters, else simulated ones, and what the compiler said."""

import math
import re
from typing import Literal

from ridgeline.graph.evidence import Machine, Profiled
from ridgeline.graph.ports import Artifacts, Device
from ridgeline.graph.values import Named
from ridgeline.sandbox.devices.lease import lease
from ridgeline.sandbox.profiles.profilers import remarks, simulator
from ridgeline.sandbox.profiles.profilers.perf import Perf
from ridgeline.sandbox.profiles.profilers.seen import Seen, Tree, Unavailable
from ridgeline.sandbox.workspace.builder import BuildBroken, ContractBuilder
from ridgeline.sandbox.workspace.commands import Commands, said

TIMEOUT_S = 60
Rung = Literal["perf", "cachegrind", "compiler_report", "timing_only"]
PRINTED = re.compile(r"^\s*(kernel_time_us|calls)=([0-9.eE+-]+)\s*$", re.MULTILINE)


class CpuProfiler:
    """`ports.Profiler` for C kernels: `perf stat`, valgrind's simulator, gcc's remarks, and time alone, in this order.

    Counters that a rung cannot see are missing, never zero; `notes` say why every better rung was passed over.
    """

    def __init__(
        self,
        commands: Commands,
        builder: ContractBuilder,
        *,
        artifacts: Artifacts,
        device: Device,
        wait_s: float = 3600,
    ) -> None:
        """`wait_s`: how long to wait for a busy device before `DeviceBusy`, in seconds."""
        self._commands = commands
        self._builder = builder
        self._artifacts = artifacts
        self._device = device
        self._wait_s = wait_s
        self._perf = Perf()

    def profile(self, commit: str, *, purpose: str) -> Profiled | None:
        """Counters of `commit`; None when the contract has no profile command. `purpose` only names the question."""
        profile = self._commands.contract.profile
        if profile is None:
            return None
        machine = self._device.machine()
        nothing = Profiled(commit=commit, machine=machine.fingerprint, rung="timing_only", counters=())
        try:
            path = self._builder.ensure_built(commit)
        except BuildBroken as error:
            return nothing.model_copy(update={"notes": (str(error),)})
        tree = Tree(path=path, argv=profile.command, kernel=profile.kernel, cache_bytes=_last_level(machine))
        native = self._native(commit, tree)
        if isinstance(native, Unavailable):
            return nothing.model_copy(update={"notes": (native.why,)})
        return self._climb(nothing, tree, native)

    def _climb(self, nothing: Profiled, tree: Tree, native: Seen) -> Profiled:
        """The first rung that sees something, with the compiler's counters beside it."""
        passed_over: list[str] = []
        rung, best = self._counted(tree, passed_over)
        said_by_gcc = remarks.look(self._commands, tree.path)
        if isinstance(said_by_gcc, Unavailable):
            passed_over.append(said_by_gcc.why)
            said_by_gcc = Seen(counters=())
        elif best is None:
            rung = "compiler_report"
        best = best or Seen(counters=())
        report = best.report or said_by_gcc.report
        known = {counter.name: counter for counter in (*native.counters, *said_by_gcc.counters, *best.counters)}
        return nothing.model_copy(
            update={
                "rung": rung,
                "counters": tuple(known.values()),
                "notes": (*passed_over, *native.notes, *best.notes, *said_by_gcc.notes),
                "report": self._artifacts.put(f"profile-{rung}.txt", report) if report else None,
                "seconds": native.seconds + best.seconds + said_by_gcc.seconds,
            }
        )

    def _counted(self, tree: Tree, passed_over: list[str]) -> tuple[Rung, Seen | None]:
        """Run-time counters from hardware or simulation; why one cannot look is added to `passed_over`."""
        with lease("cpu", wait_s=self._wait_s):
            hardware = self._perf.look(self._commands, tree)
        if isinstance(hardware, Seen):
            return "perf", hardware
        passed_over.append(hardware.why)
        simulated = simulator.look(self._commands, tree)
        if isinstance(simulated, Seen):
            return "cachegrind", simulated
        passed_over.append(simulated.why)
        return "timing_only", None

    def _native(self, commit: str, tree: Tree) -> Seen | Unavailable:
        """One undisturbed run, for the time that the command itself prints; none is ever made up."""
        with self._commands.device(wait_s=self._wait_s):
            ran = self._commands.guarded(
                "profile.command", tree.argv, commits=(commit,), cwd=tree.path, timeout_s=TIMEOUT_S, timed=True
            )
        if ran.tampered:
            return Unavailable(
                why=f"files that no run may change were changed by the profile command: {', '.join(ran.tampered)}"
            )
        if not ran.exit.ok:
            return Unavailable(why=f"the profile command failed: {said(ran.exit)}")
        counters = tuple(Named(name=name, value=value) for name, value in printed(ran.exit.output))
        untimed = all(counter.name != "kernel_time_us" for counter in counters)
        notes = ("the profile command printed no kernel_time_us=<microseconds>, so no kernel time is given",)
        return Seen(counters=counters, notes=notes if untimed else (), seconds=ran.exit.seconds)


def printed(output: str) -> tuple[tuple[str, float], ...]:
    """`kernel_time_us=<x>` and `calls=<n>` as the command printed them; the last of each, positive and finite only."""
    found: dict[str, float] = {}
    for name, text in PRINTED.findall(output):
        try:
            value = float(text)
        except ValueError:
            continue
        if 0 < value < math.inf:
            found[name] = value
    return tuple(found.items())


def _last_level(machine: Machine) -> int | None:
    return machine.l3_bytes or machine.l2_bytes
