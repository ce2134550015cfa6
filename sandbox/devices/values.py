"""What a vendor's tool says of a card at one moment, and what was decided of it. None is always `not told`."""

import hashlib
import json
import re
from typing import Literal

from pydantic import Field

from ridgeline.graph.contract import Backend, Contract
from ridgeline.graph.errors import WorldError
from ridgeline.graph.evidence import Machine
from ridgeline.graph.values import Named, Value

Vendor = Literal["nvidia", "amd"]
State = Literal["idle", "busy", "unknown"]
MIB = 1024 * 1024


class Unreadable(WorldError):
    """Text that is no whole answer of a known tool. `line` counts from 1; the message names file, line and mend."""

    exit_code = 2

    def __init__(self, source: str, *, line: int, why: str) -> None:
        self.source = source
        self.line = line
        self.why = why
        super().__init__(f"{source}: line {line}: {why}; record the tool's whole output again")


class GpuProcess(Value):
    """A process that a tool lists as a user of a card."""

    pid: int | None
    name: str
    """Empty where the tool may not tell it."""
    bytes: int | None
    """Memory of the card that it holds."""
    cards: int | None = None
    """On how many cards it is, where the tool says that instead of on which (rocm-smi)."""
    certain: bool = True
    """Whether the tool says that it is on this card. rocm-smi does not, where there are several."""

    @property
    def text(self) -> str:
        """A process on a card: name and number, as a person would look for it."""
        return f"{self.name or 'a process without a name'} (pid {'?' if self.pid is None else self.pid})"


class CardSample(Value):
    """One card at one moment; percent are 0 to 100, memory is bytes, power watts, clocks MHz."""

    vendor: Vendor
    tool: str = ""
    """Who said so."""
    index: str | None = None
    """As the tool counts its cards, which need not be how a program counts them."""
    uuid: str | None = None
    """nvidia-smi's UUID, or AMD's unique id as ROCr spells it (`GPU-719d230578348e8c`)."""
    pci: str | None = None
    """domain:bus:device.function in lower case."""
    name: str | None = None
    arch: str | None = None
    utilization_pct: float | None = None
    memory_activity_pct: float | None = None
    """Share of time in which the memory controller was busy: 0 also while a kernel only computes."""
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    memory_share_pct: float | None = None
    """Used memory where the tool rounds it to whole per cents and says no bytes."""
    power_w: float | None = None
    power_limit_w: float | None = None
    clock_mhz: float | None = None
    processes: tuple[GpuProcess, ...] | None = None
    partition: str | None = None
    """AMD's compute partition, `SPX` for a whole card."""
    mig: bool | None = None
    compute_mode: str | None = None

    @property
    def key(self) -> str:
        """One name per physical card for its lease: its PCI address, else its UUID, else its number."""
        return f"gpu-{self.pci or self.uuid or f'{self.vendor}-{self.index}'}"


class ListedProcess(Value):
    """A process of a list, and the card it is on as the tool named that; None where it names none."""

    owner: str | None
    process: GpuProcess


class ToolAnswer(Value):
    """One answer of one tool at one moment; usually it tells only some things of every card."""

    source: str
    vendor: Vendor
    cards: tuple[CardSample, ...] = ()
    processes: tuple[ListedProcess, ...] | None = None
    """The whole list, empty when the tool says that there are none."""


class CardState(Value):
    """What was decided of one card. Unknown is treated as busy."""

    state: State
    reasons: tuple[str, ...]


class CardVerdict(Value):
    """A card as it was last seen, and what was decided of it."""

    card: CardSample
    state: State
    reasons: tuple[str, ...]


class Floor(Value):
    """The least that was ever seen of a card while it was idle."""

    memory_bytes: int | None = None
    power_w: float | None = None


class GateSettings(Value):
    """Thresholds of the gate."""

    samples: int = Field(default=5, ge=1, le=1000)
    interval_s: float = Field(default=1.0, ge=0)
    """Between two samples."""
    repeat_samples: int = Field(default=2, ge=1)
    """Idle looks in a row that are wanted under the lease; a card that we used a moment ago needs no others."""
    repeat_interval_s: float = Field(default=0.25, ge=0.01)
    recent_s: float = 120.0
    """For so long after our own command those looks are enough."""
    settle_s: float = Field(default=5.0, ge=0)
    """For so long they are looked for: utilization lags behind a command that ended."""
    process_bytes: int = 64 * MIB
    """A process that holds no more than this does not compute: monitors hold none."""
    memory_baseline_bytes: int = 1024 * MIB
    """Used memory of an idle card, before a smaller number was seen of it."""
    memory_slack_bytes: int = 512 * MIB
    """Used memory may exceed the smallest seen of the idle card by this much."""
    utilization_pct: float = 5.0
    """Above this utilization a card is not idle."""
    power_factor: float = 1.25
    """Of idle power: above it, a utilization that stands at 100 is believed."""
    idle_power_share: float = 0.12
    """Idle power as a share of the limit where none was seen: 10 % on H100 and R9700, 16 to 21 % on Instinct cards."""
    power_doubt_share: float = 0.5
    """Above this share of its power limit a card is not idle, whatever its utilization says."""
    memory_motion: float = 0.01
    """Of the whole memory: more movement between samples means that somebody allocates."""
    partition: str = "SPX"
    """The compute partition that the run expects."""
    mig: bool = False
    """Whether the run expects a card that is divided by MIG."""
    allowed: tuple[str, ...] = ("gpuagent", "rdcd", "nv-hostengine", "dcgm-exporter", "nvidia-persistenced")
    """Daemons that watch cards and do not compute."""


# One small record per timed process: what else used the machine. None is always `not told here`, never `nothing`.


class Load(Value):
    """Use of the timed core (all usable cores where the process was not pinned) over one stretch of time.

    Source: /proc/stat. The kernel counts in steps of 10 ms, so a short stretch is coarse, and a difference of two
    counts may come out a step below zero; sums over several stretches stay right.
    """

    began_us: float
    """On the monotonic clock, which every process of a machine shares."""
    seconds: float
    foreign_s: float | None
    """Core seconds taken by processes that were not started here; interrupts are among them."""
    steal_s: float | None
    """Core seconds that the hypervisor gave to other guests."""
    sibling_s: float | None
    """Core seconds in which the other hardware threads of the core were busy; None where there are none."""

    @property
    def ended_us(self) -> float:
        return self.began_us + 1e6 * self.seconds


class Reading(Value):
    """What a card said of itself at one moment."""

    at_us: float | None
    """On the monotonic clock; None where the tool gives no time."""
    sm_mhz: float | None = None
    memory_mhz: float | None = None
    celsius: float | None = None
    watts: float | None = None
    slowdowns: tuple[str, ...] | None = None
    """Why its clock was below what was asked for, in our words: `SLOWDOWNS` of the vendor's module."""
    idle: bool | None = None
    counts: tuple[Named, ...] = ()
    """Counters that only rise while a slowdown is active; their unit is the vendor's."""


class Card(Value):
    """The GPU of one timed process."""

    tool: str
    index: str
    """As the tool counts or names its cards."""
    before: Reading | None
    during: tuple[Reading, ...]
    after: Reading | None
    foreign: tuple[str, ...] | None
    """Processes of others that computed on it before or after; None where that cannot be seen."""


class Conditions(Value):
    """What the machine did while one process was timed."""

    core: int | None
    """None: not pinned, so all usable cores."""
    load: Load
    """Over the whole process."""
    slices: tuple[Load, ...] = ()
    """The same in short stretches, so that a block is held to what happened during it."""
    mhz: tuple[float | None, float | None] = (None, None)
    """Clock of the core before and after. A virtual machine may tell a nominal number."""
    switches: int | None = None
    """How often the process and its children had to leave the core against their will."""
    card: Card | None = None
    notes: tuple[str, ...] = ()
    """What could not be seen here."""


# Which kind of device a contract's kernel runs on.

Kind = Literal["cpu", "nvidia", "amd"]

OF_BACKEND: dict[Backend, Kind] = {
    "C": "cpu",
    "PYTHON": "cpu",
    "CUDA": "nvidia",
    "CUTEDSL": "nvidia",
    "TRITON": "nvidia",
    "CK": "amd",
    "HIPBLASLT": "amd",
    "TURBO": "amd",
    "FLYDSL": "amd",
    "HIP": "amd",
}
"""Where the contract names no device. Triton runs on both; the vendor it was made for first is tried."""
AMD = re.compile(r"^(gfx|mi\d|radeon|amd|instinct)", re.IGNORECASE)


def device_kind(contract: Contract) -> Kind:
    """From `target_gpu` (a product, an architecture or `cpu`), else from the backend."""
    target = contract.target_gpu
    if target is None:
        return OF_BACKEND[contract.target_backend]
    if target.lower() == "cpu":
        return "cpu"
    return "amd" if AMD.match(target) else "nvidia"


def gpu_machine(kind: str, *, name: str, arch: str, driver: str, rest: tuple[str, ...] = ()) -> Machine:
    """One name per kind of card and driver: `rest` is what else tells machines apart."""
    digest = hashlib.sha256(json.dumps([kind, name, arch, driver, *rest]).encode()).hexdigest()
    return Machine(
        kind="nvidia" if kind == "nvidia" else "amd",
        name=name,
        arch=arch,
        fingerprint=digest,
        compiler=f"driver {driver}" if driver else "",
    )
