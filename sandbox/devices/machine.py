"""What this machine is, and how fast it can possibly be."""

import contextlib
import hashlib
import json
import logging
import os
import platform
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import as_file, files
from pathlib import Path

from ridgeline.graph.contract import Contract
from ridgeline.graph.errors import DeviceLost, ProgramMissing
from ridgeline.graph.evidence import Ceilings, Machine, SizedCopy
from ridgeline.graph.values import Value
from ridgeline.sandbox.devices import amd, nvidia
from ridgeline.sandbox.devices.ceilings import GpuCeilings, interpreter_of
from ridgeline.sandbox.devices.gate import CardGate, card_for
from ridgeline.sandbox.devices.lease import lease
from ridgeline.sandbox.devices.values import device_kind
from ridgeline.sandbox.isolation.process import run
from ridgeline.sandbox.store.durable import cache_folder
from ridgeline.sandbox.workspace.commands import pinned_core, summarize_exit

# The processor as the kernel describes it: pure parsing, and one reader of /proc and /sys.

VECTOR = re.compile(
    r"^(sse.*|ssse3|avx.*|fma4?|f16c|bmi[12]|popcnt|abm|vaes|vpclmulqdq|gfni|amx.*|neon|asimd.*|sve.*|fp16|fphp|i8mm|bf16)$"
)
"""Instruction sets a kernel can use. Other flags change with the operating system and say nothing about speed."""
UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}


class Cpu(Value):
    """Sizes in bytes and per instance, None where the kernel does not say."""

    model: str
    features: tuple[str, ...]
    l1d_bytes: int | None
    l2_bytes: int | None
    l3_bytes: int | None


def read_cpu(proc: Path = Path("/proc/cpuinfo"), caches: Path = Path("/sys/devices/system/cpu/cpu0/cache")) -> Cpu:
    """This machine's processor; where files are missing, only what the interpreter knows of it."""
    text = proc.read_text(errors="replace") if proc.is_file() else ""
    sizes = _caches(caches)
    return Cpu(
        model=_model(text),
        features=features(text),
        l1d_bytes=sizes.get((1, "Data")),
        l2_bytes=sizes.get((2, "Unified")),
        l3_bytes=sizes.get((3, "Unified")),
    )


def features(cpuinfo: str) -> tuple[str, ...]:
    """Sorted instruction sets of this machine's first processor: `flags` on x86, `Features` on Arm."""
    match = re.search(r"^(?:flags|Features)[ \t]*:[ \t]*(.*)$", cpuinfo, re.MULTILINE)
    words = match[1].split() if match else []
    return tuple(sorted({word for word in words if VECTOR.match(word)}))


def size(text: str) -> int:
    """Bytes of a cache size as /sys writes it, such as `32K`. Raises ValueError for anything else."""
    match = re.fullmatch(r"(\d+)([KMG]?)", text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a cache size")
    return int(match[1]) * UNITS[match[2]]


def _model(cpuinfo: str) -> str:
    match = re.search(r"^model name[ \t]*:[ \t]*(.+)$", cpuinfo, re.MULTILINE)
    return match[1].strip() if match else platform.processor() or platform.machine() or "unknown processor"


def _caches(folder: Path) -> dict[tuple[int, str], int]:
    sizes: dict[tuple[int, str], int] = {}
    for index in sorted(folder.glob("index*")):
        parts = {name: index / name for name in ("level", "type", "size")}
        if all(part.is_file() for part in parts.values()):
            text = {name: part.read_text().strip() for name, part in parts.items()}
            sizes[int(text["level"]), text["type"]] = size(text["size"])
    return sizes


logger = logging.getLogger(__name__)

LARGEST_BUFFER = 256 * 1024 * 1024
PAGE = 4096
"""Bytes: buffers of a copy are whole pages."""
"""Bytes; four times a very large L3 would not fit small machines."""
SMALLEST_BUFFER = 64 * 1024 * 1024
FLOAT_NAMES = frozenset({"fp32", "float", "float32", "f32"})
DOUBLE_NAMES = frozenset({"fp64", "double", "float64", "f64"})


VERSIONS = """\
from importlib.metadata import PackageNotFoundError, version
for name in ("torch", "triton"):
    try:
        print(name, version(name))
    except PackageNotFoundError:
        pass
"""
"""Asked of the Python that the kernel runs in; nothing of them is imported."""


class LocalDevice:
    """`ports.Device`: the processor, or the GPU that the contract asks for, of the machine this runs on."""

    def __init__(
        self, contract: Contract, *, wait_s: float = 3600, root: Path = Path("/"), gate: CardGate | None = None
    ) -> None:
        """`wait_s`: how long to wait for a busy device before `DeviceBusy`, in seconds. `root`: contract's folder.

        `gate`: the campaign's own, so that ceilings are those of its card; without it, whichever card is idle.
        """
        self._contract = contract
        self._wait_s = wait_s
        self._root = root
        self._gate = gate
        self._machine: Machine | None = None
        self._ceilings: dict[str, Ceilings] = {}

    def machine(self) -> Machine:
        """Asked once and remembered. Raises `DeviceLost` when the contract wants a GPU that is not here."""
        if self._machine is None:
            match device_kind(self._contract):
                case "cpu":
                    self._machine = _cpu_machine(read_cpu(), _compiler())
                case "nvidia":
                    self._machine = self._name_versions(self._gpu())
                case "amd":
                    card = _require_machine(amd_machine(), self._contract, "rocm-smi")
                    self._machine = self._name_versions(card)
        return self._machine

    def _gpu(self) -> Machine:
        machine = nvidia_machine()
        if machine is None and self._contract.target_gpu is None:  # Triton without a named device runs on either vendor
            machine = amd_machine()
        return _require_machine(machine, self._contract, "nvidia-smi")

    def _name_versions(self, card: Machine) -> Machine:
        """The card with torch and Triton of the contract's Python beside its driver, where they are installed."""
        interpreter = interpreter_of(self._contract, self._root)
        try:
            asked = run((*interpreter, "-c", VERSIONS), cwd=Path("/"), timeout_s=TIMEOUT_S) if interpreter else None
        except ProgramMissing:
            asked = None
        versions = asked.output.split("\n") if asked and asked.ok else []
        return card.model_copy(update={"compiler": ", ".join(filter(None, (*versions, card.compiler)))})

    def ceilings(self, dtype: str, *, fresh: bool = False) -> Ceilings | None:
        """Copy bandwidth and compute peak for `dtype`; what cannot be measured is None, and `method` says why.

        A processor's are those of one pinned thread, for fp32 and fp64; under 3 s, measured once by this object. A
        GPU's are those of the target's torch, in 20 s or from this user's cache, which `fresh` leaves aside.
        """
        machine = self.machine()
        if dtype not in self._ceilings or (fresh and self._ceilings[dtype].kept):
            if machine.kind == "cpu":
                self._ceilings[dtype] = self._measure(machine, dtype)
            else:
                folder = cache_folder("ceilings")
                card = GpuCeilings(contract=self._contract, hold_card=self._card, root=self._root, cache=folder)
                self._ceilings[dtype] = card.measure(machine, dtype, fresh=fresh)
        return self._ceilings[dtype]

    def copy_rates(self, traffic: Sequence[int]) -> tuple[SizedCopy, ...] | str:
        """Copies of so many bytes, read plus written, each timed here; or why there are none."""
        if self.machine().kind != "cpu":
            return GpuCeilings(contract=self._contract, hold_card=self._card, root=self._root).copy_rates(traffic)
        copies: list[SizedCopy] = []
        for total in traffic:
            buffer = max(PAGE, total // 2 // PAGE * PAGE)
            try:
                numbers = _run_ceiling(buffer, "float", self._wait_s)
            except ProgramMissing as error:
                return str(error)
            if isinstance(numbers, str):
                return numbers
            copies.append(SizedCopy(traffic_bytes=2 * buffer, gbps=numbers["copy_gbps"]))
        return tuple(copies)

    @contextlib.contextmanager
    def _card(self) -> Iterator[Mapping[str, str]]:
        """An idle card and the environment that binds to it."""
        if self._gate is None:
            with card_for(self._contract, wait_s=self._wait_s, say=logger.warning) as environment:
                yield environment
            return
        with self._gate.hold() as bound:
            yield bound.environment

    def _measure(self, machine: Machine, dtype: str) -> Ceilings:
        buffer = min(LARGEST_BUFFER, max(SMALLEST_BUFFER, 4 * (machine.l3_bytes or 0)))
        ctype = "float" if dtype.lower() in FLOAT_NAMES else "double" if dtype.lower() in DOUBLE_NAMES else None
        nothing = Ceilings(copy_gbps=None, flops_gflops=None, method="", machine=machine.fingerprint)
        try:
            numbers = _run_ceiling(buffer, ctype or "float", self._wait_s)
        except ProgramMissing as error:
            return nothing.model_copy(update={"method": f"not measured: {error}"})
        if isinstance(numbers, str):
            return nothing.model_copy(update={"method": f"not measured: {numbers}"})
        method = (
            f"cpu_ceiling.c, gcc -O3 -march=native, one thread pinned to core {pinned_core()}, best of 12 trials each: "
            f"copy of {buffer >> 20} MiB counting bytes read plus bytes written"
        )
        method += f"; 12 independent {ctype} FMA chains" if ctype else f"; no operation peak is measured for {dtype}"
        flops = numbers["flops_gflops"] if ctype else None
        return Ceilings(copy_gbps=numbers["copy_gbps"], flops_gflops=flops, method=method, machine=machine.fingerprint)


def _run_ceiling(buffer: int, ctype: str, wait_s: float) -> dict[str, float] | str:
    """The processor's two ceilings, or why there are none. Raises `ProgramMissing` without gcc."""
    with tempfile.TemporaryDirectory(prefix="ridgeline-") as name:
        folder = Path(name)
        with as_file(files("ridgeline.sandbox") / "harness" / "cpu_ceiling.c") as source:
            (folder / "cpu_ceiling.c").write_bytes(source.read_bytes())
        flags = ("-O3", "-march=native", "-ffp-contract=fast")
        built = run(("gcc", *flags, "cpu_ceiling.c", "-o", "cpu_ceiling"), cwd=folder, timeout_s=60)
        if not built.ok:
            return summarize_exit(built)
        with lease("cpu", wait_s=wait_s):
            ran = run((str(folder / "cpu_ceiling"), str(buffer), ctype), cwd=folder, timeout_s=60, cpu=pinned_core())
    if not ran.ok:
        return summarize_exit(ran)
    return {key: float(value) for key, value in (word.split("=") for word in ran.output.split())}


def _cpu_machine(cpu: Cpu, compiler: str) -> Machine:
    stable = [cpu.model, os.cpu_count(), cpu.l1d_bytes, cpu.l2_bytes, cpu.l3_bytes, cpu.features, compiler]
    return Machine(
        kind="cpu",
        name=cpu.model,
        arch=platform.machine(),
        fingerprint=hashlib.sha256(json.dumps(stable).encode()).hexdigest(),
        features=cpu.features,
        cores=os.cpu_count() or 1,
        l1d_bytes=cpu.l1d_bytes,
        l2_bytes=cpu.l2_bytes,
        l3_bytes=cpu.l3_bytes,
        compiler=compiler,
    )


def _compiler() -> str:
    """The compiler's own first line, for the ceilings; empty without gcc."""
    try:
        answer = run(("gcc", "--version"), cwd=Path("/"), timeout_s=10)
    except ProgramMissing:
        return ""
    return answer.output.splitlines()[0].strip() if answer.ok and answer.output else ""


def _require_machine(machine: Machine | None, contract: Contract, tool: str) -> Machine:
    if machine is None:
        target = contract.target_gpu or contract.target_backend
        raise DeviceLost(
            f"the contract runs on {target}, and {tool} names no such device here; run `ridgeline doctor`, "
            "or set target_gpu: cpu for a kernel of this machine's processor"
        )
    return machine


# The machine's clock.


# The first GPU of each vendor, as its own tool names it.

TIMEOUT_S = 30


def nvidia_machine() -> Machine | None:
    """This machine's NVIDIA card; None without the tool or without a device that it can name."""
    output = _output(nvidia.MACHINE_QUERY)
    return nvidia.parse_machine(output) if output is not None else None


def amd_machine() -> Machine | None:
    """This machine's AMD card; None without the tool or without a device that it can name."""
    output = _output(amd.MACHINE_QUERY)
    return amd.parse_machine(output) if output is not None else None


def _output(argv: tuple[str, ...]) -> str | None:
    try:
        answer = run(argv, cwd=Path("/"), timeout_s=TIMEOUT_S)
    except ProgramMissing:
        return None
    return answer.output if answer.ok else None
