"""What the judge's device path does on a card: shared memory, process pairs, kinds of values, answers that come early.

    python tests/adversarial/gpu/device.py [SECTION...] [--played]

Each section runs in a process of its own and prints some lines; one that fails prints its trace and the next begins.
`--played`: the processor plays the card, with small sizes, to see that the program itself works.
"""

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(ROOT), str(HERE.parent)]
PLAYED = "RIDGELINE_TEST_PLAYED"
BLOCKS = 5
PAIRS = 3
SECTION_S = 110.0
WHOLE_S = 560.0
SIZES: dict[str, dict[str, dict[str, int]]] = {
    "softmax": {"wide": {"rows": 4096, "cols": 32768}},
    "gemm_bf16": {"square": {"m": 4096, "n": 4096, "k": 4096}},
}
"""The sizes that are asked about, in place of those of the tasks beside this."""
HUGE = {"rows": 4096, "cols": 393216}
LARGE = {"rows": 32768, "cols": 32768}
PLAIN_SOFTMAX = "import torch\ndef softmax(x, out):\n    torch.softmax(x, -1, out=out)\n"
EARLY = """
import sys, torch
held = []
def softmax(x, out):
    frame = sys._getframe(1)
    while not held:
        for one in frame.f_locals.values():
            each = getattr(one, "driver", None)
            if each is not None:
                held.append(each)
                {patch}
        frame = frame.f_back
    {before}
    torch.softmax(x, -1, out=out)
    {after}
"""
"""A candidate that changes its worker's driver: it answers while the card still works."""


def say(*words: Any) -> None:
    """One line, at once."""
    sys.stdout.write(" ".join(map(str, words))[:900] + "\n")
    sys.stdout.flush()


def played() -> bool:
    """Whether the processor plays the card."""
    return PLAYED in os.environ


def where() -> str:
    """PyTorch's name of the device."""
    return "cpu" if played() else "cuda"


class Setting:
    """A task's folder, its reference on the device, and workers."""

    def __init__(self, folder: Path, task: str, fields: dict[str, Any], kind: str = "") -> None:
        import numpy as np
        import yaml

        from ridgeline.sandbox.harness.judge_segments import open_card_memory
        from ridgeline.sandbox.judge import device_session
        from ridgeline.sandbox.judge.device_judge import DeviceCallJudge
        from ridgeline.sandbox.judge.device_reference import DeviceReference
        from ridgeline.sandbox.judge.device_values import Chance
        from ridgeline.sandbox.judge.options import Options
        from ridgeline.sandbox.judge.task_file import load_task

        home = HERE / "tasks" / task
        text = yaml.safe_load((home / "task.yaml").read_text()) | fields
        if played():
            for shape in text["shapes"]:
                shape["dims"] = {name: min(size, 64) for name, size in shape["dims"].items()}
            text["drawn"] = {"count": 0}
        for name in ("reference_torch.py", "base_triton.py"):
            (folder / name).write_text((home / name).read_text())
        folder.chmod(0o755)
        (folder / "task.yaml").write_text(yaml.safe_dump(text, sort_keys=False))
        self.task, self.folder = load_task(folder / "task.yaml")
        began = time.perf_counter()
        self.memory = open_card_memory(device_session.torch, kind) if kind else device_session.open_memory(where())
        self.chance = Chance.draw(where(), np.random.default_rng())
        self.reference = DeviceReference(self.task, self.folder, where())
        self.host_s = time.perf_counter() - began
        self.bench = DeviceCallJudge(
            task=self.task, reference=self.reference, options=Options(device="cuda"), chance=self.chance
        )

    @contextlib.contextmanager
    def version(self, text: str = "") -> Iterator[Callable[[], Any]]:
        """Fresh workers with the task's own version, or one in PyTorch of that text."""
        from ridgeline.sandbox.judge.device_session import DeviceSession
        from ridgeline.sandbox.judge.freeze import freeze_sources

        task = self.task
        with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as stack:
            folder = self.folder
            if text:
                folder = Path(place)
                folder.chmod(0o755)
                (folder / task.source[0]).write_text(text)
            frozen = stack.enter_context(freeze_sources(task, folder))
            yield lambda: DeviceSession(task, frozen.folder, memory=self.memory, chance=self.chance, device="cuda")


@contextlib.contextmanager
def setting(task: str, *, kind: str = "", text: str = "", **fields: Any) -> Iterator[Setting]:
    """One task with other fields, and the time that its host took to start."""
    shapes = [{"label": label, "dims": dims} for label, dims in SIZES[task].items()]
    fields = {"shapes": shapes, **fields}
    if text or played():
        fields |= {"language": "python"}
    with tempfile.TemporaryDirectory() as folder:
        yield Setting(Path(folder), task, fields, kind)


def start_stem() -> None:
    """What workers are copies of, beside the imports of this process."""
    if played():
        from ridgeline.sandbox.judge import worker

        settings = worker._worker_settings
        worker._worker_settings = lambda loading: {**settings(loading), "TRITON_INTERPRET": "1"}
        worker._warm_modules = lambda loading: ("torch",)
        worker.FILES = (ROOT / "tests" / "card_worker.py", *worker.FILES)
        return
    from ridgeline.sandbox.judge import worker

    def begin() -> None:
        from ridgeline.sandbox.isolation.workers import WarmProgram, fork_server_of

        began = time.perf_counter()
        modules = ("torch", "triton", "triton.runtime.cache:triton_key")
        environment = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        warm = WarmProgram(modules=modules, paths=worker._package_folders(), script=("",))
        server = fork_server_of(warm, {**environment, **worker.card_variables()})
        say(f"  stem: {'ready' if server else 'NONE, workers import alone'} after {time.perf_counter() - began:.1f} s")

    threading.Thread(target=begin).start()


def facts() -> None:
    """What this machine is, and whether its memory can be shared with a worker that is shut in."""
    import numpy
    import torch

    from ridgeline.sandbox.isolation.workers import machine_isolation

    isolation = machine_isolation()
    say(f"  python {sys.version.split()[0]} torch {torch.__version__} numpy {numpy.__version__}", os.uname().release)
    say(f"  isolation {isolation.level} by {isolation.tool}, missing {isolation.missing}, {isolation.why}")
    say(f"  user {os.geteuid()}, interpreter writable {os.access(sys.executable, os.W_OK)}, cores {os.cpu_count()}")
    if not played():
        free, total = torch.cuda.mem_get_info()
        say(f"  {torch.cuda.get_device_name(0)}, {free / 1e9:.1f} of {total / 1e9:.1f} GB free")
    for kind in ("host",) if played() else ("vmm", "ipc"):
        try:
            share(kind)
        except BaseException:  # noqa: BLE001 (it is told, and the next begins)
            say(f"  {kind}: FAILED {traceback.format_exc()[-700:]}")


def share(kind: str) -> None:
    """A worker fills what this process made, through one kind of shared memory."""
    import torch

    from ridgeline.sandbox.judge.session import BrokenWorker

    text = "import torch\ndef softmax(x, out):\n    torch.add(x, 1, out=out)\n"
    with setting("softmax", kind="" if kind == "host" else kind, text=text) as made, made.version(text) as opened:
        began = time.perf_counter()
        with opened() as session:
            broken = session.open()
            opened_s = time.perf_counter() - began
            if broken:
                raise RuntimeError(f"open: {broken.reason}: {broken.detail}")
            dims = made.task.timed[0].dims
            x = torch.randn(tuple(dims.values()), device=where())
            for number in range(4):
                began = time.perf_counter()
                sealed = session.call_device(dims, {"x": x}, placement=number % 2, decoy=None, late=number == 1)
                took = 1e3 * (time.perf_counter() - began)
                if isinstance(sealed, BrokenWorker):
                    raise RuntimeError(f"call: {sealed.reason}: {sealed.detail}")
                right = bool(torch.equal(sealed.outputs["out"], x + 1))
                marks = (sealed.inputs_changed, sealed.guards_broken, sealed.changed_late)
                say(f"  {kind} call {number}: {took:.1f} ms, right {right}, {marks}, {times_of(sealed)}")
            pings = statistics.median(session.ping() for _ in range(21))
            say(f"  {kind}: worker open {opened_s:.2f} s, host {made.host_s:.2f} s, ping {pings:.0f} us")
            say(f"  {kind}: unit {made.memory.granularity}, freezes {session.can_freeze}, lane", end_of(session, dims))


def end_of(session: Any, dims: Any) -> str:
    """What a capture says, and what was compiled."""
    lane = session.capture_device(dims)
    packed = session.pack_compiled()
    return f"{lane}; packed {len(packed) if isinstance(packed, bytes) else packed} bytes"


def times_of(sealed: Any) -> str:
    """The three times of one call."""
    return (
        f"claimed {sealed.claimed_us:.0f} called {sealed.called_us:.0f} "
        f"copied {sealed.wall_us - sealed.called_us:.0f} us"
    )


def pairs(name: str) -> None:
    """Judged process pairs against bare ones from the same stem."""
    from ridgeline.sandbox.judge.device_session import CompiledCode
    from ridgeline.sandbox.judge.device_timing import DevicePairs
    from ridgeline.sandbox.judge.timing import TimingRefused, block_log_ratios

    with setting(name) as made, made.version() as plain:
        say(f"  {name}: host ready in {made.host_s:.2f} s (PyTorch imported)")
        code = CompiledCode(task=made.task, chance=made.chance)
        opened = code.opener("same", plain)
        began = time.perf_counter()
        opened().close()
        say(f"  {name}: compiled once in {time.perf_counter() - began:.2f} s, {len(code._packed['same'])} bytes kept")
        timer, shape = DevicePairs(bench=made.bench), made.task.timed[0]
        judged: list[float] = []
        bare: list[float] = []
        say(f"  {name}: memory {timer.plan(shape)}")
        for number in range(PAIRS):
            before, began = dict(timer.seconds), time.perf_counter()
            calls = timer.run({"a": opened, "b": opened}, (shape,), BLOCKS)
            judged.append(time.perf_counter() - began)
            steps = {step: round(value - before.get(step, 0), 3) for step, value in timer.seconds.items()}
            say(f"  {name}: judged pair {number}: {judged[-1]:.2f} s {steps}")
            if isinstance(calls, TimingRefused):
                say(f"  {name}: REFUSED {calls.side}: {calls.detail}")
            else:
                by_side = {side: statistics.median(c.time_us for c in calls if c.side == side) for side in "ab"}
                ratios = next(iter(block_log_ratios(calls).values()))
                say(f"  {name}: claimed {by_side}, blocks' log ratios {[round(ratio, 4) for ratio in ratios]}")
            began = time.perf_counter()
            steps = bare_pair(opened, made, shape.dims)
            bare.append(time.perf_counter() - began)
            say(f"  {name}: bare pair {number}: {bare[-1]:.2f} s {steps}")
        if gains := timer.gains.get(shape.label):
            walls = [wall for wall, _ in gains]
            say(f"  {name}: wall gain {statistics.median(walls):.1f} us, sd {statistics.stdev(walls):.1f} us")
        ratio = statistics.median(judged) / statistics.median(bare)
        say(
            f"  {name}: JUDGED {statistics.median(judged):.2f} s, BARE {statistics.median(bare):.2f} s, RATIO {ratio:.2f}"
        )


CHAINS = ({"rows": 256, "cols": 1024}, {"rows": 4096, "cols": 2048}, {"rows": 4096, "cols": 8192})
"""Calls of some microseconds, of tens, and of a hundred."""


def chains() -> None:
    """Gains, true and claimed, of calls too short for the judge's clock: what calls in a row show, and what asking takes."""
    from ridgeline.sandbox.judge.device_session import CompiledCode
    from ridgeline.sandbox.judge.device_timing import DevicePairs
    from ridgeline.sandbox.judge.timing import TimingRefused

    own = (HERE / "tasks" / "softmax" / "base_triton.py").read_text()
    twice = own + "\n_once = softmax\ndef softmax(x, out):\n    _once(x, out)\n    _once(x, out)\n"
    most = 64 if played() else 1 << 30
    shapes = [{"label": f"{d['rows']}x{d['cols']}", "dims": {n: min(v, most) for n, v in d.items()}} for d in CHAINS]
    with setting("softmax", shapes=shapes) as made, contextlib.ExitStack() as stack:
        code = CompiledCode(task=made.task, chance=made.chance)
        versions = {"own": own, "twice": twice}
        versions |= {name: (HERE / "attacks" / "softmax" / f"{name}.py").read_text() for name in PATCHES}
        opened = {name: code.opener(name, stack.enter_context(made.version(text))) for name, text in versions.items()}
        for old, new in (("own", "own"), ("twice", "own"), *(("own", name) for name in PATCHES)):
            for shape in made.task.timed:
                timer, began = DevicePairs(bench=made.bench, versions=(old, new)), time.perf_counter()
                calls = timer.run({"a": opened[old], "b": opened[new]}, (shape,), BLOCKS)
                took = f"{time.perf_counter() - began:.2f} s, in a row {timer.seconds['calls in a row']:.2f} s"
                said = ""
                if isinstance(calls, TimingRefused):
                    said = f"REFUSED {calls.side}: {calls.detail[-260:]}"
                else:
                    us = {side: statistics.median(c.time_us for c in calls if c.side == side) for side in "ab"}
                    said = f"claimed {us['a']:.1f} and {us['b']:.1f} us, shown {timer._shown_us}"
                say(f"  {old} to {new}, {shape.label}: {took}: {said}")


PATCHES = ("clock_halved", "work_in_sync", "work_while_held")
"""Attacks whose worker says other times than those of the work."""


def bare_pair(opened: Callable[[], Any], made: Setting, dims: Any) -> dict[str, float]:
    """The same workers, frames and calls with nothing drawn, stopped, copied or compared; seconds by step."""
    from concurrent.futures import ThreadPoolExecutor

    from ridgeline.sandbox.harness.judge_frames import CALL, DONE, NONCE_BYTES, Frame
    from ridgeline.sandbox.judge.device_values import draw
    from ridgeline.sandbox.judge.timing import CARD_WARM_UP_S

    steps: dict[str, float] = {}
    began = time.perf_counter()
    with contextlib.ExitStack() as stack:
        sessions = [stack.enter_context(opened()) for _ in "ab"]
        with ThreadPoolExecutor(2) as starters:
            if broken := [each for each in starters.map(lambda session: session.open(), sessions) if each]:
                raise RuntimeError(broken[0].detail)
        steps["open"] = round(time.perf_counter() - began, 3)
        inputs = draw(made.task, dims, "normal", made.chance)
        words = "cold eager" if made.task.cache == "cold" else "eager"
        for session in sessions:
            for placement in (0, 1):
                session.call_device(dims, inputs, placement=placement, decoy=None, look=False)
            lane = session.capture_device(dims) if not played() else "eager"
            words = words.replace("eager", "graph") if str(lane).startswith("graph") else words
            session._running.freezer.resume()
            session._running.freezer.works = False
        steps["first calls"] = round(time.perf_counter() - began - steps["open"], 3)
        until, calls = time.perf_counter() + (0 if played() else CARD_WARM_UP_S), 0
        while calls < 4 * (2 + BLOCKS):
            for session in sessions:
                frame = Frame(CALL, os.urandom(NONCE_BYTES), 0, calls % 2, text=words)
                session._running.exchange(frame, DONE, timeout_s=20)
            calls += 2 if calls < 8 - 2 or time.perf_counter() > until else 0
        steps["calls"] = round(time.perf_counter() - began - sum(steps.values()), 3)
    steps["close"] = round(time.perf_counter() - began - sum(steps.values()), 3)
    return steps


def kinds(name: str) -> None:
    """Every kind of values at the size asked about: drawing, what is right, and judging a library's answer."""
    import torch

    from ridgeline.sandbox.judge.inputs import MIXES, PARTS

    with setting(name) as made:
        dims = made.task.timed[0].dims
        for mix in (*MIXES, *PARTS):
            try:
                judge_library(made, dims, mix)
            except BaseException:  # noqa: BLE001 (it is told, and the next begins)
                say(f"  {name} {mix}: FAILED {traceback.format_exc()[-600:]}")
        if not played():
            say(f"  {name}: most memory {torch.cuda.max_memory_allocated() / 1e9:.1f} GB")
        truth = made.bench.draw_with_truth(dims, "normal", dict)
        for _ in range(2):
            began = time.perf_counter()
            tolerances = made.bench.learn_tolerances(truth)
            say(f"  {name}: tolerances learned in {time.perf_counter() - began:.2f} s {tolerances}")


def judge_library(made: Setting, dims: Any, mix: str) -> None:
    """PyTorch's own float answer, judged as a candidate's."""
    import torch

    from ridgeline.sandbox.judge.device_session import DeviceSealed

    sync = torch.cuda.synchronize if not played() else lambda: None
    began = time.perf_counter()
    truth = made.bench.draw_with_truth(dims, mix, dict)
    sync()
    drawn = time.perf_counter()
    list(truth.parts())
    sync()
    asked = time.perf_counter()
    values = made.reference.trusted(truth.inputs)
    outputs = {each.name: values[each.name].to(getattr(torch, each.dtype)) for each in made.task.outputs}
    del values
    sealed = DeviceSealed(outputs=outputs, wall_us=0.0, called_us=0.0, claimed_us=0.0)
    sync()
    given = time.perf_counter()
    right = made.bench.wrong(sealed, truth)
    sync()
    judged = time.perf_counter()
    for each in outputs.values():
        each.view(-1)[7] = each.view(-1)[7] * 1.5 + 1
    wrong = made.bench.wrong(sealed, truth)
    sync()
    found = time.perf_counter()
    steps = [round(1e3 * step) for step in (drawn - began, asked - drawn, judged - given, found - judged)]
    say(f"  {mix}: ms drawn {steps[0]} oracle {steps[1]} right {steps[2]} wrong {steps[3]}; {right} / {wrong[:1]}")


def large() -> None:
    """What a call over gigabytes costs the judge, step by step, and what memory is asked of the card for it."""
    import torch

    from ridgeline.sandbox.judge.device_values import draw

    sync = torch.cuda.synchronize if not played() else lambda: None

    def step(name: str, work: Callable[[], Any]) -> Any:
        began = time.perf_counter()
        result = work()
        sync()
        asked = "" if played() else f", {torch.cuda.memory_stats().get('num_device_alloc', 0)} allocations so far"
        say(f"  {name}: {1e3 * (time.perf_counter() - began):.0f} ms{asked}")
        return result

    with setting("softmax", shapes=[{"label": "large", "dims": LARGE}]) as made, made.version() as opened:
        dims, bench = made.task.timed[0].dims, made.bench
        with opened() as session:
            session.placements = 1
            step("open", session.open)
            step("segment, zeros and bands", lambda: session._buffers(dims))
            for mix in ("normal", "wide", "cancel", "spike"):
                inputs = step(f"draw {mix}", lambda mix=mix: draw(made.task, dims, mix, made.chance))
            for _ in range(3):
                sealed = step("call", lambda: session.call_device(dims, inputs, placement=0, decoy=None, late=True))
            truth = bench.truth_of(inputs, dims)
            for _ in range(2):
                parts = step("what is right", lambda: [part.count for part in truth.parts()])
            say(f"  in {len(parts)} parts: {parts}")
            for _ in range(2):
                step("judge one", lambda: bench.wrong(sealed, truth))
            step("judge two together", lambda: bench.find_wrong({"a": sealed, "b": sealed}, truth))
            if not played():
                step("give memory back", torch.cuda.empty_cache)
                step("judge one, memory anew", lambda: bench.wrong(sealed, truth))
                step("give memory back", torch.cuda.empty_cache)
            doubles = torch.randn((dims["rows"] // 4, dims["cols"]), dtype=torch.float64, device=where())
            for _ in range(2):
                step("flip of a quarter in float64", lambda: torch.flip(doubles, (1,)))
                step("cumulative sum of a quarter in float64", lambda: torch.cumsum(doubles, 1))
            step("close", session.close)


def tests(name: str) -> None:
    """All correctness tests of an honest kernel, at the sizes of the suite's tasks."""
    import yaml

    from ridgeline.sandbox.judge.device_judge import DeviceTests
    from ridgeline.sandbox.judge.device_session import CompiledCode

    shapes = yaml.safe_load((HERE / "tasks" / name / "task.yaml").read_text())["shapes"]
    with setting(name, shapes=shapes) as made, made.version() as plain:
        code = CompiledCode(task=made.task, chance=made.chance)
        for number in range(2):
            began = time.perf_counter()
            gate = DeviceTests(bench=made.bench)
            answer = gate.check(code.opener("same", plain))
            say(f"  {name} tests {number}: {time.perf_counter() - began:.1f} s, {answer}")


def early() -> None:
    """Candidates that answer before the card is done, or leave it busy: what the judge's clock and looks show."""
    wait = "pass" if played() else "torch.cuda._sleep(9_000_000)"
    unsync = "each.sync = lambda: None; each.elapsed_ns = lambda: 300_000"
    cases = {
        "honest": PLAIN_SOFTMAX,
        "slow, honest clock": EARLY.format(patch="pass", before=wait, after="pass"),
        "answers early": EARLY.format(patch=unsync, before=wait, after="pass"),
        "leaves the card busy": EARLY.format(patch=unsync, before="pass", after=wait.replace("9_", "90_")),
        "writes later": EARLY.format(patch=unsync, before="pass", after=f"{wait}; out.mul_(1.5)"),
    }
    with setting("softmax", text=PLAIN_SOFTMAX) as made:
        for name, text in cases.items():
            try:
                time_case(made, name, text)
            except BaseException:  # noqa: BLE001 (it is told, and the next begins)
                say(f"  {name}: FAILED {traceback.format_exc()[-500:]}")


def time_case(made: Setting, name: str, text: str) -> None:
    """Some calls of one such candidate."""
    from ridgeline.sandbox.judge.device_values import draw
    from ridgeline.sandbox.judge.session import BrokenWorker

    with made.version(text) as opened, opened() as session:
        if broken := session.open():
            raise RuntimeError(broken.detail)
        rows = []
        for number in range(12):
            dims = made.task.timed[0].dims
            inputs = draw(made.task, dims, "normal", made.chance)
            began = time.perf_counter()
            sealed = session.call_device(dims, inputs, placement=number % 2, decoy=None, late=number % 2 == 1)
            whole_us = 1e6 * (time.perf_counter() - began)
            if isinstance(sealed, BrokenWorker):
                raise RuntimeError(f"{sealed.reason}: {sealed.detail}")
            copied = sealed.wall_us - sealed.called_us
            lines = made.bench.wrong(sealed, made.bench.truth_of(inputs, dims))
            rows.append((sealed.claimed_us, sealed.called_us, copied, whole_us - sealed.wall_us, lines))
        claimed, called, copied, rest = (statistics.median(row[at] for row in rows[4:]) for at in range(4))
        wrong = [row[4][0][:110] for row in rows if row[4]]
        say(
            f"  {name}: claimed {claimed:.0f} called {called:.0f} copied {copied:.0f} rest {rest:.0f} us;"
            f" wrong {len(wrong)}/12 {wrong[:1]}"
        )


def huge() -> None:
    """A size that must be judged in parts, and one that cannot be."""
    import torch

    from ridgeline.sandbox.judge.device_timing import DevicePairs
    from ridgeline.sandbox.judge.timing import TimingRefused

    dims = {"rows": 300, "cols": 500} if played() else HUGE
    with setting("softmax", shapes=[{"label": "huge", "dims": dims}], text=PLAIN_SOFTMAX) as made:
        shape = made.task.timed[0]
        if played():
            made.reference.free_bytes = lambda: 20_000_000
        say(
            f"  huge: parts along {made.reference.part_axis(shape.dims)}, {made.reference.free_bytes() / 1e9:.1f} GB free"
        )
        timer = DevicePairs(bench=made.bench)
        say(f"  huge: memory {timer.plan(shape)}")
        with made.version(PLAIN_SOFTMAX) as opened:
            for number in range(2):
                began = time.perf_counter()
                calls = timer.run({"a": opened, "b": opened}, (shape,), BLOCKS)
                steps = {step: round(value, 2) for step, value in timer.seconds.items()}
                outcome = calls.detail if isinstance(calls, TimingRefused) else f"{len(calls)} calls"
                say(f"  huge pair {number}: {time.perf_counter() - began:.2f} s, {outcome}, {steps}")
        if not played():
            say(f"  huge: most memory {torch.cuda.max_memory_allocated() / 1e9:.1f} GB by PyTorch")
    try:
        dims = {"rows": 1 << 16, "cols": 1 << 18}
        with setting("softmax", shapes=[{"label": "beyond", "dims": dims}], text=PLAIN_SOFTMAX) as made:
            say(f"  beyond: NOT refused, {DevicePairs(bench=made.bench).plan(made.task.timed[0])}")
    except Exception as error:  # noqa: BLE001 (it is told)
        say(f"  beyond: {type(error).__name__}: {error}")


SECTIONS: dict[str, Callable[[], None]] = {
    "facts": facts,
    "pairs-softmax": lambda: pairs("softmax"),
    "pairs-gemm": lambda: pairs("gemm_bf16"),
    "kinds-softmax": lambda: kinds("softmax"),
    "early": early,
    "chains": chains,
    "huge": huge,
    "large": large,
    "tests-softmax": lambda: tests("softmax"),
    "kinds-gemm": lambda: kinds("gemm_bf16"),
    "tests-gemm": lambda: tests("gemm_bf16"),
}


def run_section(name: str) -> None:
    """One section in this process."""
    began = time.perf_counter()
    start_stem()
    try:
        SECTIONS[name]()
    except BaseException:  # noqa: BLE001 (it is told, and the next begins)
        say(f"  {name}: FAILED {traceback.format_exc()[-2500:]}")
    say(f"  ({time.perf_counter() - began:.1f} s)")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("sections", nargs="*")
    parser.add_argument("--played", action="store_true")
    parser.add_argument("--inside", action="store_true", help="run the one section in this process")
    words = parser.parse_args()
    if words.played:
        os.environ[PLAYED] = "1"
    if words.inside:
        run_section(words.sections[0])
        return
    until = time.monotonic() + WHOLE_S
    for name in words.sections or SECTIONS:
        limit = min(SECTION_S, until - time.monotonic())
        say(f"== {name}")
        if limit < 10:
            say("  no time was left")
            continue
        process = subprocess.Popen([sys.executable, __file__, name, "--inside"], start_new_session=True)
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            process.wait()
            say(f"  not done in {limit:.0f} s")


if __name__ == "__main__":
    main()
