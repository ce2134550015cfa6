"""Mutated inputs of every kind that people, tools and models give: a value or one line, never a traceback, never long.

`python -m tests.soak fuzz [COUNT] [KIND...]` runs COUNT of each kind; a failure is written beside the seed that made it.
"""

import contextlib
import io
import json
import os
import shutil
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from ridgeline.agent.cli.application import run
from ridgeline.sandbox.store.ledger import FIRST, _canonical, _seal
from tests.soak.mutations import change_value, mutate

ROOT = Path(__file__).parents[2]
LONGEST_S = 10.0
"""Of processor time, with what was waited for below it: other work on the machine is no input's fault."""
HANGS_S = 60.0
"""By the clock."""
CODES = frozenset({0, 1, 2, 3, 4, 5})
"""Exit codes that commands document; 1 is an answer of no."""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """One input that was not answered as it should be."""

    kind: str
    seed: int
    why: str
    data: bytes = b""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One sort of input: what to mutate, and who reads it."""

    name: str
    samples: Callable[[], Mapping[str, bytes]]
    """Sound inputs by the name of their file."""
    read: Callable[[Path, str], None]
    """Reads the input, which lies in that folder under that name; raises for what a user would see as a traceback."""
    alter: Callable[[bytes, Random], bytes] = mutate


@dataclass
class Tally:
    """What a number of inputs came to."""

    inputs: int = 0
    longest_s: float = 0.0
    failures: list[Failure] = field(default_factory=list)


def fuzz(
    kind: Kind, seeds: Iterable[int], folder: Path, *, tell: Callable[[Tally, Failure | None], None] | None = None
) -> Tally:
    """Read one mutated input for each seed. `folder`: empty, for inputs to lie in.

    `tell`: told of each input, with what is wrong with how it was answered.
    """
    samples = kind.samples()
    names, tally = sorted(samples), Tally()
    for seed in seeds:
        draw = Random(f"{kind.name} {seed}")
        name = draw.choice(names)
        data = kind.alter(samples[name], draw)
        why, seconds = read_once(kind, folder, name, data)
        tally.inputs += 1
        tally.longest_s = max(tally.longest_s, seconds)
        if not why and seconds > LONGEST_S:
            why = f"took {seconds:.1f} s of processor time"
        failure = Failure(kind=kind.name, seed=seed, why=why, data=data) if why else None
        if failure:
            tally.failures.append(failure)
        if tell:
            tell(tally, failure)
    return tally


def read_once(kind: Kind, folder: Path, name: str, data: bytes) -> tuple[str, float]:
    """Why the input was not answered as it should be, empty where it was; and the seconds of processor time it took."""
    place = folder / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data)
    began, worked = time.monotonic(), sum(os.times()[:4])
    why = ""
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            kind.read(folder, name)
    except Exception:  # noqa: BLE001 (whatever reaches here is what a user would see as a traceback)
        why = traceback.format_exc()
    if not why and (waited := time.monotonic() - began) > HANGS_S:
        why = f"took {waited:.0f} s by the clock"
    return why, sum(os.times()[:4]) - worked


def command(*words: object) -> None:
    """Run a command line in this process. Raises AssertionError for an exit code that no command documents."""
    code = run([str(word) for word in words])
    assert code in CODES, f"exit code {code}"


# What to mutate, and who reads it.


def _contracts() -> Mapping[str, bytes]:
    return {
        f"{task}/ridgeline.yaml": (ROOT / "evals" / "tasks" / task / "ridgeline.yaml").read_bytes()
        for task in ("softmax_c", "matmul_c", "softmax_triton", "attention_c")
    }


def _read_contract(folder: Path, name: str) -> None:
    _lay_out_task(folder, name)
    command("check", "--static", folder / name)


def _tasks() -> Mapping[str, bytes]:
    folders = ("softmax_c", "matmul_c", "attention_c", "layernorm_c")
    return {f"{task}/task.yaml": (ROOT / "evals" / "tasks" / task / "task.yaml").read_bytes() for task in folders}


def _read_task(folder: Path, name: str) -> None:
    from ridgeline.sandbox.judge.task_file import TaskError, load_task

    _lay_out_task(folder, name)
    with contextlib.suppress(TaskError):
        load_task(folder / name)


def _lay_out_task(folder: Path, name: str) -> None:
    """The other files of the shipped task beside the mutated one, once."""
    origin = ROOT / "evals" / "tasks" / Path(name).parent
    for path in origin.iterdir():
        target = folder / Path(name).parent / path.name
        if path.is_file() and not target.exists():
            shutil.copy(path, target)


def _csvs() -> Mapping[str, bytes]:
    rows = 'label,Check,GFLOPS,Time (ms)\nsmall,PASS,100.5,0.25\nlarge,FAIL,400,1e-3\n"a,b",PASS,3,4\n'
    pairs = "label,block,slot,side,time_us\nsmall,0,0,a,1.5\nsmall,0,1,b,1.25\nsmall,0,2,b,1.5\nsmall,0,3,a,2\n"
    return {"bench.csv": rows.encode(), "pair.csv": pairs.encode()}


def _read_csv(folder: Path, name: str) -> None:
    from ridgeline.sandbox.timing.benchmark_csv import read_rows, table
    from tests.builders import make_contract

    data = (folder / name).read_bytes()
    columns = ("label", "Check", "GFLOPS", "Time (ms)")
    contract = make_contract(
        benchmark_output={"columns": columns}, scoring={"primary_metric": "GFLOPS", "time_ms": "Time (ms)"}
    )
    for exact in (True, False):
        read_rows(data, contract, requested=("small",), exact=exact)
    table(data, ("label", "block", "slot", "side", "time_us"))


def _profiles() -> Mapping[str, bytes]:
    data = ROOT / "tests" / "data"
    files = [*(data / "ncu").glob("*.csv"), *(data / "torch").glob("*.gz")]
    return {path.name: path.read_bytes() for path in files}


def _read_profile(folder: Path, name: str) -> None:
    command("profile", "parse", folder / name)


def _device_pages() -> Mapping[str, bytes]:
    return {path.name: path.read_bytes() for path in (ROOT / "tests" / "data" / "gate").iterdir()}


def _read_device_page(folder: Path, name: str) -> None:
    command("gate", "--from", folder / name)


def _replies() -> Mapping[str, bytes]:
    from tests.model_fakes import direction, directions

    block = "kernel.c\n<<<<<<< SEARCH\nfor (int i = 0;\n=======\nfor (int j = 0;\n>>>>>>> REPLACE\n"
    return {
        "directions.txt": f"Here:\n```json\n{directions(direction(), direction())}\n```\n".encode(),
        "edit.txt": f"I change the loop.\n\n{block}\n```c kernel.c\nint x;\n```\n".encode(),
        "lessons.json": json.dumps({"lesson": "a", "applies": "b", "root_cause": "c", "next_direction": "d"}).encode(),
        "review.json": json.dumps({"categories": {"memory": {"seen": "a", "next": "b"}}}).encode(),
    }


def _read_reply(folder: Path, name: str) -> None:
    from ridgeline.agent.planner import directions
    from ridgeline.agent.planner.checks import of_planning
    from ridgeline.agent.planner.edits import apply_answer, explanation
    from tests.planner_briefs import after

    text = (folder / name).read_bytes().decode(errors="replace")
    briefing = after(3)
    directions.check_directions(text, of_planning(briefing), lambda citation: "")
    directions.categories(text)
    directions.read_end(text)
    directions.read_review(text, briefing)
    directions.read_lessons(text)
    apply_answer(text, {"kernel.c": "for (int i = 0; i < n; i++) a[i] = 0;\n"}, briefing.contract)
    explanation(text)


CAMPAIGN = ROOT / "evals" / "campaigns" / "layernorm_c_mailbox"
"""A whole recorded campaign, small."""


def _ledgers() -> Mapping[str, bytes]:
    return {"campaign/ledger.jsonl": (CAMPAIGN / "ledger.jsonl").read_bytes()}


def _alter_ledger(data: bytes, draw: Random) -> bytes:
    """Half of them with one value changed and the chain made right again, as a forger would."""
    if draw.random() < 0.5:
        return mutate(data, draw)
    changed, prev, lines = change_value(data, draw), FIRST, []
    for raw in changed.splitlines():
        try:
            fields = json.loads(raw)
            fields["prev"] = prev
            fields["sha256"] = prev = _seal(fields)
            lines.append(_canonical(fields))
        except (ValueError, TypeError, RecursionError):
            lines.append(raw)
    return b"\n".join(lines) + b"\n"


def _read_ledger(folder: Path, name: str) -> None:
    campaign = (folder / name).parent
    if not (campaign / "request.json").exists():
        shutil.copy(CAMPAIGN / "request.json", campaign)
    for words in (("status",), ("report",), ("report", "--html", folder / "page.html")):
        command(words[0], campaign, *words[1:])
    command("status", campaign, "--json")


def _requests() -> Mapping[str, bytes]:
    base = {
        "commit": "1" * 40, "tree": "2" * 40, "branch": "none", "repository": "r", "contract_path": "ridgeline.yaml",
    }  # fmt: skip
    status = {
        "status": "running",
        "phase": "measure",
        "round": 3,
        "detail": "",
        "pid": 1,
        "updated": 1.5,
        "problem": "",
    }
    return {
        "campaign/request.json": (CAMPAIGN / "request.json").read_bytes(),
        "campaign/base.json": json.dumps(base).encode(),
        "campaign/status.json": json.dumps(status).encode(),
    }


def _read_request(folder: Path, name: str) -> None:
    campaign = (folder / name).parent
    for file in ("request.json", "ledger.jsonl", "tape.jsonl"):
        if file != Path(name).name:
            shutil.copy(CAMPAIGN / file, campaign)
    for other in {"base.json", "status.json"} - {Path(name).name}:
        (campaign / other).unlink(missing_ok=True)
    command("status", campaign)
    from ridgeline.agent.campaign.runner import read_campaign
    from ridgeline.graph.errors import RidgelineError

    with contextlib.suppress(RidgelineError):
        read_campaign(campaign)
    command("fsck", campaign)


def _recordings() -> Mapping[str, bytes]:
    names = ("tape.jsonl", "ledger.jsonl", "request.json", "workspace.jsonl", "recording.json")
    return {f"recording/{name}": (CAMPAIGN / name).read_bytes() for name in names if (CAMPAIGN / name).exists()}


def _read_recording(folder: Path, name: str) -> None:
    recording = (folder / name).parent
    for path in CAMPAIGN.iterdir():
        if path.name != Path(name).name:
            target = recording / path.name
            if path.is_file():
                shutil.copy(path, target)
            elif not target.exists():
                target.symlink_to(path)
    command("replay", recording)


def _memories() -> Mapping[str, bytes]:
    from ridgeline.agent.cli.memory import empty

    record = empty("v1")
    record["performance"]["tflops"] = 1.5
    return {"memory/v1.json": json.dumps(record, indent=2).encode()}


def _read_memory(folder: Path, name: str) -> None:
    memory = (folder / name).parent
    for words in (("summary",), ("latest",), ("read", "--field", "performance.tflops"), ("mask", "--version", "v1")):
        command("memory", *words, "--dir", memory)


def _wikis() -> Mapping[str, bytes]:
    shipped = ROOT / "knowledge"
    chosen = [
        *sorted(shipped.rglob("*.md"))[::25],
        *sorted(shipped.rglob("*.toml"))[:2],
        *sorted(shipped.rglob("*.yaml"))[:3],
    ]
    return {f"wiki/{path.relative_to(shipped)}": path.read_bytes() for path in chosen}


def _read_wiki(folder: Path, name: str) -> None:
    """As `check` of a contract reads it, `knowledge search` and `knowledge spec`; a wiki of this one page."""
    from ridgeline.agent.knowledge_folders import unreadable, unsound
    from ridgeline.knowledge.index import open_index
    from ridgeline.knowledge.library import Library
    from ridgeline.knowledge.search import Route, Search
    from ridgeline.knowledge.specs import Products

    wiki = folder / "wiki"
    try:
        if not unreadable(wiki):
            unsound(wiki)
        # what else ships is the same each time: the page alone is searched
        library = Library(folder=wiki)
        with Search(open_index(library)) as search:
            search.find("shared memory tile bandwidth", Route(op="gemm", gpu="gfx942"))
        products = Products(library)
        for product in products.names:
            products.all(product)
    finally:
        shutil.rmtree(wiki)


def _sources() -> Mapping[str, bytes]:
    sources = [
        *sorted((ROOT / "tests" / "adversarial").rglob("*.cu")),
        *sorted((ROOT / "evals" / "tasks").rglob("kernel.[cp]*")),
    ]
    return {f"{number}{path.suffix}": path.read_bytes() for number, path in enumerate(sources)}


def _read_source(folder: Path, name: str) -> None:
    command("audit", folder / name)


KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(name="contract", samples=_contracts, read=_read_contract),
        Kind(name="task", samples=_tasks, read=_read_task),
        Kind(name="csv", samples=_csvs, read=_read_csv),
        Kind(name="profile", samples=_profiles, read=_read_profile),
        Kind(name="device", samples=_device_pages, read=_read_device_page),
        Kind(name="reply", samples=_replies, read=_read_reply),
        Kind(name="ledger", samples=_ledgers, read=_read_ledger, alter=_alter_ledger),
        Kind(name="request", samples=_requests, read=_read_request),
        Kind(name="recording", samples=_recordings, read=_read_recording),
        Kind(name="memory", samples=_memories, read=_read_memory),
        Kind(name="source", samples=_sources, read=_read_source),
        Kind(name="wiki", samples=_wikis, read=_read_wiki),
    )
}
