"""A deep round by hand: a person, or a coding agent, edits files in a folder and calls the tools as commands.

The folder `deep/round-N/tree` of the campaign has the text files of the best version. What counts of it are the editable
files; another file that was changed is put back before the next command. The commands are `ridgeline deep build`, `test`,
`time`, `profile`, `isa` and `back`. Where the campaign waits for an answer they open it themselves; where it waits for an agent
that it started, they are sent to it.
"""

import contextlib
import json
import os
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path

from ridgeline.agent.deep.desk import DeepEnded, Desk, folder_of, read_steps
from ridgeline.agent.deep.messages import ANSWER, DESK_FOLDER, OPEN_MARK, POLL_S, REQUEST
from ridgeline.agent.errors import UserError
from ridgeline.agent.planner.conversation import Wrong, talk
from ridgeline.agent.planner.directions import read_end
from ridgeline.agent.planner.model import ModelPlanner
from ridgeline.agent.planner.tools import BriefedReader, Reader
from ridgeline.agent.providers.base import NotAsked, StopAsked, WorkPlace
from ridgeline.agent.providers.choice import MAILBOX
from ridgeline.graph.briefing import Briefing
from ridgeline.graph.contract import Contract
from ridgeline.graph.deep import DeepSpent, DeepWork
from ridgeline.graph.loop.context import read_history
from ridgeline.graph.ports import Ports
from ridgeline.graph.rules.deep import describe_deep_budget
from ridgeline.graph.standing import History
from ridgeline.graph.trial import Proposed
from ridgeline.graph.values import Cost, Instant, Value
from ridgeline.sandbox.isolation.directory_pool import read_left, remove_tree
from ridgeline.sandbox.isolation.stopping import StepEnded
from ridgeline.sandbox.store.durable import write_whole
from ridgeline.sandbox.workspace.edits import CONTRACT_FILE
from ridgeline.sandbox.workspace.globs import matches

STORY = 4000
"""Characters of a story that are kept."""
OPEN_FILE = "round.json"
RUNS = ("build", "test", "time", "profile", "isa")
"""Commands that run the tree; `back N` changes it."""


class OpenRound(Value):
    """`round.json`: the deep round whose tree lies beside it."""

    round: int
    opened_at: Instant


class WorkTree:
    """The folder that is edited, and what of it counts."""

    def __init__(self, folder: Path, contract: Contract, texts: Mapping[str, str]) -> None:
        """The folder in which hands edit a deep round. `texts`: of the best version, by path; files that are no text are not laid out."""
        self.folder = folder
        self._contract = contract
        self._texts = texts

    def lay_out(self) -> None:
        """Lay the files of the best version into the deep round's folder, where none lie yet."""
        if self.folder.is_dir():
            return
        aside = self.folder.with_name("tree.new")
        remove_tree(aside)
        for path, text in self._texts.items():
            _write(aside / path, text)
        aside.mkdir(parents=True, exist_ok=True)
        aside.rename(self.folder)

    def take_to(self, desk: Desk) -> str:
        """Make what lies in the deep round's folder the desk's tree. What is to be said: files put back, or why it may not be."""
        put_back = []
        for path, text in self._texts.items():
            if not self._is_editable(path) and _read(self.folder / path) != text:
                _write(self.folder / path, text)
                put_back.append(path)
        present = {path: _read(self.folder / path) for path in self._list_editable()}
        edits: dict[str, str | None] = {path: text for path, text in present.items() if text is not None}
        gone = (path for path in self._texts if self._is_editable(path) and edits.get(path) is None)
        refused = desk.replace_tree({**edits, **dict.fromkeys(gone)})
        notes = [f"not editable, and put back: {', '.join(put_back)}"] if put_back else []
        return "\n".join([*notes, *([f"refused: {refused}"] if refused else [])])

    def bring_from(self, desk: Desk) -> None:
        """Make the editable files of the deep round's folder those of the desk's tree."""
        for path in {*self._list_editable(), *self._texts, *desk.edits}:
            if self._is_editable(path):
                text = desk.text(path)
                remove_tree(self.folder / path)
                if text is not None:
                    _write(self.folder / path, text)

    def _is_editable(self, path: str) -> bool:
        guarded = (*self._contract.protected, CONTRACT_FILE)
        return matches(path, self._contract.editable_globs) and not matches(path, guarded)

    def _list_editable(self) -> list[str]:
        """Editable files in the deep round's folder, links to folders not followed."""
        found = (
            (Path(top) / name).relative_to(self.folder).as_posix()
            for top, _, names in os.walk(self.folder)
            if DESK_FOLDER not in Path(top).parts
            for name in names
        )
        return sorted(path for path in found if self._is_editable(path))


def _read(place: Path) -> str | None:
    """Text of a plain file of the deep round's tree; None for anything else."""
    data = read_left(place)
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return None


def _write(place: Path, text: str) -> None:
    """Writes a plain file, and no link, of the deep round's tree."""
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.is_symlink():
        place.unlink()
    write_whole(place, text.encode(), synced=False)


def read_texts(reader: Reader, commit: str) -> dict[str, str]:
    """Path -> text of a version's files, for a deep round's tree."""
    texts = ((path, reader.text(commit, path)) for path in reader.paths(commit))
    return {path: text for path, text in texts if text is not None}


class Bench:
    """A deep round's desk with the folder that hands edit."""

    def __init__(self, ports: Ports, history: History, reader: Reader, *, campaign: Path, opened: OpenRound) -> None:
        """`history`: before the deep round. Goes on after the steps that are on the disk."""
        folder = folder_of(campaign, opened.round)
        self.desk = Desk(ports, history, round=opened.round, opened_at=opened.opened_at, folder=folder)
        commit = self.desk.commit
        self.tree = WorkTree(folder / "tree", history.contract, read_texts(reader, commit))
        self.desk.take_up(read_steps(folder))
        self.tree.lay_out()
        write_whole(folder / OPEN_FILE, opened.model_dump_json().encode(), synced=False)

    def run(self, words: list[str]) -> str:
        """Answer to a command of a deep round's hands. Raises StepEnded where the campaign shall stop, and what a broken world raises."""
        name, *arguments = words or [""]
        if name not in (*RUNS, "back"):
            return f"no tool is called {name[:40]!r}; there are: {', '.join((*RUNS, 'back N'))}"
        try:
            self.desk.check_budget()
        except DeepEnded as end:
            return f"{end}; end the round with your answer: what stands is handed in if it builds"
        said = self.tree.take_to(self.desk)
        if "refused: " in said:
            return said
        if name == "back":
            answer = (
                self.desk.go_back(int(arguments[0]))
                if arguments and arguments[0].isdecimal()
                else "back N: give a step"
            )
            self.tree.bring_from(self.desk)
        else:
            answer = str(getattr(self.desk, name)())
        return f"{said}\n{answer}".lstrip()


def open_bench(ports: Ports, reader: Reader, campaign: Path) -> Bench:
    """The bench of the deep round that is open. Raises UserError where none is."""
    history = read_history(ports)
    number = (history.rounds[-1].round if history.rounds else 1) + 1
    data = read_left(folder_of(campaign, number) / OPEN_FILE)
    if data is None or history.concluded is not None:
        raise UserError(
            f"{campaign.name}: no deep round is open; ask for one with `ridgeline deep ask {campaign.name}`"
        )
    return Bench(ports, history, reader, campaign=campaign, opened=OpenRound.model_validate_json(data))


class HandsWorker:
    """`ridgeline.graph.ports.Worker` for who edits files: a mailbox, or a coding agent that is installed here."""

    def __init__(self, planner: ModelPlanner, ports: Ports, campaign: Path) -> None:
        """`ports`: as every round uses them, with their tape."""
        self._planner = planner
        self._ports = ports
        self._campaign = campaign

    def work(self, briefing: Briefing, about: Proposed) -> DeepWork:
        """A deep round by hand. Raises Waiting until a mailbox's answer, which ends the round, is there."""
        history = read_history(self._ports, before=f"round-{about.round}")
        opened = OpenRound(round=about.round, opened_at=about.opened_at)
        reader = self._planner.reader or BriefedReader(briefing)
        bench = Bench(self._ports, history, reader, campaign=self._campaign, opened=opened)
        limits = bench.desk.limits
        by_mail = self._planner.model.name == MAILBOX
        place, campaign = (
            (f"`deep/round-{about.round}/tree` of this campaign's folder", " CAMPAIGN")
            if by_mail
            else ("the folder that you run in", "")
        )
        question, prompts = self._planner.ask_deep(
            briefing,
            about,
            budget=describe_deep_budget(limits, DeepSpent(work_s=0, tokens=0, device_s=0, steps=0)),
            tree=place,
            commands=tuple(f"ridgeline deep {name}{campaign}" for name in (*RUNS, "back N")),
        )
        cost, ended, story = Cost(), "", ""
        try:
            with serve(bench) as desk:
                work_place = (
                    WorkPlace(  # tokens that the campaign must have left: an agent says only at its end what it took
                        folder=str(bench.tree.folder),
                        desk=desk,
                        minutes=limits.deep_minutes,
                        tokens=self._planner.limits.deep_tokens,
                    )
                )
                asked = replace(question, place=None if by_mail else work_place)
                exchange = talk(self._planner.model, asked, lambda text: text.strip()[:STORY])
            cost = exchange.cost
            story = "" if isinstance(exchange.value, Wrong) else exchange.value
            ended = exchange.value.why if isinstance(exchange.value, Wrong) else ""
        except StepEnded as end:
            return bench.desk.stop(str(end), cost=cost, prompts=prompts)
        except NotAsked as end:
            ended = f"{end.begins}{end}"
            if isinstance(end, StopAsked):
                return bench.desk.stop(ended, cost=cost, prompts=prompts)
        if why := read_end(story):
            return DeepWork(edits=(), refusal=f"nothing is left: {why}", exhausted=why, prompts=prompts, cost=cost)
        said = bench.tree.take_to(bench.desk)
        if "refused: " in said:
            return DeepWork(
                edits=(), refusal=said, steps=tuple(bench.desk.steps), ended=said, prompts=prompts, cost=cost
            )
        return bench.desk.hand_in(story, ended=ended, cost=cost, prompts=prompts)


# The commands of an agent that the campaign started are answered here, because it holds the campaign and the device.


@contextlib.contextmanager
def serve(bench: Bench) -> Iterator[str]:
    """Answer the commands of a deep round's agent from a folder in its tree for the block, one at a time.

    What a broken world raises ends the answering, so that the agent's next command says that nobody listens, and is
    raised at the end of the block.
    """
    desk, over = bench.tree.folder / DESK_FOLDER, threading.Event()
    remove_tree(desk)
    desk.mkdir()
    (desk / OPEN_MARK).touch()

    def listen() -> None:
        try:
            while not over.wait(POLL_S):
                for request in sorted(desk.glob(f"*{REQUEST}")):
                    said = bench.run(_read_words(request))
                    request.unlink(missing_ok=True)
                    write_whole(request.with_suffix(ANSWER), json.dumps(said).encode(), synced=False)
        finally:
            (desk / OPEN_MARK).unlink(missing_ok=True)

    with ThreadPoolExecutor(max_workers=1) as pool:
        listening = pool.submit(listen)
        try:
            yield str(desk)
        finally:
            over.set()
            wait([listening])
            remove_tree(desk)
        listening.result()


def _read_words(request: Path) -> list[str]:
    """The words of a command of a deep round's agent; none where it cannot be read."""
    try:
        words = json.loads(read_left(request) or b"[]")
    except ValueError:
        return []
    return [str(word) for word in words] if isinstance(words, list) else []
