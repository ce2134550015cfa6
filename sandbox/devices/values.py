"""What a vendor's tool says of a card at one moment, and what was decided of it. None is always `not told`."""

from typing import Literal

from pydantic import Field

from ridgeline.graph.errors import WorldError
from ridgeline.graph.values import Value

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
        """Name and number, as a person would look for it."""
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


class Listed(Value):
    """A process of a list, and the card it is on as the tool named that; None where it names none."""

    owner: str | None
    process: GpuProcess


class Told(Value):
    """One answer of one tool at one moment; usually it tells only some things of every card."""

    source: str
    vendor: Vendor
    cards: tuple[CardSample, ...] = ()
    processes: tuple[Listed, ...] | None = None
    """The whole list, empty when the tool says that there are none."""


class CardState(Value):
    """What was decided of one card. Unknown is treated as busy."""

    state: State
    reasons: tuple[str, ...]


class Judged(Value):
    """A card as it was last seen, and what was decided of it."""

    card: CardSample
    state: State
    reasons: tuple[str, ...]


class Floor(Value):
    """The least that was ever seen of a card while it was idle."""

    memory_bytes: int | None = None
    power_w: float | None = None


class GateSettings(Value):
    """Thresholds of the gate (profilers 9.4 and rules 19.2)."""

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
    utilization_pct: float = 5.0
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
