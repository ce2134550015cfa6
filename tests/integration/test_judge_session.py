"""Sessions with real workers: right answers come through sealed, and nothing a candidate does reaches the judge."""

import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from ridgeline.graph.task import Input, Output, Shape, Task
from ridgeline.sandbox.isolation.workers import WorkerLimits
from ridgeline.sandbox.judge import worker
from ridgeline.sandbox.judge.options import Surroundings
from ridgeline.sandbox.judge.session import BrokenWorker, SealedCall, Session, framework_of
from tests.session_tasks import (
    DIMS,
    HONEST_C,
    HONEST_NUMPY,
    RETURNING,
    C,
    N,
    opened,
    task,
    unopened,
    x,
)

POISON = {"y": np.full(N, 5, dtype=np.float32)}


def _called(session: Session, **options: object) -> SealedCall:
    sealed = session.call(DIMS, x(), poison=POISON, **options)  # type: ignore[arg-type]
    assert isinstance(sealed, SealedCall), sealed
    return sealed


def _broken(session: Session, **options: object) -> BrokenWorker:
    broken = session.call(DIMS, x(), poison=POISON, **options)  # type: ignore[arg-type]
    assert isinstance(broken, BrokenWorker), broken
    assert session.call(DIMS, x()) is broken
    assert math.isnan(session.ping())
    assert session.threads() is None
    return broken


@pytest.mark.parametrize(
    ("text", "given"),
    [(HONEST_C, task()), (HONEST_NUMPY, task("python")), (RETURNING, task("python", convention="return"))],
    ids=["c", "numpy", "returning"],
)
def test_an_honest_candidate_is_right_at_either_place_and_any_size(tmp_path: Path, text: str, given: Task) -> None:
    with opened(tmp_path, text, given) as session:
        for n in (N, 1, 4099, N):
            for placement in (0, 1, 1, 0):
                inputs = x(n)
                sealed = session.call({"n": n}, inputs, placement=placement)
                assert isinstance(sealed, SealedCall), sealed
                assert (sealed.outputs["y"] == 2 * inputs["x"]).all()
                assert (sealed.inputs_changed, sealed.guards_broken, sealed.late) == ((), (), None)
                assert 0 <= (sealed.claimed_us or 0) <= sealed.wall_us
        assert 0 < session.ping() < 1e6
        assert session.threads() == 1
        assert session.can_freeze
        assert session.isolation.level == Session.isolation_level()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool"])
def test_tensors_of_torch(tmp_path: Path, dtype: str) -> None:
    pytest.importorskip("torch")
    given = task("python", dtype=dtype)  # type: ignore[arg-type]
    with opened(tmp_path, "import torch\ndef twice(x, y):\n    y.copy_(x)\n", given) as session:
        assert session.framework == "torch"
        values = (
            np.random.default_rng().integers(0, 2, N).astype({"bfloat16": "uint16", "bool": "uint8"}.get(dtype, dtype))
        )
        sealed = session.call(DIMS, {"x": values})
        assert isinstance(sealed, SealedCall), sealed
        assert sealed.outputs["y"].tobytes() == values.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("result", "says"),
    [
        ("2 * x", ""),
        ("(2 * x,)", ""),
        ("torch.return_types.sort((2 * x, x))", "1 results are wanted, not 2: y"),
        ("Named(2 * x)", ""),
        ("Sly((2 * x,))", ""),
        ("torch.nn.Parameter(2 * x)", ""),
        ("(2 * x).view(500, 2).t().contiguous().t().reshape(1000)", ""),
        ("2 * x.double()", "torch.float64"),
        ("(2 * x)[:-1]", "[999]"),
        ("torch.zeros(1).expand(1000)", "not contiguous"),
        ("x", "memory of the input x"),
        ("marked(2 * x)", "attributes of its own: note"),
    ],
)
def test_returned_tensors_must_be_plain(tmp_path: Path, result: str, says: str) -> None:
    pytest.importorskip("torch")
    text = (
        "import torch\nfrom typing import NamedTuple\ndef marked(t):\n    t.note = 1\n    return t\n"
        "class Named(NamedTuple):\n    y: object\n"
        "class Sly(tuple):\n    def __iter__(self):\n        raise SystemExit\n    __len__ = __getitem__ = __iter__\n"
    )
    with opened(
        tmp_path, f"{text}def twice(x):\n    return {result}\n", task("python", convention="return")
    ) as session:
        found = session.call(DIMS, x())
        assert isinstance(found, BrokenWorker) == bool(says), found
        if isinstance(found, BrokenWorker):
            assert found.reason == "output"
            assert says in found.detail


SLOW_THEN = """import time, torch
calls = 0
def twice(x, y):
    global calls
    calls += 1
    time.sleep(1.5 if calls == {slow} else 0)
    torch.mul(x, 2, out=y)
"""


@pytest.mark.parametrize(("slow", "reason"), [(1, None), (2, "timeout")])
def test_the_first_call_of_a_size_may_compile(tmp_path: Path, slow: int, reason: str | None) -> None:
    pytest.importorskip("torch")
    with opened(tmp_path, SLOW_THEN.format(slow=slow), task("python")) as session:
        results = [session.call(DIMS, x(), timeout_s=1) for _ in range(2)]
    assert isinstance(results[0], SealedCall), results[0]
    assert (results[1].reason if isinstance(results[1], BrokenWorker) else None) == reason


@pytest.mark.parametrize(
    ("result", "says"),
    [
        ("None", "NoneType instead of a numpy.ndarray"),
        ("[2 * x, x]", "1 results are wanted, not 2: y"),
        ("(2 * x).astype('float64')", "float64"),
        ("(2 * x).reshape(10, 100)", "[10, 100] instead of"),
        ("x[::-1]", "not contiguous"),
        ("x", "memory of the input x"),
    ],
)
@pytest.mark.slow
def test_returned_arrays_must_be_plain(tmp_path: Path, result: str, says: str) -> None:
    with opened(tmp_path, f"def twice(x):\n    return {result}\n", task("python", convention="return")) as session:
        broken = _broken(session)
        assert broken.reason == "output"
        assert says in broken.detail


@pytest.mark.parametrize("shape", [(), ("1",)])
@pytest.mark.parametrize(
    ("result", "says"),
    [
        ("np.float32(x.sum())", ""),
        ("x.sum(keepdims=True).reshape(y_shape)", ""),
        ("(x.sum(),)", ""),
        ("np.float64(x.sum())", "float64"),
        ("float(x.sum())", "a float instead of"),
        ("Other(1)", "a Other instead of"),
    ],
)
@pytest.mark.slow
def test_a_scalar_is_an_array_of_one_element(tmp_path: Path, result: str, says: str, shape: tuple[str, ...]) -> None:
    given = task("python", convention="return").model_copy(update={"outputs": (Output(name="y", shape=shape),)})
    text = f"import numpy as np\ny_shape = {tuple(map(int, shape))}\nclass Other(np.float32):\n    pass\n"
    with opened(tmp_path, f"{text}def twice(x):\n    return {result}\n", given) as session:
        given_now = x()
        found = session.call(DIMS, given_now)
        if says:
            assert isinstance(found, BrokenWorker)
            assert says in found.detail
        else:
            assert isinstance(found, SealedCall), found
            assert float(found.outputs["y"].reshape(())) == pytest.approx(float(given_now["x"].sum()), abs=1e-3)


@pytest.mark.parametrize(
    ("text", "given", "reason", "says"),
    [
        ("#include <stdint.h>\nvoid twice(", task(), "load", "does not compile"),
        ("#include <stdint.h>\nvoid thrice(void) {}\n", task(), "load", "twice"),
        ("def twice(x, y:\n", task("python"), "load", "SyntaxError"),
        ("thrice = 1\n", task("python"), "load", "twice"),
        ("import sys\nsys.exit(0)\n", task("python"), "load", "exit code 0"),
        ("import os\nos._exit(0)\n", task("python"), "load", "exit code 0"),
        ("import no_such_module\n", task("python"), "load", "no_such_module"),
        ("x = bytearray(1 << 45)\n", task("python"), "memory", "MemoryError"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n", task("python"), "load", ""),
    ],
)
def test_what_cannot_be_loaded_says_why(tmp_path: Path, text: str, given: Task, reason: str, says: str) -> None:
    with unopened(tmp_path, text, given) as session:
        broken = session.open()
        assert broken is not None
        assert broken.reason == reason, broken
        assert says in broken.detail
        assert session.call(DIMS, x()) is broken


DEEP = "static void deep(volatile char *a) { char b[65536]; b[0] = *a; deep(b); b[1] = *a; }"


@pytest.mark.parametrize(
    ("before", "then", "reason", "says"),
    [
        ("", "*(volatile int *)0 = 1;", "crash", "ended"),
        ("", "abort();", "crash", "ended"),
        ("", "exit(0);", "crash", "exit code 0"),
        ("", "_exit(0);", "crash", "exit code 0"),
        ("", "for (;;) ;", "timeout", "within"),
        ("", "raise(SIGSTOP);", "timeout", "within"),
        ("", "sleep(100);", "timeout", "within"),
        ("", "for (int i = 3; i < 64; i++) close(i);", "crash", "ended"),
        ("", "for (int i = 3; i < 64; i++) write(i, y, 256);", "protocol", "begin"),
        ("", "for (int i = 3; i < 64; i++) write(i, y, 1);", "protocol", "bytes"),
        ("", "for (int i = 0; i < 100000; i++) puts(\"much\"); fflush(stdout); abort();", "crash", "much"),
        ("", "if (!malloc(1l << 45)) { fputs(\"Cannot allocate memory\", stderr); abort(); }", "memory", "allocate"),
        (DEEP, "deep((char *)x);", "crash", "ended"),
    ],
)  # fmt: skip
@pytest.mark.slow
def test_a_candidate_that_breaks_is_a_value(tmp_path: Path, before: str, then: str, reason: str, says: str) -> None:
    with opened(tmp_path, C % (before, then)) as session:
        broken = _broken(session, timeout_s=1.0)
        assert broken.reason == reason, broken
        assert says in broken.detail
        assert len(broken.detail) < 3000


def test_memory_beside_and_inputs_are_watched(tmp_path: Path) -> None:
    with opened(tmp_path, C % ("", "y[n] = 1; x[0] = x[0] + 1;")) as session:
        sealed = _called(session)
        assert sealed.guards_broken == ("y",)
        assert sealed.inputs_changed == ("x",)


def test_what_a_mutated_input_holds_is_an_output(tmp_path: Path) -> None:
    with opened(tmp_path, C % ("", "x[0] = 7;"), task(constness="mutated")) as session:
        sealed = _called(session)
        assert sealed.inputs_changed == ()
        assert sealed.outputs["x"][0] == 7


def test_constant_inputs_keep_their_place_and_values(tmp_path: Path) -> None:
    with opened(tmp_path, HONEST_C, task(constness="const")) as session:
        inputs = x()
        for placement in (0, 1, 0):
            sealed = session.call(DIMS, inputs, placement=placement)
            assert isinstance(sealed, SealedCall)
            assert (sealed.outputs["y"] == 2 * inputs["x"]).all()
        with pytest.raises(ValueError, match="constant"):
            session.call(DIMS, x())


ADDRESS = "#include <stdint.h>\nvoid where(const float *x, int64_t *y, int64_t n) { y[0] = (int64_t)x; y[1] = n; }\n"


def test_the_same_place_and_size_is_the_same_address_and_the_other_place_another(tmp_path: Path) -> None:
    given = Task(
        name="where",
        language="c",
        source=("kernel.c",),
        entry="where",
        inputs=(Input(name="x", shape=("n",)),),
        outputs=(Output(name="y", shape=("2",), dtype="int64"),),
        shapes=(Shape(label="s", dims=DIMS),),
    )
    with opened(tmp_path, ADDRESS, given) as session:
        found = []
        for n, placement in ((N, 0), (N, 1), (N, 0), (8, 0), (N, 1)):
            sealed = session.call({"n": n}, x(n), placement=placement)
            assert isinstance(sealed, SealedCall)
            assert sealed.outputs["y"][1] == n
            found.append(int(sealed.outputs["y"][0]))
        first, second, again, other, last = found
        assert (first, second) == (again, last)
        assert len({first, second, other}) == 3
        assert all(address % 64 == 0 for address in found)


SIZES = """
    for (int i = 3; i < 64; i++) {
        if (ftruncate(i, 0) == 0 && lseek(i, 0, SEEK_END) == 0) y[0] = -1;
        ftruncate(i, 1l << 40);
    }
"""


def test_the_size_of_shared_memory_cannot_be_changed(tmp_path: Path) -> None:
    with opened(tmp_path, C % ("", SIZES)) as session:
        for _ in range(3):
            inputs = x()
            sealed = session.call(DIMS, inputs)
            assert isinstance(sealed, SealedCall)
            assert (sealed.outputs["y"] == 2 * inputs["x"]).all()


LATER = """
static float *from, *to; static int64_t count; static volatile int begun;
static void *later(void *nothing) {
    usleep(20000);
    for (int64_t i = 0; i < count; i++) to[i] = 2 * from[i];
    return nothing;
}
void twice(float *x, float *y, int64_t n) {
    pthread_t thread;
    from = x; to = y; count = n;
    pthread_create(&thread, 0, later, 0);
}
"""
HEAD = C.split("%s")[0]


def test_work_done_after_the_return_is_not_in_the_answer(tmp_path: Path) -> None:
    with opened(tmp_path, HEAD + LATER) as session:
        session.settle_us = 200_000
        inputs = x()
        sealed = session.call(DIMS, inputs, poison=POISON)
        assert isinstance(sealed, SealedCall)
        assert (sealed.outputs["y"] == 5).all()
        assert sealed.late is not None
        assert (sealed.late["y"] == 2 * inputs["x"]).all()
        assert session.threads() in (1, 2)


COUNTING = """
static volatile int64_t ticks; static int begun;
static void *tick(void *nothing) { for (;;) { usleep(100); ticks++; } return nothing; }
void twice(float *x, float *y, int64_t n) {
    pthread_t thread;
    if (!begun++) pthread_create(&thread, 0, tick, 0);
    y[0] = (float)ticks;
}
"""


@pytest.mark.parametrize("holding", [True, False])
def test_no_thread_of_the_candidate_runs_between_calls(tmp_path: Path, holding: bool) -> None:
    with opened(tmp_path, HEAD + COUNTING) as session:
        worker = session._worker
        assert worker is not None
        if not holding:  # the control: it does run when nobody stops it
            worker.freezer.resume()
            worker.freezer.works = False
        _called(session)
        first = _called(session).outputs["y"][0]
        time.sleep(0.5)
        second = _called(session).outputs["y"][0]
        # some 3000 in the half second where nobody stops it; beside other work the calls themselves leave it a few dozen
        assert bool(second - first < 200) is holding
        assert session.threads() == 2


FORKING = """
static int begun;
void twice(float *x, float *y, int64_t n) {
    if (!begun++ && !fork() && !fork()) { setsid(); for (;;) sleep(1); }
    for (int64_t i = 0; i < n; i++) y[i] = 2 * x[i];
}
"""


def test_a_process_that_the_candidate_left_beside_it_is_counted_and_ends_with_it(tmp_path: Path) -> None:
    with opened(tmp_path, HEAD + FORKING) as session:
        assert session.processes() in (0, None)
        _called(session)
        if session.processes() is None:
            pytest.skip("without namespaces they cannot be told from others")
        until = time.monotonic() + 10
        while session.processes() != 2 and time.monotonic() < until:  # the second is begun by the first, which runs on
            time.sleep(0.01)
        assert session.processes() == 2
        found = session._running.freezer.list_siblings()
    assert found is not None
    assert len(found) == 2
    assert not any(Path(f"/proc/{pid}").exists() for pid in found)


FORGING = """
import os, sys, time
def twice(x, y):
    loop = sys._getframe(1).f_locals
    frames = sys.modules["judge_frames"]
    answer = frames.packed(frames.Frame(frames.DONE, loop["data"][24:40], claim_ns=1))
    loop["self"]._wire.send(answer)
    time.sleep(0.01)
    y[:] = 2 * x
"""


@pytest.mark.slow
def test_an_answer_that_is_sent_too_early_seals_what_is_there(tmp_path: Path) -> None:
    with opened(tmp_path, FORGING) as session:
        sealed = _called(session)
        assert sealed.claimed_us == 0.001
        assert (sealed.outputs["y"] == 5).all()
        session._running.freezer.resume()
        time.sleep(0.1)
        found = session.call(DIMS, x())
        assert isinstance(found, BrokenWorker)
        assert found.reason == "protocol"


REPLAYING = """
import sys
kept = []
def twice(x, y):
    y[:] = 2 * x
    loop = sys._getframe(1).f_locals
    kept.append(loop["data"][24:40])
    if len(kept) == 3:
        frames = sys.modules["judge_frames"]
        loop["self"]._wire.send(frames.packed(frames.Frame(frames.DONE, kept[0])))
"""


@pytest.mark.slow
def test_an_old_answer_is_none(tmp_path: Path) -> None:
    with opened(tmp_path, REPLAYING) as session:
        _called(session)
        _called(session)
        broken = _broken(session)
        assert (broken.reason, "not to this call" in broken.detail) == ("protocol", True)


def test_the_reference_is_not_there_to_be_read(tmp_path: Path) -> None:
    (tmp_path / "reference.py").write_text("secret = 1\n")
    text = f"print(open({str(tmp_path / 'reference.py')!r}).read())\n"
    with unopened(tmp_path, text) as session:
        if session.isolation.level == "weak":
            pytest.skip("this machine cannot hide files")
        broken = session.open()
        assert broken is not None
        assert "FileNotFoundError" in broken.detail


def test_limits_of_the_caller_hold(tmp_path: Path) -> None:
    text = "def twice(x, y):\n    open('large', 'wb').write(bytes(3 << 20))\n    y[:] = 2 * x\n"
    with opened(tmp_path, text, limits=WorkerLimits(file_mb=1)) as session:
        assert _broken(session).reason == "crash"


def test_a_session_that_was_not_opened_or_is_closed_is_a_mistake_of_the_caller(tmp_path: Path) -> None:
    with unopened(tmp_path, HONEST_C) as session:
        with pytest.raises(RuntimeError):
            session.call(DIMS, x())
        assert session.threads() is None
        assert session.open() is None
    session.close()
    with pytest.raises(RuntimeError):
        session.call(DIMS, x())


def test_environment_and_processor_are_the_callers(tmp_path: Path) -> None:
    text = "import os\ndef twice(x, y):\n    y[0] = int(os.environ['WORD'])\n    y[1] = len(os.sched_getaffinity(0))\n"
    with opened(tmp_path, text, cpu=0, surroundings=Surroundings(environment={"WORD": "42"})) as session:
        assert _called(session).outputs["y"][:2].tolist() == [42, 1]


@pytest.mark.parametrize(
    ("text", "framework"),
    [
        ("import numpy\n", "numpy"),
        ("import torch.nn as nn\n", "torch"),
        ("def f():\n    from torch import nn\n", "torch"),
        ("import torchlike\n", "numpy"),
        ("import (", "numpy"),
    ],
)
def test_the_arrays_are_those_that_the_source_asks_for(tmp_path: Path, text: str, framework: str) -> None:
    (tmp_path / "kernel.py").write_text(text)
    assert framework_of(task("python"), tmp_path) == framework
    assert framework_of(task("triton"), tmp_path) == "torch"


@pytest.mark.slow
def test_a_device_that_the_candidate_left_in_error_is_a_refusal_and_no_crash(tmp_path: Path) -> None:
    text = """
import numpy
def fail(*given):
    raise RuntimeError("CUDA error: invalid argument\\nSearch for it somewhere.")
numpy.frombuffer = fail
def twice(x, y):
    numpy.multiply(x, 2, out=y)
"""
    with opened(tmp_path, text) as session:
        broken = session.call(DIMS, x(), poison=POISON)
        assert isinstance(broken, BrokenWorker)
        assert broken.reason == "output"
        assert broken.detail.startswith("device state: ")
        assert "CUDA error: invalid argument" in broken.detail


def test_inputs_and_bands_are_looked_at_as_often_as_wanted_and_no_damage_to_bands_is_lost(tmp_path: Path) -> None:
    beyond = C % ("", "x[0] += 1; y[n] = 1;")
    with opened(tmp_path, beyond) as session:
        assert session.find_overwritten(DIMS) == ()
        session.look_share = 0.0
        for _ in range(3):
            sealed = _called(session)
            assert (sealed.inputs_changed, sealed.guards_broken) == ((), ())
        assert session.find_overwritten(DIMS) == ("y",)
        assert session.find_overwritten(DIMS) == ()
        session.look_share = 0.5
        looked = [_called(session, placement=1).inputs_changed for _ in range(60)]
        assert {(), ("x",)} == set(looked)
        session.look_share = 1.0
        assert _called(session).inputs_changed == ("x",)


def test_a_version_whose_workers_start_at_once_is_built_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    second, builds = threading.Event(), list[Path]()

    def compile_slowly(task: Task, folder: Path, place: Path, **_: object) -> worker._Compiled:
        builds.append(folder)
        second.wait(0.2) if len(builds) == 1 else second.set()
        return worker._Compiled(library=b"library", printed="")

    monkeypatch.setattr(worker, "_compile", compile_slowly)
    with ThreadPoolExecutor(2) as starters:
        built = [starters.submit(worker.build_library, task(), tmp_path) for _ in range(2)]
    assert [each.result() for each in built] == [tmp_path / worker.LIBRARY] * 2
    assert builds == [tmp_path]


def test_only_a_version_that_compiles_with_pytorch_is_a_copy_of_a_process_with_its_compiler(tmp_path: Path) -> None:
    asked = worker.LoadRequest(
        task=task("python"),
        sources=tmp_path,
        framework="torch",
        device="cpu",
        cpu=None,
        limits=WorkerLimits(),
        environment={},
    )
    assert worker._warm_modules(asked) == ("torch",)
    (source,) = asked.task.source
    (tmp_path / source).write_text("import torch\n@torch.compile\ndef double(x, y):\n    y.copy_(2 * x)\n")
    assert worker._warm_modules(asked) == ("torch", *worker.TORCH_COMPILER)
