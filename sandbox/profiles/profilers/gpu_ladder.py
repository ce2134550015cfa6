"""Profiles a version on a GPU: counters, a trace, the program's own time, torch's profiler, the compiler's report.

Every number says on which rung it stands, and notes say why better rungs were passed over. Nothing of it is a time that
decides acceptance, but the times of undisturbed launches: what was timed while counters were read is not told.
"""

import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from ridgeline.graph.evidence import Machine, Origin, Profiled
from ridgeline.graph.kernel_profile import KernelProfile, Recording, Rung, Vendor
from ridgeline.graph.ports import Artifacts, Device
from ridgeline.graph.values import Artifact, Named, Value
from ridgeline.sandbox.isolation.environment import passed
from ridgeline.sandbox.profiles.isa.values import Report
from ridgeline.sandbox.profiles.profilers import gpu_compiled
from ridgeline.sandbox.profiles.profilers.gpu import instruments
from ridgeline.sandbox.profiles.profilers.gpu_numbers import Counted, completed, counted
from ridgeline.sandbox.profiles.profilers.gpu_session import Guarded, Tampered
from ridgeline.sandbox.profiles.profilers.kept import NAME, archived
from ridgeline.sandbox.profiles.readers.detect import read
from ridgeline.sandbox.profiles.readers.fault import RecordingError
from ridgeline.sandbox.profiles.readers.own_name import own_name
from ridgeline.sandbox.profiles.readers.profiles import profile as merged
from ridgeline.sandbox.workspace.builder import BuildBroken, ContractBuilder
from ridgeline.sandbox.workspace.commands import Commands

NOTE = 300
"""Characters of one note."""
SPOTS = 3
NATIVE = re.compile(
    r"SQ_(WAIT_\w+|LDS_BANK_CONFLICT|INSTS_\w+|VALU_MFMA_BUSY_CYCLES)|TCC_(HIT|MISS)_sum|MfmaUtil|OccupancyPercent"
    r"|smsp__average_warps_issue_stalled_(long_scoreboard|barrier|lg_throttle|mio_throttle)_per_issue_active\.ratio"
    r"|launch__(registers_per_thread|waves_per_multiprocessor)|lts__t_sectors_op_read\.sum|lts__t_sector_hit_rate\.pct"
    r"|l1tex__data_bank_conflicts_pipe_lsu_mem_shared\.sum|dram__bytes_(read|write)\.sum"
    r"|sm__pipe_tensor_cycles_active\.avg\.pct_of_peak_sustained_active"
)
"""What predictions name in a tool's own words; all else is in the report."""
TORCH_RUNG = "torch_profiler"
WARNINGS = 6
NAMES = 4
UNTIMED = "no kernel time: the profile command printed no kernel_time_us=<microseconds>, and no trace was recorded"


class Recorded(Value):
    """What the card told."""

    kernel: KernelProfile | None = None
    own: tuple[Named, ...] = ()
    """The program's own words about its time."""
    native: tuple[Named, ...] = ()
    """Counters under the names of the tool, per call."""
    notes: tuple[str, ...] = ()
    seconds: float = 0.0


class Document(Value):
    """The report that goes with the counters: everything that was seen, whole."""

    commit: str
    kernel: KernelProfile | None
    compiler: Report | None
    notes: tuple[str, ...]


class GpuProfiler:
    """`ports.Profiler` for kernels on an accelerator. Counters that no rung can see are missing, never zero."""

    def __init__(
        self,
        commands: Commands,
        builder: ContractBuilder,
        *,
        artifacts: Artifacts,
        device: Device,
        wait_s: float = 3600,
    ) -> None:
        """`wait_s`: for the device where no gate guards it; a gate has its own patience. In seconds."""
        self._commands = commands
        self._builder = builder
        self._artifacts = artifacts
        self._device = device
        self._wait_s = wait_s

    def profile(self, commit: str, *, purpose: str) -> Profiled | None:
        """Counters of `commit`; None when the contract has no profile command. `purpose` only names the question.

        Raises DeviceBusy and DeviceLost, and ProgramMissing where the profile command itself cannot be started.
        """
        if self._commands.contract.profile is None:
            return None
        machine = self._device.machine()
        nothing = Profiled(commit=commit, machine=machine.fingerprint, rung="timing_only", counters=())
        try:
            tree = self._builder.ensure_built(commit)
            recorded = self._recorded(commit, tree, machine)
        except (BuildBroken, Tampered) as error:
            return nothing.model_copy(update={"notes": (str(error),)})
        compiled = gpu_compiled.look(self._commands.contract, tree, machine)
        seen = recorded.model_copy(
            update={
                "notes": (*recorded.notes, *compiled.why),
                "seconds": recorded.seconds + compiled.seconds,
                "kernel": completed(recorded.kernel, compiled.report) if recorded.kernel else None,
            }
        )
        return self._told(nothing, seen, compiled.report)

    def _told(self, nothing: Profiled, seen: Recorded, report: Report | None) -> Profiled:
        rung = _rung(seen.kernel, report)
        own = _as_told(seen.own, rung="events", source="printed by the profile command")
        found = (
            *(own if rung == TORCH_RUNG else ()),  # taken while nothing watched, and so before torch's
            *counted(seen.kernel, report),
            *own,
            *_as_told(seen.native, rung="counters", source=f"{rung}, per call"),
        )
        unique = {item.counter.name: item for item in found[::-1]}  # the first of a name stands
        told = [unique[name] for name in dict.fromkeys(item.counter.name for item in found)]
        if all(item.counter.name != "kernel_time_us" for item in told):
            seen = seen.model_copy(update={"notes": (*seen.notes, UNTIMED)})
        notes = tuple(dict.fromkeys(note[:NOTE] for note in (*seen.notes, *_highlights(seen.kernel, report))))
        return nothing.model_copy(
            update={
                "rung": rung,
                "counters": tuple(item.counter for item in told),
                "origins": tuple(item.origin for item in told),
                "kernel": _light(seen.kernel),
                "notes": notes,
                "report": self._kept(nothing.commit, seen, report),
                "seconds": seen.seconds,
            }
        )

    def _kept(self, commit: str, seen: Recorded, report: Report | None) -> Artifact | None:
        if seen.kernel is None and report is None:
            return None
        whole = Document(commit=commit, kernel=seen.kernel, compiler=report, notes=seen.notes)
        return self._artifacts.put("profile.json", whole.model_dump_json(indent=1).encode())

    def _recorded(self, commit: str, tree: Path, machine: Machine) -> Recorded:
        """Everything that needs the card, in one go under the gate. Raises `Tampered`."""
        contract = self._commands.contract
        assert contract.profile is not None
        assert machine.kind != "cpu"
        kernel, peak = contract.profile.kernel, self._peak(machine)
        with tempfile.TemporaryDirectory(prefix="ridgeline-") as folder:
            session = Guarded(
                program=contract.profile.command,
                cwd=tree,
                out=Path(folder),
                env=passed(contract.pass_environment),
                timeout_s=contract.timeouts.benchmark_s,
                kernel=re.escape(kernel) if kernel is not None else None,
                arch=machine.arch or None,
                commands=self._commands,
                commit=commit,
                budget_s=contract.timeouts.profile_s,
            )
            with self._commands.device(wait_s=self._wait_s):
                own = (
                    session.own_times()
                )  # first: a program that fails has nothing to record, one that hangs costs less
                if own is not None:
                    instruments(session, machine.kind)
            found = self._recording(_read(session, machine.kind, peak), session)
            return found.model_copy(update={"own": _named(own or {}), "seconds": session.spent_s})

    def _recording(self, found: Recorded, session: Guarded) -> Recorded:
        """With what the tools wrote put beside the ledger, where it tells of the kernel."""
        if found.kernel is None:
            return found
        data, notes = archived(session.paths, session.out)
        recorded = self._artifacts.put(NAME, data) if data is not None else None
        kernel = found.kernel.model_copy(update={"recorded": recorded})
        return found.model_copy(update={"kernel": kernel, "notes": (*found.notes, *notes)})

    def _peak(self, machine: Machine) -> Named | None:
        """The card's bandwidth as the roofline has it, for tools that count bytes and know no peak."""
        ceilings = self._device.ceilings(self._commands.contract.dtype) if machine.kind == "amd" else None
        if ceilings is None or ceilings.copy_gbps is None:
            return None
        return Named(name=ceilings.copy_source or "copy bandwidth measured here", value=ceilings.copy_gbps)


def _named(told: Mapping[str, float]) -> tuple[Named, ...]:
    return tuple(Named(name=name, value=value) for name, value in told.items())


def _read(session: Guarded, vendor: Vendor, peak: Named | None) -> Recorded:
    """The target kernel over all recordings, and counters of it under the tools' own names."""
    recordings: list[Recording] = []
    for path in session.paths:
        try:
            recordings += read(path)
        except RecordingError as error:
            session.notes.append(str(error))
    if not recordings:
        return Recorded(notes=tuple(session.notes))
    card = Recording(format="card", tool="the card's own tool", vendor=vendor, arch=session.arch)
    devices = {one.device or "" for one in recordings}
    bandwidths = dict.fromkeys(devices, peak) if peak is not None else {}
    found = merged([*recordings, card], target=session.kernel, most=1, bandwidths=bandwidths)
    if not found:
        names = list(dict.fromkeys(kernel.display for one in recordings for kernel in one.kernels))[:NAMES]
        session.notes.append(f"profile.kernel {session.kernel} was not recorded; recorded were {', '.join(names)}")
        return Recorded(notes=tuple(session.notes))
    mine = (
        kernel for one in recordings for kernel in one.kernels if own_name(kernel.name) == own_name(found[0].kernel)
    )
    metrics = {
        metric.name: metric.value for kernel in mine for metric in kernel.metrics if NATIVE.fullmatch(metric.name)
    }
    return Recorded(kernel=found[0], native=_named(metrics), notes=tuple(session.notes))


def _as_told(numbers: Sequence[Named], *, rung: Rung, source: str) -> list[Counted]:
    return [Counted(counter=named, origin=Origin(name=named.name, rung=rung, source=source)) for named in numbers]


def _rung(kernel: KernelProfile | None, report: Report | None) -> str:
    """The best instrument that saw anything."""
    if kernel is not None:
        stands = {said.rung for said in kernel.numbers}
        if TORCH_RUNG in stands and stands.isdisjoint(("counters", "trace")):
            return TORCH_RUNG
        return "ncu" if kernel.vendor == "nvidia" else "rocprofv3"
    return "isa" if report is not None else "timing_only"


def _light(kernel: KernelProfile | None) -> KernelProfile | None:
    """What the ledger keeps of it."""
    if kernel is None:
        return None
    return kernel.model_copy(update={"hotspots": (), "warnings": kernel.warnings[:WARNINGS]})


def _highlights(kernel: KernelProfile | None, report: Report | None) -> list[str]:
    """Remarks worth reading: warnings, the instructions that waves wait at, what the compiler made of the kernel."""
    words: list[str] = []
    if kernel is not None:
        words += kernel.warnings[:WARNINGS]
        words += [
            f"hot: {spot.share:.1%} {spot.stall or 'issue'} at {spot.isa}{f' ({spot.source})' if spot.source else ''}"
            for spot in kernel.hotspots[:SPOTS]
        ]
    if report is not None and report.shape is not None:
        mix = ", ".join(f"{kind.name} {kind.count}" for kind in report.shape.kinds)
        words.append(f"compiled for {report.target.arch}: {report.shape.instructions} instructions: {mix}")
    if report is not None and report.occupancy is not None:
        words.append(f"waves are limited by {report.occupancy.limiter}: {report.occupancy.waves_per_simd:g} per SIMD")
    return words
