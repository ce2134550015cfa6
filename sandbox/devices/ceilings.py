"""Ceilings of the GPU a contract runs on: measured by the target's own torch, kept for this card and that torch."""

import contextlib
import hashlib
import json
import logging
import platform
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

from pydantic import ConfigDict, Field, ValidationError

from ridgeline.graph.contract import Contract
from ridgeline.graph.errors import DiskFull, ProgramMissing
from ridgeline.graph.evidence import Ceilings, Exit, Machine, Rate, SizedCopy
from ridgeline.graph.values import SCHEMA, Value
from ridgeline.sandbox.devices.idle import unbound
from ridgeline.sandbox.harness.gpu_ceiling import PATIENCE_S, WAITED
from ridgeline.sandbox.isolation.environment import select_variables
from ridgeline.sandbox.isolation.process import run
from ridgeline.sandbox.store.durable import write_whole

logger = logging.getLogger(__name__)

SCRIPT = "gpu_ceiling.py"
KEPT_S = 7 * 24 * 3600
"""Oldest kept answer in seconds: somebody may change power limits and clocks; a new driver changes the fingerprint."""
MEASURING_S = 15
"""What the script may begin within, in seconds; loading torch comes before it."""
LIMIT_S = 120
"""When it is killed: a first start of torch on a cold disk takes most of a minute."""
ASKING_S = 30
INTERPRETER = re.compile(r"python[\d.]*")
LEADING = 4
"""Words of a command among which its interpreter must be, as in `uv run python3 bench.py`."""
NAMES = {
    **dict.fromkeys(("float32", "float", "f32"), "fp32"),
    **dict.fromkeys(("float16", "half", "f16"), "fp16"),
    **dict.fromkeys(("bfloat16",), "bf16"),
    **dict.fromkeys(("f8", "e4m3", "e5m2", "float8", "fp8_e4m3", "fp8_e5m2", "bf8"), "fp8"),
}
"""Spellings of a contract's dtype and the script's word."""
DTYPES = ("fp32", "tf32", "fp16", "bf16", "fp8", "int8")


class CopyRate(Value):
    mib: int
    gbps: float = Field(gt=0)
    spread: float


class ProductRate(Value):
    tflops: float = Field(gt=0)
    shape: tuple[int, int, int]
    """M, N, K."""
    spread: float


class CeilingResult(Value):
    """What the script prints when it could measure; meanings and units in its own docstring."""

    ok: bool
    torch: str
    device: str
    arch: str
    factor: str
    samples: int
    seconds: float
    copy_gbps: float = Field(gt=0)
    copies: tuple[CopyRate, ...] = Field(alias="copy")
    read_gbps: float | None = None
    write_gbps: float | None = None
    matmul: dict[str, ProductRate]
    skipped: dict[str, str]


class _SizedCopies(Value):
    """What the script prints of copies alone; the rest of its answer is not looked at."""

    model_config = ConfigDict(extra="ignore")
    copies: tuple[SizedCopy, ...] = Field(alias="copy")


class CachedCeilings(Value):
    """One file of the cache."""

    schema_version: int
    at: float
    """Seconds since the epoch when it had been measured."""
    machine: str
    """Fingerprint."""
    found: CeilingResult


Measure = Callable[[Mapping[str, str]], dict[str, object] | str]
"""Of the variables that bind to a card: what the script printed, or why there is none."""
HoldCard = Callable[[], AbstractContextManager[Mapping[str, str]]]


@dataclass(frozen=True, kw_only=True)
class GpuCeilings:
    """Measures on an idle card. What cannot be measured is said in `Ceilings.method`, never guessed."""

    contract: Contract
    hold_card: HoldCard
    """Called for a card to itself; yields the environment that binds a process to it."""
    root: Path = Path("/")
    """The contract's folder: a relative interpreter such as `.venv/bin/python` lies in it."""
    cache: Path | None = None
    """Folder for what was measured; None keeps nothing."""
    now: Callable[[], float] = time.time

    def measure(self, machine: Machine, dtype: str, *, fresh: bool = False) -> Ceilings:
        """Copy bandwidth and the peak of matrix products of `dtype`; `fresh` never answers from the cache.

        Raises what `hold_card` raises: `DeviceBusy`, `DeviceLost`. Whatever else goes wrong is a reason in `method`.
        """
        interpreter = interpreter_of(self.contract, self.root)
        if interpreter is None:
            return _no_ceilings(machine, "no command of the contract begins with a Python whose torch could be asked")
        with tempfile.TemporaryDirectory(prefix="ridgeline-") as name:
            script = Path(name) / SCRIPT
            script.write_bytes(_source())
            argv = (*interpreter, "-B", str(script))
            try:
                return self._ask(argv, machine, NAMES.get(dtype.lower(), dtype.lower()), fresh=fresh)
            except ProgramMissing as error:
                return _no_ceilings(machine, str(error))

    def copy_rates(self, traffic: Sequence[int]) -> tuple[SizedCopy, ...] | str:
        """Copies of so many bytes, read plus written, on the idle card; or why there are none. Raises as `measure`."""
        interpreter = interpreter_of(self.contract, self.root)
        if interpreter is None:
            return "no command of the contract begins with a Python whose torch could be asked"
        with tempfile.TemporaryDirectory(prefix="ridgeline-") as name, self.hold_card() as bound:
            script = Path(name) / SCRIPT
            script.write_bytes(_source())
            words = ("--copies", ",".join(map(str, traffic)))
            try:
                printed = _answer(self._run((*interpreter, "-B", str(script), *words), LIMIT_S, bound))
                return printed if isinstance(printed, str) else _SizedCopies.model_validate(printed).copies
            except (ProgramMissing, ValidationError) as error:
                return str(error).splitlines()[0]

    def _ask(self, argv: tuple[str, ...], machine: Machine, dtype: str, *, fresh: bool) -> Ceilings:
        version = _answer(self._run((*argv, "--version"), ASKING_S, {}))
        if isinstance(version, str):
            return _no_ceilings(machine, version)
        path = self._path(machine, str(version.get("torch")))
        cached = None if fresh else self._read_cache(path, machine)
        if cached is not None:
            return _ceilings(cached, machine, dtype, from_cache=True)
        options = ("--first", dtype) if dtype in DTYPES else ()
        words = (*argv, "--seconds", str(MEASURING_S), *options)
        with self._prepare(words, machine) as measure, self.hold_card() as bound:
            printed = measure(bound)
        if isinstance(printed, str):
            return _no_ceilings(machine, printed)
        try:
            result = CeilingResult.model_validate(printed)
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            return _no_ceilings(machine, f"{SCRIPT}: {'.'.join(map(str, problem['loc']))}: {problem['msg']}")
        fresh_one = CachedCeilings(schema_version=SCHEMA, at=self.now(), machine=machine.fingerprint, found=result)
        _keep(path, fresh_one)
        return _ceilings(fresh_one, machine, dtype, from_cache=False)

    @contextlib.contextmanager
    def _prepare(self, argv: tuple[str, ...], machine: Machine) -> Iterator[Measure]:
        """What measures a card's ceilings; on NVIDIA its torch is loaded while a card is looked for, which is not touched by that."""
        if machine.kind != "nvidia":
            yield lambda bound: _answer(self._run(argv, LIMIT_S, bound))
            return
        with tempfile.TemporaryDirectory(prefix="ridgeline-") as name, ThreadPoolExecutor(1) as beside:
            file = Path(name) / "begin.json"
            words = (*argv, "--begin", str(file))
            process = beside.submit(self._run, words, PATIENCE_S + LIMIT_S, {})

            def measure(bound: Mapping[str, str]) -> dict[str, object] | str:
                write_whole(file, json.dumps(dict(bound)).encode(), synced=False)
                printed = _answer(process.result())
                return _answer(self._run(argv, LIMIT_S, bound)) if printed == WAITED else printed

            try:
                yield measure
            finally:
                if not file.exists():
                    write_whole(file, b"null", synced=False)

    def _run(self, argv: tuple[str, ...], timeout_s: float, bound: Mapping[str, str]) -> Exit:
        """Run the script that measures a card's ceilings, in the environment of the contract's own commands."""
        environment = select_variables(self.contract.pass_environment)
        return run(
            argv, cwd=Path("/"), timeout_s=timeout_s, env={**unbound(environment), **bound} if bound else environment
        )

    def _path(self, machine: Machine, torch: str) -> Path | None:
        if self.cache is None:
            return None
        key = [SCHEMA, machine.fingerprint, platform.node(), torch, hashlib.sha256(_source()).hexdigest()]
        key.append(sorted(unbound(select_variables(self.contract.pass_environment)).items()))
        return self.cache / f"{hashlib.sha256(json.dumps(key).encode()).hexdigest()}.json"

    def _read_cache(self, path: Path | None, machine: Machine) -> CachedCeilings | None:
        """Ceilings of a card measured not too long ago; None where there is nothing that can be used."""
        if path is None:
            return None
        try:
            cached = CachedCeilings.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            logger.info("%s: cannot be used, so it is measured again: %s", path, str(error).splitlines()[0])
            return None
        ours = cached.schema_version == SCHEMA and cached.machine == machine.fingerprint
        return cached if ours and 0 <= self.now() - cached.at <= KEPT_S else None


def interpreter_of(contract: Contract, root: Path) -> tuple[str, ...] | None:
    """The words of a GPU command up to its Python, without the options; None where no command has one.

    The timed commands come first: their torch is the one that the kernel runs with. A task's kernel runs with ours.
    """
    if contract.task_file is not None:
        return (sys.executable,)
    profile = contract.profile.command if contract.profile else ()
    commands = (contract.benchmark_command, contract.quick_command, contract.paired_command or (), profile)
    for argv in (*commands, contract.test_command):
        for place, word in enumerate(argv[:LEADING]):
            if INTERPRETER.fullmatch(Path(word).name):
                interpreter = str(root / word) if "/" in word else word
                return (*argv[:place], interpreter)
    return None


def _source() -> bytes:
    with as_file(files("ridgeline.sandbox") / "harness" / SCRIPT) as path:
        return path.read_bytes()


def _answer(ended: Exit) -> dict[str, object] | str:
    """The last line of JSON that the script for a card's ceilings printed, or why there is none. Libraries may print around it."""
    for text in reversed(ended.output.splitlines()):
        if not text.startswith("{"):
            continue
        try:
            document = json.loads(text)
        except json.JSONDecodeError:
            continue
        if isinstance(document, dict) and "ok" in document:
            return document if document["ok"] is True else str(document.get("why", "no reason given"))
    how = f"timed out after {ended.seconds:.0f} s" if ended.timed_out else f"exit code {ended.returncode}"
    last_line = [text.strip() for text in ended.output.splitlines() if text.strip()][-1:]
    return ": ".join((SCRIPT, how, *last_line))


def _keep(path: Path | None, cached: CachedCeilings) -> None:
    """Remember a card's measured ceilings; a folder that cannot be written is no error."""
    if path is None:
        return
    try:
        write_whole(path, cached.model_dump_json(by_alias=True).encode())
    except (OSError, DiskFull) as error:
        logger.info("%s: not kept: %s", path, error)


def _no_ceilings(machine: Machine, why: str) -> Ceilings:
    method = f"not measured: {why}"
    return Ceilings(copy_gbps=None, flops_gflops=None, method=method, machine=machine.fingerprint)


def _ceilings(measured: CachedCeilings, machine: Machine, dtype: str, *, from_cache: bool) -> Ceilings:
    result = measured.found
    product = result.matmul.get(dtype)
    mib = max(result.copies, key=lambda copy: copy.gbps).mib
    at = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(measured.at))
    method = (
        f"{SCRIPT}, torch {result.torch}, {at}, medians of {result.samples} samples each: "
        f"copy of {mib} MiB counting {result.factor}; "
    )
    if product is None:
        method += f"no operation peak for {dtype}: {result.skipped.get(dtype, 'torch has no matrix product of it')}"
    else:
        method += f"{dtype} matrix product of {' x '.join(map(str, product.shape))}"
    return Ceilings(
        copy_gbps=result.copy_gbps,
        flops_gflops=1e3 * product.tflops if product else None,
        method=f"{method}; kept from an earlier measurement" if from_cache else method,
        machine=machine.fingerprint,
        kept=from_cache,
        others=tuple(_other_rates(result)),
    )


def _other_rates(result: CeilingResult) -> list[Rate]:
    one_way = (("read bandwidth", result.read_gbps), ("write bandwidth", result.write_gbps))
    rates = [Rate(name=name, value=value, unit="GB/s") for name, value in one_way if value is not None]
    for dtype, product in result.matmul.items():
        unit = "TOPS" if dtype == "int8" else "TFLOPS"
        rates.append(Rate(name=f"{dtype} matrix product", value=product.tflops, unit=unit))
    return rates
