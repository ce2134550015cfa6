"""Two commits or checkouts of a project with a contract, built and timed as a campaign does."""

import hashlib
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ridgeline.agent.bench.request import BenchSettings, Side
from ridgeline.agent.campaign.wiring import Place, connect, unusable
from ridgeline.agent.console import note
from ridgeline.agent.contract_file import FILE_NAME, LoadedContract, load
from ridgeline.agent.errors import UserError
from ridgeline.graph.evidence import Benchmark, BenchmarkFailed, BuildResult, Comparison
from ridgeline.graph.ports import Ports
from ridgeline.graph.values import Artifact, Engine
from ridgeline.sandbox.devices.gate import any_gate
from ridgeline.sandbox.devices.machine import read_cpu
from ridgeline.sandbox.isolation.directory_pool import discard_tree
from ridgeline.sandbox.store.campaign_folder import ArtifactStore
from ridgeline.sandbox.timing.comparator import Conduct, Metric, Runs, Versus, encode_pairs
from ridgeline.sandbox.timing.interleaving import TimedPair
from ridgeline.sandbox.workspace.commands import BUILD_LINES, in_a_line, pinned_core
from ridgeline.sandbox.workspace.globs import matches
from ridgeline.sandbox.workspace.repository import GatheringRepository, Version
from ridgeline.sandbox.workspace.worktree import GitWorkspace

# What can be timed against each other, pair by pair.

Tell = Callable[[int], None]
"""Called with the number of pairs of identical versions that are done."""


@dataclass(frozen=True, kw_only=True)
class About:
    """Who is compared, in words; nothing decides by it."""

    a: str
    b: str
    engine: Engine
    machine: str
    unit: str
    """`us` for times; empty for numbers in a unit of the command's own."""
    fingerprint: str = ""
    """Of the machine, the same in every container of it; empty where it is not known which device was used."""
    changed: tuple[str, ...] = ()
    """Files of the kernel that differ, from the root of the repository."""
    inverted: bool = False
    """The shapes' numbers stand as their inverse, because higher is better."""
    notes: tuple[str, ...] = field(default=())


class Lab(Protocol):
    """Everything ready to be timed. Raises the errors of its adapters; each is one line for a person."""

    @property
    def about(self) -> About: ...

    def prepare(self, say: Callable[[str], None]) -> None:
        """Get both sides of `bench` ready before the first pair, not counted: build, run once."""
        ...

    def calibrate(self, *, pairs: int, budget_s: float, tell: Tell) -> Comparison | BenchmarkFailed:
        """Time side A of `bench` against itself, two pairs at least and no pair begun after `budget_s` seconds.

        BenchmarkFailed, here and below, only when the machine disturbed too much of it (`unstable`).
        """
        ...

    def pair(self, number: int) -> Comparison | BenchmarkFailed:
        """Time the pair of A and B with this number, from 0."""
        ...

    def raw(self) -> dict[str, object]:
        """Every single timing of `bench` so far, as JSON holds it."""
        ...


Say = Callable[[str], None]
DECIDING = (
    "rebuild",
    "benchmark_command",
    "quick_command",
    "paired_command",
    "benchmark_output",
    "scoring",
    "threads",
    "memory_limit_mb",
    "pass_environment",
    "target_gpu",
)
"""Fields of a contract that change a number: two versions must agree on them."""
SHOWN = 3
"""Files that a note names."""


@dataclass(frozen=True, kw_only=True)
class Pairing:
    """Two versions and the contract that both are built and timed by."""

    versions: tuple[Version, Version]
    loaded: LoadedContract
    notes: tuple[str, ...]


@contextmanager
def gather_sides(
    sides: tuple[Side, Side], here: Path, contract: str = FILE_NAME
) -> Iterator[tuple[Pairing, GatheringRepository, Path]]:
    """Both sides of `bench`, checked out in a folder that is gone afterwards. Raises UserError and the errors of git, one line each."""
    folder = Path(tempfile.mkdtemp(prefix="ridgeline-bench-"))
    try:
        gathering = GatheringRepository(folder / "versions")
        a, b = (_version(side, gathering, here) for side in sides)
        if a.folder != b.folder:
            raise UserError(
                f"A is the folder {a.folder} of its repository and B is {b.folder}; give the same folder of two"
                " checkouts or commits, or compare two commands"
            )
        loaded = _contract(gathering, a, b, contract)
        yield Pairing(versions=(a, b), loaded=loaded, notes=_notes(gathering, a, b, loaded)), gathering, folder
    finally:
        discard_tree(folder)


class VersionLab:
    """The contract's own commands, through the same ports as a campaign."""

    def __init__(self, pairing: Pairing, gathering: GatheringRepository, folder: Path, *, blocks: int) -> None:
        self._pairing, self._blocks = pairing, blocks
        self._a, self._b = (version.commit for version in pairing.versions)
        self._campaign = folder / "campaign"
        gathering.check_out(pairing.versions[0])
        place = Place(repository=gathering.root, contract_dir=pairing.versions[0].folder, campaign_dir=self._campaign)
        self._ports: Ports = connect(place, pairing.loaded.contract, "catalog")
        workspace = self._ports.workspace
        workspace.open("none")
        assert isinstance(workspace, GitWorkspace)
        gathering.lend(pairing.versions[1], workspace.repository())
        self._changed = _list_kernel_files(pairing, gathering)
        self._shapes: tuple[str, ...] = ()
        self._artifacts: dict[str, list[Artifact]] = {"calibration": [], "pairs": []}

    def prepare(self, say: Say) -> None:
        """Build both commits, run the benchmark of each once: what does not build or fails a Check has no speed."""
        labels: dict[str, tuple[str, ...]] = {}
        for name, commit in (("A", self._a), ("B", self._b)):
            say(f"building {name}")
            built = self._ports.builder.build(commit)
            if not built.ok:
                raise UserError(f"{name}: does not build: {_end(built)}")
            say(f"benchmarking {name}")
            labels[name] = self._check_version(name, commit)
        if sorted(labels["A"]) != sorted(labels["B"]):
            raise UserError(
                f"A reports the shapes {', '.join(labels['A'])} and B {', '.join(labels['B'])}; they must be the same"
            )
        self._shapes = labels["A"]

    @property
    def about(self) -> About:
        a, b = self._pairing.versions
        machine = self._ports.device.machine()
        return About(
            a=a.described,
            b=b.described,
            engine=self._pairing.loaded.contract.scoring.engine,
            machine=machine.name,
            fingerprint=machine.fingerprint,
            changed=self._changed,
            unit="us",
            notes=self._pairing.notes,
        )

    def calibrate(self, *, pairs: int, budget_s: float, tell: Tell) -> Comparison | BenchmarkFailed:
        timing = self._ports.timer.calibrate(
            self._a,
            shapes=self._shapes,
            pairs=pairs,
            blocks=self._blocks,
            budget_s=budget_s,
            fresh=False,
            purpose="bench-calibration",
        )
        return self._usable(timing, "calibration")

    def pair(self, number: int) -> Comparison | BenchmarkFailed:
        timing = self._ports.timer.compare(
            best=self._a,
            candidate=self._b,
            shapes=self._shapes,
            first_pair=number,
            pairs=1,
            blocks=self._blocks,
            purpose=f"bench-{number}",
        )
        return self._usable(timing, "pairs")

    def raw(self) -> dict[str, object]:
        store = ArtifactStore(self._campaign)
        return {
            name: [pair for artifact in artifacts for pair in json.loads(store.get(artifact))]
            for name, artifacts in self._artifacts.items()
        }

    def _usable(self, timing: Comparison | BenchmarkFailed, kind: str) -> Comparison | BenchmarkFailed:
        if isinstance(timing, BenchmarkFailed):
            if timing.reason == "unstable":
                return timing
            raise unusable(self._pairing.loaded, timing)
        self._artifacts[kind].append(timing.raw)
        return timing

    def _check_version(self, name: str, commit: str) -> tuple[str, ...]:
        run = self._ports.timer.benchmark(
            commit, level="full", source="project", shapes=(), repeat=0, purpose=f"bench-{name}"
        )
        if not isinstance(run, Benchmark):
            raise UserError(f"{name}: {unusable(self._pairing.loaded, run)}")
        if wrong := [row.label for row in run.rows if row.check != "PASS"]:
            raise UserError(f"{name}: Check is not PASS for {', '.join(wrong)}; what is wrong has no speed")
        return tuple(row.label for row in run.rows)


def _version(side: Side, gathering: GatheringRepository, here: Path) -> Version:
    return gathering.commit(side.text, here) if side.kind == "commit" else gathering.working(here / side.text)


def _contract(gathering: GatheringRepository, a: Version, b: Version, file: str) -> LoadedContract:
    """The contract that `bench` compares two versions by: A's; B's where A has none. Both must agree on what changes a number."""
    by_side = {name: load_side_contract(gathering, name, version, file) for name, version in (("B", b), ("A", a))}
    theirs, ours = by_side["B"], by_side["A"]
    if ours is None and theirs is None:
        raise UserError(f"neither A nor B has a {file} in its folder {a.folder}; commit one, or compare commands")
    if ours is None or theirs is None:
        both = ours or theirs
        assert both is not None
        return both
    engines = ours.contract.scoring.engine, theirs.contract.scoring.engine
    if engines[0] != engines[1]:
        raise UserError(
            f"{file}: scoring.engine: A is timed by {engines[0]} and B by {engines[1]};"
            " numbers of two engines are never compared"
        )
    if unlike := [name for name in DECIDING if getattr(ours.contract, name) != getattr(theirs.contract, name)]:
        raise UserError(
            f"{file}: A and B differ in {', '.join(unlike)}, so their numbers mean different things;"
            " make them the same, or compare two commands"
        )
    return ours


def load_side_contract(gathering: GatheringRepository, name: str, version: Version, file: str) -> LoadedContract | None:
    folder = gathering.check_out(version)
    if not (folder / file).is_file():
        return None
    try:
        return load(folder / file)
    except UserError as error:
        raise UserError(f"{name}: {str(error).splitlines()[0]}") from None


def _notes(gathering: GatheringRepository, a: Version, b: Version, loaded: LoadedContract) -> tuple[str, ...]:
    contract = loaded.contract
    notes = ["the test_command was not run: this is about speed only"]
    if gathering.same(a, b):
        return (*notes, "A and B have the same content")
    changed = gathering.list_changed(a, b)
    if not changed:
        notes.append("A and B differ only outside the contract's folder")
    judged = [path for path in changed if not matches(path, contract.editable_globs) and path != loaded.path.name]
    if judged:
        whose = "A's benchmark times both" if contract.paired_command else "each is timed by its own benchmark"
        more = f" and {len(judged) - SHOWN} more" if len(judged) > SHOWN else ""
        notes.append(f"files other than the kernel's differ ({', '.join(judged[:SHOWN])}{more}); {whose}")
    return tuple(notes)


def _list_kernel_files(pairing: Pairing, gathering: GatheringRepository) -> tuple[str, ...]:
    """Editable files in which the two versions of a comparison differ, from the root of the repository."""
    a, b = pairing.versions
    globs = pairing.loaded.contract.editable_globs
    return tuple((a.folder / path).as_posix() for path in gathering.list_changed(a, b) if matches(path, globs))


def _end(built: BuildResult) -> str:
    return "no build command ran" if built.exit is None else in_a_line(built.exit, last_lines=BUILD_LINES)


# Two command lines of the user's own.

LEAST_PAIRS = 2
"""Of an A/A run: one shows no scatter."""
RETRY_S, MAX_S = 60.0, 3600.0
"""How long to wait for an idle card, with a look so often."""


class CommandLab:
    """Whole processes in turn, here and now."""

    def __init__(self, sides: tuple[Side, Side], metric: Metric, conduct: Conduct, request: BenchSettings) -> None:
        self._sides, self._metric, self._conduct = sides, metric, conduct
        self._runs = Runs(metric, conduct)
        self._versus = Versus(
            sides[0].argv,
            sides[1].argv,
            runs=self._runs,
            blocks=request.blocks,
            seed=request.seed,
            limit=request.limits.dropped_blocks_limit,
        )
        self._twins: list[TimedPair] = []
        self._pairs: list[TimedPair] = []
        self._notes: tuple[str, ...] = ()
        cpu = read_cpu()
        self._machine = cpu.model
        self._fingerprint = hashlib.sha256(f"{platform.node()} {cpu.model_dump_json()}".encode()).hexdigest()
        self._kind = hashlib.sha256(f"{os.cpu_count()} {cpu.model_dump_json()}".encode()).hexdigest()

    def prepare(self, say: Callable[[str], None]) -> None:
        """Run both commands once, not counted; find out what starting a process costs where that is in the times."""
        say("running A and B once, not counted")
        self._versus.warm_up()
        core = self._conduct.core
        where = f"pinned to core {core}" if core is not None else "not pinned to a core; --threads 1 does that"
        if self._metric.reader is None:
            empty = 1000 * self._runs.empty_s()
            kind = "processor times (user and system)" if self._metric.of_processor else "times"
            self._notes = (f"{kind} are of whole processes, {where}; {empty:.1f} ms of each is its start",)
        else:
            origin = f"the numbers are the commands' own, taken to be by engine {self._runs.engine}"
            self._notes = (f"{origin}; the processes are {where}",)

    @property
    def about(self) -> About:
        a, b = self._sides
        return About(
            a=a.text,
            b=b.text,
            engine=self._runs.engine,
            machine=self._machine,
            fingerprint="" if self._conduct.gate else self._kind,
            unit="" if self._metric.reader else "us",
            inverted=self._metric.higher_is_better,
            notes=(*self._notes, *self._share_of_wall_time()),
        )

    def _share_of_wall_time(self) -> tuple[str, ...]:
        """How much of two commands' wall time was processor time, a line for both: what is beside it was not compared."""
        if not (self._metric.of_processor and self._pairs):
            return ()
        shares: dict[str, list[float]] = {"best": [], "candidate": []}
        for timed in self._pairs:
            for slot in timed.pair.slots:
                if slot.time_us is not None:
                    shares[slot.side].append(slot.time_us / (1e6 * timed.processes[slot.process].seconds))
        a, b = (100 * statistics.median(shares[side]) for side in ("best", "candidate"))
        return (f"processor time was {a:.0f} % of the wall time of A and {b:.0f} % of that of B",)

    def calibrate(self, *, pairs: int, budget_s: float, tell: Tell) -> Comparison | BenchmarkFailed:
        until = time.monotonic() + budget_s
        for number in range(pairs):
            if number >= LEAST_PAIRS and time.monotonic() >= until:
                break
            self._twins.append(self._versus.pair(number, twins=True))
            tell(number + 1)
        return self._versus.compare(self._twins, machine=self._fingerprint, twins=True)

    def pair(self, number: int) -> Comparison | BenchmarkFailed:
        self._pairs.append(self._versus.pair(number))
        return self._versus.compare(self._pairs[-1:], machine=self._fingerprint)

    def raw(self) -> dict[str, object]:
        return {"calibration": json.loads(encode_pairs(self._twins)), "pairs": json.loads(encode_pairs(self._pairs))}


def conduct(*, threads: int | None, timeout_s: float, gpu: bool = False) -> Conduct:
    """How `bench` runs two commands: in the current folder, on one core where they have one thread.

    `gpu`: every block of runs has an idle card to itself. Raises DeviceLost where none can be asked for.
    """
    gate = any_gate(retry_s=RETRY_S, max_s=MAX_S, say=note) if gpu else None
    return Conduct(cwd=Path.cwd(), timeout_s=timeout_s, core=pinned_core() if threads == 1 else None, gate=gate)
