"""What `run.py` asks of a card, item by item."""

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(ROOT), str(HERE.parent)]
PLAYED = "RIDGELINE_TEST_PLAYED"
"""Set in the environment: the processor plays a card, with small sizes."""
CALLS = 3 if PLAYED in os.environ else 60
CASE_EXTENT = 2048
"""Largest dimension of a case: the judge compares every number on the processor."""


class Bare(subprocess.Popen):
    """A worker that nothing shuts in; only to see the rest of the judge at work where isolation does not come about."""

    out_of_memory = False

    def __init__(self, argv: Any, *, environment: Any, pass_fds: Any, private: Path, **_: Any) -> None:
        self._file = (private / "said").open("w+b")
        env = {**os.environ, **environment, "TRITON_CACHE_DIR": str(private / "triton")}
        super().__init__(argv, pass_fds=pass_fds, env=env, stdout=self._file, stderr=self._file)

    def said(self) -> str:
        """What it printed."""
        self._file.seek(0)
        return self._file.read()[-4000:].decode(errors="replace")


def choose(mode: str) -> None:
    """Have workers started that way in this process."""
    from ridgeline.sandbox.isolation import workers
    from ridgeline.sandbox.judge import worker

    if PLAYED in os.environ:
        settings = worker._worker_settings
        worker._worker_settings = lambda given: {**settings(given), "TRITON_INTERPRET": "1"}
        worker.FILES = (ROOT / "tests" / "card_worker.py", *worker.FILES)
    if mode != "best":
        workers._list_modes = lambda: ("weak",)
    if mode == "bare":
        worker.launch = lambda argv, **given: Bare(argv, **given)


@contextlib.contextmanager
def judged(task_file: Path, candidate: Path, against: Path, **options: Any) -> Iterator[Any]:
    """A judge of the candidate on the card."""
    from ridgeline.sandbox.judge.freeze import freeze_sources
    from ridgeline.sandbox.judge.judgment import CandidateJudgment
    from ridgeline.sandbox.judge.options import Options
    from ridgeline.sandbox.judge.references import Reference
    from ridgeline.sandbox.judge.task_file import load_task

    task, folder = load_task(task_file)
    with (
        Reference(task, folder, device="cpu" if PLAYED in os.environ else "cuda") as reference,
        freeze_sources(task, candidate) as new,
        freeze_sources(task, against) as old,
    ):
        yield CandidateJudgment(
            task=task, reference=reference, new=new, old=old, options=Options(device="cuda", **options)
        )


@contextlib.contextmanager
def staged(task: str) -> Iterator[tuple[Path, Path, Path]]:
    """The task's own version in Triton as candidate and as base."""
    import yaml

    home = HERE / "tasks" / task
    fields = yaml.safe_load((home / "task.yaml").read_text())
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for name in ("reference_torch.py", "base_triton.py"):
            (folder / name).write_text((home / name).read_text())
        (folder / "task.yaml").write_text(yaml.safe_dump(fields, sort_keys=False))
        laid_out(folder / "task.yaml")
        yield folder / "task.yaml", folder, folder


def laid_out(task_file: Path, most: int = 1 << 30) -> None:
    """Readable for workers, which may run as nobody; small where a card is only played."""
    import yaml

    task_file.parent.chmod(0o755)
    fields = yaml.safe_load(task_file.read_text())
    if PLAYED in os.environ:
        most, fields["drawn"] = 48, {"count": 0}
    for shape in fields["shapes"]:
        shape["dims"] = {name: min(value, most) for name, value in shape["dims"].items()}
    task_file.write_text(yaml.safe_dump(fields, sort_keys=False))


def probe() -> dict[str, Any]:
    """A call of a tiny kernel."""
    import numpy as np

    from ridgeline.sandbox.judge.session import BrokenWorker

    found: dict[str, Any] = {}
    with staged("tiny_silu") as (task_file, candidate, against), judged(task_file, candidate, against) as one:
        began = time.perf_counter()
        with one.opener(one.new)() as session:
            found["isolation"] = [session.isolation.level, session.isolation.tool, *session.isolation.missing]
            broken = session.open()
            found["open_s"] = time.perf_counter() - began
            if broken is not None:
                raise RuntimeError(f"open: {broken.reason}: {broken.detail}")
            dims = one.task.timed[0].dims
            x = np.random.default_rng().standard_normal(dims["n"]).astype(np.float32)
            walls = []
            for number in range(6):
                sealed = session.call(dims, {"x": x}, placement=number % 2)
                if isinstance(sealed, BrokenWorker):
                    raise RuntimeError(f"call: {sealed.reason}: {sealed.detail}")
                walls.append((sealed.wall_us, sealed.claimed_us))
            found["calls_us"] = walls
            right = x / (1 + np.exp(-x.astype(np.float64)))
            found["error"] = float(np.abs(sealed.outputs["out"] - right).max())
            found["late_same"] = sealed.late["out"].tobytes() == sealed.outputs["out"].tobytes()
            found["changed"], found["guards"] = sealed.inputs_changed, sealed.guards_broken
            found["ping_us"] = statistics.median(session.ping() for _ in range(30))
            found["capture"] = str(session.capture(dims))
            found["held"], found["threads"] = session.can_freeze, session.threads()
            found["processes"] = session.processes()
    return found


@contextlib.contextmanager
def turning(task_file: Path, a: Path, b: Path, **options: Any) -> Iterator[tuple[Any, dict[str, float]]]:
    """Both sides open and one size's turns."""
    import numpy as np

    from ridgeline.sandbox.judge.timing import TimedPairs, _CardTurns

    with judged(task_file, b, a, **options) as one, contextlib.ExitStack() as stack:
        began = time.perf_counter()
        sessions = {}
        for side, version in (("a", one.old), ("b", one.new)):
            sessions[side] = stack.enter_context(one.opener(version)())
            if broken := sessions[side].open():
                raise RuntimeError(f"{side}: {broken.reason}: {broken.detail}")
        took = {"open_s": time.perf_counter() - began}
        pairs = TimedPairs(bench=one.bench(np.random.default_rng()))
        yield _CardTurns(pairs=pairs, sessions=sessions, shape=one.task.timed[0]), took


def plain_us(task: str, dims_file: Path) -> float | None:
    """The base version by Triton's own timer, in this trusted process: what the judge's events should say too."""
    import importlib.util

    import torch
    import triton.testing

    from ridgeline.sandbox.judge.inputs import axis_lengths
    from ridgeline.sandbox.judge.task_file import load_task

    read, _ = load_task(dims_file)
    dims = read.timed[0].dims
    spec = importlib.util.spec_from_file_location("base", HERE / "tasks" / task / "base_triton.py")
    base = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(base)
    arrays = [
        torch.randn(axis_lengths(one, dims), device="cuda").to(getattr(torch, one.dtype))
        for one in (*read.inputs, *read.outputs)
    ]
    return 1e3 * triton.testing.do_bench(lambda: getattr(base, read.entry)(*arrays), return_mode="median")


def time_task(task: str) -> dict[str, Any]:
    """Identical versions: ratio one; then by a plain timer."""
    from ridgeline.sandbox.judge.timing import TimingRefused, block_log_ratios

    found: dict[str, Any] = {}
    with staged(task) as (task_file, candidate, against):
        with turning(task_file, against, candidate) as (turns, took):
            found |= took
            began = time.perf_counter()
            slots = turns.run(12)
            found["run_s"], found["lane"] = time.perf_counter() - began, turns.lane
            if isinstance(slots, TimingRefused):
                return {**found, "refused": f"{slots.side}: {slots.detail}"}
        times = {side: [s.time_us for s in slots if s.side == side] for side in "ab"}
        found["us"] = {side: statistics.median(one) for side, one in times.items()}
        found["spread"] = {side: statistics.stdev(one) / statistics.fmean(one) for side, one in times.items()}
        (blocks,) = block_log_ratios(slots).values()
        found["log_ratio"], found["log_ratio_sd"] = statistics.fmean(blocks), statistics.stdev(blocks)
        walls = [wall for wall, _ in turns.gains]
        found["wall_gain_us"], found["wall_gain_sd"] = statistics.median(walls), statistics.stdev(walls)
        with contextlib.suppress(ImportError, RuntimeError, AssertionError):
            found["plain_timer_us"] = plain_us(task, task_file)
    return found


def cost() -> dict[str, Any]:
    """What judging adds to measuring: with everything, against refresh, flush, events and a wait alone."""
    from ridgeline.sandbox.judge.session import BrokenWorker

    found: dict[str, Any] = {}
    for task in ("gemm_f32", "softmax"):
        with staged(task) as (task_file, candidate, against), turning(task_file, against, candidate) as (turns, took):
            began = time.perf_counter()
            if refused := turns._prepare():
                raise RuntimeError(refused.detail)
            took["prepare_s"] = time.perf_counter() - began
            both, bare, judged_us = [], [], []
            for _ in range(CALLS):
                began = time.perf_counter()
                pair = turns._pair("ab")
                judged_us.append(1e6 * (time.perf_counter() - began) / 2)
                if not isinstance(pair, dict):
                    raise RuntimeError(pair.detail)
                both += [(one.timed.claimed_us, one.timed.called_us, one.timed.wall_us) for one in pair.values()]
            session, draw = turns._card("a"), turns._draw()
            for _ in range(CALLS):
                began = time.perf_counter()
                if isinstance(said := session.time_unproved(turns.shape.dims, draw), BrokenWorker):
                    raise RuntimeError(said.detail)
                bare.append(1e6 * (time.perf_counter() - began))
            middle = [statistics.median(column) for column in zip(*both, strict=True)]
            kernel, called, wall = middle
            per_pair = took["open_s"] + took["prepare_s"]
            calls = 2 * 2 * (2 + 8)
            full = per_pair + calls * statistics.fmean(judged_us) / 1e6
            less = took["open_s"] + calls * statistics.fmean(bare) / 1e6
            found[task] = {
                **took,
                "kernel_us": kernel,
                "worker_called_us": called,
                "worker_called_and_proved_us": wall,
                "judged_call_us": statistics.median(judged_us),
                "judged_call_mean_us": statistics.fmean(judged_us),
                "bare_call_us": statistics.median(bare),
                "ratio_of_calls": statistics.median(judged_us) / statistics.median(bare),
                "process_pair_s": {"judged": full, "bare": less, "ratio": full / less},
                "lane": turns.lane,
            }
    return found


def case(kind: str, name: str, *, reading: bool = False, device_path: bool = True) -> dict[str, Any]:
    """One of the suite, as the product judges it; on a card with everything there, unless not `device_path`."""
    import suite

    cases = {"cheat": suite.cheats, "honest": suite.honest, "attack": suite.attacks}[kind](HERE)
    one = next(each for each in cases if each.id == name)
    with tempfile.TemporaryDirectory() as folder:
        laid = suite.stage(one, Path(folder))
        laid_out(laid.task_file, CASE_EXTENT)
        options = {"calibration_pairs": 4, "pairs": 2, "most_pairs": 3, "blocks": 4}
        options["without"] = frozenset() if reading else frozenset({"static"})
        if PLAYED in os.environ:
            with judged(laid.task_file, laid.candidate, laid.against, **options) as judge:
                said = judge.judge()
        else:
            from ridgeline.sandbox.judge.judgment import judge as ask
            from ridgeline.sandbox.judge.options import Options

            asked = Options(device="cuda", device_path=device_path, long_s=5, **options)
            said = ask(laid.task_file, candidate=laid.candidate, against=laid.against, options=asked)
    wrong = {
        key: f"{getattr(said, key).answer}, not {answer}"
        for key, answer in one.expect.items()
        if getattr(said, key).answer not in (answer, *(("unverified",) if (key, answer) == ("faster", "no") else ()))
    }
    bad = said.accepted if kind != "honest" else said.correct.answer != "yes" or "own_work" in wrong
    return {
        "verdict": "WRONG" if bad else "ok",
        "unlike_expected": wrong,
        "correct": [said.correct.answer, *said.correct.evidence[:2]],
        "faster": [said.faster.answer, *said.faster.evidence[:2]],
        "own_work": [said.own_work.answer, *said.own_work.evidence[:2]],
        "accepted": said.accepted,
        "speedup": said.speedup,
        "calls": said.calls,
        "path": said.path,
        "caught_by": one.caught_by,
    }
