"""The trusted process that holds a card, with the processor as the device: whole verdicts over its pipes."""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

torch = pytest.importorskip("torch")

from ridgeline.agent import verification  # noqa: E402
from ridgeline.sandbox.harness import judge_cache  # noqa: E402
from ridgeline.sandbox.harness.judge_segments import HostMemory, SegmentError  # noqa: E402
from ridgeline.sandbox.isolation.workers import machine_isolation  # noqa: E402
from ridgeline.sandbox.judge import device_host, device_process, device_session, judgment, task_judge  # noqa: E402
from ridgeline.sandbox.judge.device_process import CardLost, close_device_process  # noqa: E402
from ridgeline.sandbox.judge.options import HERE, JudgeTimeout, Options, Surroundings  # noqa: E402
from ridgeline.sandbox.judge.references import ReferenceFailed  # noqa: E402
from ridgeline.sandbox.judge.worker import Worker, WorkerLost  # noqa: E402

TASK = """
name: soft
language: python
source: [kernel.py]
entry: soft
inputs: [{name: x, shape: [r, c]}]
outputs: [{name: y, shape: [r, c]}]
shapes: [{label: s, dims: {r: 256, c: 512}}]
"""
HONEST = "import torch\ndef soft(x, y):\n    e = torch.exp(x - x.amax(-1, keepdim=True))\n    y.copy_(e / e.sum(-1, keepdim=True))\n"
SLOW = HONEST + "    for _ in range(100):\n        (x * x).sum()\n"
LATE = "calls = []\n" + HONEST + "    calls.append(1)\n    if len(calls) > 90:\n        y[0, 0] = 1\n"
QUICK = Options(calibration_pairs=2, pairs=2, most_pairs=3, blocks=3, long_calls=400, long_s=20)


@pytest.fixture(scope="module", autouse=True)
def process() -> Iterator[None]:
    yield
    close_device_process()


@pytest.fixture(autouse=True)
def on_device(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (judgment, task_judge):
        monkeypatch.setattr(module, "is_judged_on_card", lambda task, options: options.device_path)


@pytest.fixture
def task_file(tmp_path: Path) -> Path:
    for name, text in {"slow": SLOW, "late": LATE, "honest": HONEST}.items():
        (tmp_path / name).mkdir(mode=0o755)
        (tmp_path / name / "kernel.py").write_text(text)
    (tmp_path / "kernel.py").write_text(HONEST)
    (tmp_path / "reference.py").write_text("import torch\ndef reference(x):\n    return torch.softmax(x, -1)\n")
    (tmp_path / "task.yaml").write_text(TASK)
    return tmp_path / "task.yaml"


def test_a_whole_judgement_comes_from_the_process_and_says_so(task_file: Path) -> None:
    folder = task_file.parent
    verdict = judgment.judge(task_file, candidate=folder / "honest", against=folder / "slow", options=QUICK)
    assert verdict.path == "card"
    assert verdict.correct.answer == "yes", verdict.lines
    assert verdict.speedup is not None
    assert verdict.speedup > 2
    assert "judged calls, on the card" in verdict.lines[-1]
    packs = list((Path(os.environ["RIDGELINE_CACHE"]) / "compiled").glob("*.pack"))
    assert len(packs) >= 2 or machine_isolation().level != "namespaces", "of either version"


def test_what_is_right_for_many_calls_and_wrong_then_is_found(task_file: Path) -> None:
    verdict = task_judge.judge_correctness(
        task_file, task_file.parent / "late", QUICK.model_copy(update={"long_calls": 1600}), HERE
    )
    assert verdict.correct.answer == "no"
    assert "of one process" in verdict.correct.evidence[0] or "processes" in verdict.correct.evidence[0]


def test_pairs_and_refusals_come_over_the_pipe(task_file: Path) -> None:
    folder = task_file.parent
    timed = task_judge.TaskJudge(QUICK).compare(
        task_file, folder / "slow", folder / "honest", shapes=(), blocks=2, timeout_s=60
    )
    assert isinstance(timed, tuple)
    assert len(timed) == 8
    (folder / "honest" / "kernel.py").write_text("def soft(x, y):\n    pass\n")
    refused = task_judge.TaskJudge(QUICK).compare(
        task_file, folder / "slow", folder / "honest", shapes=(), blocks=2, timeout_s=60
    )
    assert isinstance(refused, task_judge.JudgeFailed)
    assert (refused.reason, refused.side) == ("refused", "b")


def test_the_card_is_given_back_when_nothing_is_asked_and_what_was_learned_stays(task_file: Path) -> None:
    task_judge.judge_correctness(task_file, None, QUICK, HERE)
    host = psutil.Process(device_process._processes[device_process._key()]._process.pid)
    holders = [each for each in host.children() if "device_host" in " ".join(each.cmdline())]
    assert len(holders) == 1
    until = time.monotonic() + 10
    while holders[0].is_running() and holders[0].status() != psutil.STATUS_ZOMBIE and time.monotonic() < until:
        time.sleep(0.1)
    assert not holders[0].is_running() or holders[0].status() == psutil.STATUS_ZOMBIE
    assert task_judge.judge_correctness(task_file, None, QUICK, HERE).correct.answer == "yes"


def list_stems() -> list[int]:
    """Processes that workers are copies of, of the process that is asked."""
    host = psutil.Process(device_process._processes[device_process._key()]._process.pid)
    stems = []
    for each in host.children():
        with contextlib.suppress(psutil.ZombieProcess, psutil.NoSuchProcess):
            stems += [each.pid] if "stem.main()" in " ".join(each.cmdline()) else []
    return stems


def test_what_workers_are_copies_of_is_there_before_the_first_question_whatever_card_is_meant(
    task_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    close_device_process()
    monkeypatch.setattr(device_process, "is_judged_on_card", lambda task, options: True)
    card: dict[str, str] = {}
    judge = task_judge.TaskJudge(QUICK, environment=lambda: card)
    judge.warm_up(task_file)
    until = time.monotonic() + 30
    while not (stems := list_stems()) and time.monotonic() < until:
        time.sleep(0.05)
    assert len(stems) == 1
    card["CUDA_VISIBLE_DEVICES"] = "GPU-1"
    found = judge.check(task_file, task_file.parent / "honest", timeout_s=60)
    assert not isinstance(found, task_judge.JudgeFailed)
    assert found.correct.answer == "yes"
    assert list_stems() == stems


def test_what_the_tests_had_compiled_can_be_read_and_of_another_version_is_nothing(task_file: Path) -> None:
    judge, folder = task_judge.TaskJudge(QUICK), task_file.parent
    leaves = "import os, pathlib\npathlib.Path(os.environ['XDG_CACHE_HOME'], 'made').write_text('by the tests')\n"
    (folder / "honest" / "kernel.py").write_text(leaves + HONEST)
    assert not isinstance(judge.check(task_file, folder / "honest", timeout_s=60), task_judge.JudgeFailed)
    packed = judge.read_compiled(task_file, folder / "honest")
    judge_cache.unpack(packed, str(folder / "cache"))
    assert (folder / "cache" / "made").read_text() == "by the tests"
    assert judge.read_compiled(task_file, folder / "slow") == b""
    assert judge.read_compiled(folder / "none.yaml", folder) == b""


def test_a_lost_process_is_no_verdict_and_the_next_question_starts_another(task_file: Path) -> None:
    task_judge.judge_correctness(task_file, None, QUICK, HERE)
    host = psutil.Process(device_process._processes[device_process._key()]._process.pid)
    host.send_signal(signal.SIGKILL)
    host.wait(10) if host.is_running() and host.ppid() != os.getpid() else time.sleep(0.2)
    with pytest.raises(CardLost, match="was lost"):
        task_judge.judge_correctness(task_file, None, QUICK, HERE)
    assert task_judge.judge_correctness(task_file, None, QUICK, HERE).correct.answer == "yes"


def test_errors_are_those_of_the_other_path_and_numpy_goes_there(task_file: Path) -> None:
    folder = task_file.parent
    with pytest.raises(JudgeTimeout):
        task_judge.judge_correctness(task_file, None, QUICK, Surroundings(until=time.monotonic() + 0.2))
    (folder / "reference.py").write_text("import torch\ndef reference(x):\n    raise ValueError('no')\n")
    with pytest.raises(ReferenceFailed, match="line 3: ValueError: no"):
        task_judge.judge_correctness(task_file, None, QUICK, HERE)
    (folder / "reference.py").write_text(
        "import numpy\ndef reference(x):\n    e = numpy.exp(x - x.max(-1, keepdims=True))\n    return e / e.sum(-1, keepdims=True)\n"
    )
    (folder / "kernel.py").write_text(
        "import numpy\ndef soft(x, y):\n    e = numpy.exp(x - x.max(-1, keepdims=True))\n    y[:] = e / e.sum(-1, keepdims=True)\n"
    )
    verdict = task_judge.judge_correctness(task_file, None, QUICK, HERE)
    assert (verdict.path, verdict.correct.answer) == ("processor", "yes")


def test_a_hole_of_the_task_is_looked_for_with_few_items_and_once(
    task_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verification, "is_judged_on_card", lambda task, options: options.device_path)
    task_file.write_text(TASK.replace("r: 256, c: 512", "r: 60000, c: 512"))
    assert verification.find_task_defects(task_file, QUICK) == ()
    began = time.monotonic()
    assert verification.find_task_defects(task_file, QUICK) == ()
    assert time.monotonic() - began < 1
    folder = task_file.parent
    (folder / "reference.py").write_text("import torch\ndef reference(x):\n    return torch.ones_like(x)\n")
    rules = {finding.rule for finding in verification.find_task_defects(task_file, QUICK)}
    assert rules >= {"constant-output", "insensitive-input"}


def test_versions_compile_at_once_before_a_pair_whose_processes_find_what_came_of_it(task_file: Path) -> None:
    folder = task_file.parent
    made = "import os, pathlib\nplace = pathlib.Path(os.environ['XDG_CACHE_HOME'], 'made')\n"
    (folder / "slow/kernel.py").write_text(
        f"{made}first = not place.exists()\nplace.write_text('')\n{HONEST}    if first: y += 1\n"
    )
    (folder / "late/kernel.py").write_text("raise ValueError('no such card')\n")
    versions = [folder / "slow", folder / "late"]
    kept, broken = task_judge.compile_versions(task_file, versions, QUICK, HERE)
    assert not kept.failure
    assert broken.failure.startswith("load: ")
    assert "no such card" in broken.failure
    timed = task_judge.time_pair(
        task_file, folder / "slow", folder / "honest", shapes=(), blocks=2, options=QUICK, surroundings=HERE
    )
    assert isinstance(timed, tuple), timed
    assert not task_judge.compile_versions(task_file, [], QUICK, HERE)


def test_a_flaw_of_the_judge_itself_is_told_with_its_place() -> None:
    answer = device_host.Holder({}).answer({"question": "test"})
    assert answer["exit_code"] == 5
    kind, text = answer["error"]
    assert kind == "CardLost"
    assert text.startswith("judging on the card failed at device_host.py:")
    assert "KeyError: 'task_file'" in text


# What ends the copy that holds the card, and a card that is short of memory.


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[device_host.Host]:
    monkeypatch.setattr(device_host, "SHORT_WAIT_S", 0.1)
    made = device_host.Host()
    yield made
    made._end()


def ask(host: device_host.Host) -> dict[str, object]:
    return host.answer({"environment": {}, "task_file": "/none", "options": {}, "until": time.monotonic() + 60})


def test_what_ended_the_holder_of_the_card_is_told(host: device_host.Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(self: device_host.Holder, words: object) -> dict[str, object]:
        raise WorkerLost("crash", "beyond repair")

    monkeypatch.setattr(device_host.Holder, "_judge", lose)
    kind, text = ask(host)["error"]
    assert kind == "CardLost"
    assert text.startswith("judging on the card failed at test_judge_device_process.py:")
    assert text.endswith("WorkerLost: crash: beyond repair")
    monkeypatch.setattr(device_host.Holder, "_judge", lambda self, words: os.kill(os.getpid(), signal.SIGKILL))
    answer = ask(host)
    assert answer["error"] == ["CardLost", "the process that holds the card was killed by signal 9"]
    assert answer["dead"]


def test_a_card_that_others_filled_is_asked_once_more(
    host: device_host.Host, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def count(self: device_host.Holder, words: object) -> dict[str, object]:
        with (tmp_path / "asked").open("a") as log:
            log.write(f"{os.getpid()}\n")
        if len((tmp_path / "asked").read_text().split()) in fails:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return {"judgment": "made"}

    monkeypatch.setattr(device_host.Holder, "_judge", count)
    memory = {"is_available": True, "is_initialized": True, "mem_get_info": (1 << 30, 80 << 30), "memory_reserved": 5}
    fails = {1}
    assert ask(host)["error"][0] == "CardShort", "nobody else had any of it: asked once"
    for name, value in memory.items():
        monkeypatch.setattr(torch.cuda, name, lambda value=value: value)
    (tmp_path / "asked").unlink()
    assert ask(host) == {"judgment": "made"}
    assert len(set((tmp_path / "asked").read_text().split())) == 2, "two copies"
    host._end()
    fails = {3, 4}
    kind, text = ask(host)["error"]
    assert kind == "CardShort"
    assert "Tried to allocate 2.00 GiB; free the card, or declare smaller sizes (shapes in task.yaml)" in text
    assert "of its 85.9 GB 1.1 are free now, others hold 84.8; so it was 0.1 s before, too" in text


def answer_here(task_file: Path, candidate: str) -> dict[str, object]:
    words = {"question": "test", "task_file": str(task_file), "candidate": str(task_file.parent / candidate)}
    more = {"against": None, "options": QUICK.model_dump(mode="json"), "environment": {}}
    return device_host.Holder({}).answer({**words, **more, "until": time.monotonic() + 60})


def test_a_version_that_takes_the_card_s_memory_is_wrong_and_another_s_want_of_it_is_no_verdict(
    task_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (task_file.parent / "slow" / "kernel.py").write_text(
        "def soft(x, y):\n    raise RuntimeError('CUDA error: out of memory')\n"
    )
    closed = device_session.DeviceSession.close
    free_bytes = [1 << 20]

    def close(session: device_session.DeviceSession) -> None:
        closed(session)
        free_bytes[0] = after_bytes

    monkeypatch.setattr(device_session.DeviceSession, "close", close)
    monkeypatch.setattr(device_session, "read_card_memory", lambda device: (free_bytes[0], 80 << 30))
    after_bytes = 79 << 30
    correct = answer_here(task_file, "slow")["judgment"]["correct"]
    assert correct["answer"] == "no"
    assert "memory: its process held 84.8 of the card's 85.9 GB" in correct["evidence"][0]
    after_bytes = free_bytes[0] = 1 << 20
    kind, text = answer_here(task_file, "slow")["error"]
    assert kind == "CardShort"
    assert "while only 0.00 GB of it were free" in text
    after_bytes = free_bytes[0] = 79 << 30
    assert "out of memory" in answer_here(task_file, "slow")["judgment"]["correct"]["evidence"][0]


def test_a_start_for_which_memory_was_short_is_made_once_more(task_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    starts = []
    start = Worker.start

    def start_short(self: Worker) -> None:
        starts.append(self)
        if len(starts) == 1:
            raise WorkerLost("load", "torch.AcceleratorError: CUDA error: out of memory")
        start(self)

    monkeypatch.setattr(Worker, "start", start_short)
    assert answer_here(task_file, "honest")["judgment"]["correct"]["answer"] == "yes"
    assert len(starts) > 2


def test_a_segment_for_which_the_card_has_no_memory_is_told_with_its_size(
    task_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: HostMemory, size: int) -> None:
        raise SegmentError("cuMemCreate failed with 2")

    monkeypatch.setattr(HostMemory, "create", fail)
    kind, text = answer_here(task_file, "honest")["error"]
    assert kind == "CardShort"
    assert "0.00 GB for one worker's arrays of {'r': 256, 'c': 512} (shapes in task.yaml): cuMemCreate failed" in text
