"""Power cuts of a real campaign, emulated: what was written and not synced is lost, in ways that POSIX permits.

One campaign is recorded call by call with `strace`. The disk after a cut at any call is made from that record: of each file
and each folder what was synced, and of what was not all, nothing or a part. The campaign is resumed there, and has to come to
the same ledger. Real file systems keep more; one that is mounted cannot be cut off without rights that few have.
"""

import os
import random
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.text_project import files

ROOT = Path(__file__).parents[2]
CALLS = (
    "openat,open,creat,write,pwrite64,ftruncate,rename,renameat,renameat2,link,linkat,unlink,unlinkat,mkdir,mkdirat,rmdir,"
    "symlink,symlinkat,fsync,fdatasync"
)
"""What changes files, names, or what is durable of them; Python, SQLite and git write in no other way here."""
CALL = re.compile(r"(\w+)\((.*)\) += (-?\d+)(?:<([^>]*)>)?")
WORD = re.compile(r'AT_FDCWD(?:<[^>]*>)?|-?\d+<(?P<file>[^>]*)>|"(?P<text>[^"]*)"|(?P<plain>[^,\s][^,]*)')
MODES = ("nothing", "names", "contents", "some")
"""What a cut leaves of what was not synced: of names nothing, of all nothing but names, all but names, or now this, now that."""


@dataclass
class File:
    """Contents now and, as far as any of it was synced, on the disk."""

    now: bytearray = field(default_factory=bytearray)
    synced: bytes | None = None
    mode: int = 0o644
    link: str = ""


@dataclass
class Folder:
    """Names now and on the disk, and what has changed since."""

    names: dict[str, "File | Folder"] = field(default_factory=dict)
    synced: dict[str, "File | Folder"] = field(default_factory=dict)
    changes: list[tuple[str, "File | Folder | None"]] = field(default_factory=list)

    def put(self, name: str, what: "File | Folder | None") -> None:
        """Give something that name; None: take the name away."""
        self.changes.append((name, what))
        _put(self.names, name, what)


def _put(names: dict[str, "File | Folder"], name: str, what: "File | Folder | None") -> None:
    if what is None:
        names.pop(name, None)
    else:
        names[name] = what


class Call(NamedTuple):
    """A system call that went well, with the paths of files in place of their numbers."""

    name: str
    words: list[str]
    returned: int
    data: bytes


class Disk:
    """What lies below one folder, as the calls of a record leave it."""

    def __init__(self, place: Path) -> None:
        """`place`: read as it is now, all of it durable."""
        self._place = str(place)
        self._top = _read(place)

    def carry_out(self, call: Call) -> bool:
        """Whether the call concerns this folder; then it is done here."""
        places = [word for word in call.words if word == self._place or word.startswith(f"{self._place}/")]
        if not places:
            return False
        name = call.name.removesuffix("2").removesuffix("at")
        what = self._find(places[0])
        match name:
            case "rename" | "link":
                self._name(places[-1], what)
                if name == "rename":
                    self._name(places[0], None)
            case "unlink" | "rmdir":
                self._name(places[0], None)
            case "mkdir":
                self._name(places[0], Folder())
            case "symlink":
                self._name(places[-1], File(link=call.words[0]))
            case "open" | "creat":
                self._open(places[0], " ".join(call.words))
            case "fsync" | "fdatasync" if isinstance(what, Folder):
                what.synced, what.changes = dict(what.names), []
            case _ if isinstance(what, File):
                _change(what, call)
        return True

    def _find(self, path: str) -> "File | Folder | None":
        here: File | Folder | None = self._top
        for part in Path(path).relative_to(self._place).parts:
            here = here.names.get(part) if isinstance(here, Folder) else None
        return here

    def _name(self, path: str, what: "File | Folder | None") -> None:
        folder = self._find(str(Path(path).parent))
        if isinstance(folder, Folder):
            folder.put(Path(path).name, what)

    def _open(self, path: str, flags: str) -> None:
        present = self._find(path)
        if present is None and "O_CREAT" in flags and "O_TMPFILE" not in flags:
            mode = flags.rpartition(" ")[2]
            self._name(path, File(mode=int(mode, 8) & 0o755 if mode.isdigit() else 0o644))
        elif isinstance(present, File) and "O_TRUNC" in flags:
            present.now = bytearray()

    def write(self, place: Path, mode: str, draw: random.Random) -> None:
        """Make `place` what a cut now leaves."""
        _write(self._top, place, mode, draw)

    def compare(self) -> list[str]:
        """Files and folders that are not, without a cut, what stands there: what the record lacks."""
        return sorted(_differences(self._top, Path(self._place)))


def _change(file: File, call: Call) -> None:
    """What a call does to a file's contents. Files are written from their beginning, or at their end."""
    match call.name:
        case "write":
            file.now += call.data[: call.returned]
        case "pwrite64":
            at = int(call.words[-1])
            file.now = file.now.ljust(at, b"\0")
            file.now[at : at + call.returned] = call.data[: call.returned]
        case "ftruncate":
            size = int(call.words[-1])
            file.now = file.now[:size].ljust(size, b"\0")
        case "fsync" | "fdatasync":
            file.synced = bytes(file.now)


def _read(place: Path) -> Folder:
    folder = Folder()
    for path in place.iterdir():
        if path.is_symlink():
            folder.names[path.name] = File(link=str(path.readlink()))
        elif path.is_dir():
            folder.names[path.name] = _read(path)
        else:
            data = path.read_bytes()
            folder.names[path.name] = File(bytearray(data), data, path.stat().st_mode & 0o777)
    folder.synced = dict(folder.names)
    return folder


def _write(folder: Folder, place: Path, mode: str, draw: random.Random) -> None:
    place.mkdir()
    names = dict(folder.synced)
    kept = {"nothing": 0, "contents": 0, "names": len(folder.changes), "some": draw.randint(0, len(folder.changes))}
    for name, what in folder.changes[: kept[mode]]:
        _put(names, name, what)
    for name, what in names.items():
        path = place / name
        if isinstance(what, Folder):
            _write(what, path, mode, draw)
        elif what.link:
            path.symlink_to(what.link)
        else:
            path.write_bytes(_contents(what, mode, draw))
            path.chmod(what.mode)


def _contents(file: File, mode: str, draw: random.Random) -> bytes:
    """A file that grew has what was synced of it; one that was never synced may be empty."""
    synced, now = file.synced or b"", bytes(file.now)
    if synced == now:
        return now
    if mode == "some":
        mode = draw.choice(("nothing", "contents", "torn"))
    if mode == "torn" and now.startswith(synced):
        return now[: draw.randint(len(synced), len(now))]
    return now if mode == "contents" else synced


def _differences(folder: Folder, place: Path) -> Iterator[str]:
    present = {path.name for path in place.iterdir()}
    yield from (str(place / name) for name in present ^ folder.names.keys())
    for name in present & folder.names.keys():
        what = folder.names[name]
        if isinstance(what, Folder):
            yield from _differences(what, place / name)
        elif not what.link and (place / name).read_bytes() != bytes(what.now):
            yield str(place / name)


def read_calls(record: Path) -> Iterator[Call]:
    """The calls of a record by `strace -f -y -xx` that went well, in the order in which they ended."""
    begun: dict[str, str] = {}
    with record.open(encoding="ascii") as lines:
        for line in lines:
            process, _, text = line.strip().partition(" ")
            text = text.strip()
            if text.endswith("<unfinished ...>"):
                begun[process] = text.removesuffix("<unfinished ...>")
                continue
            if text.startswith("<..."):
                text = begun.pop(process, "") + text.partition("resumed>")[2]
            call = CALL.match(text)
            if call and int(call[3]) >= 0:
                yield _parse(call)


def _parse(call: re.Match[str]) -> Call:
    words: list[str] = []
    data = b""
    for word in WORD.finditer(call[2]):
        text = word["text"]
        if text is not None and call[1] in ("write", "pwrite64"):
            data = bytes.fromhex(text.replace("\\x", ""))
        elif text is not None or word["file"] is not None:
            hexed = text if text is not None else word["file"]
            words.append(os.fsdecode(bytes.fromhex(hexed.replace("\\x", ""))))
        elif word["plain"]:
            words.append(word["plain"].strip())
    return Call(call[1], words, int(call[3]), data)


# The campaign that is cut off, and what came of it.


@dataclass
class Cuts:
    """What a series of cuts came to."""

    ends: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


class CutCampaign:
    """A campaign on recorded answers, recorded call by call."""

    def __init__(self, folder: Path) -> None:
        """`folder`: empty."""
        self._folder, self._run = folder, folder / "run"
        before = folder / "before" / "kernels"
        before.mkdir(parents=True)
        for path, text in files().items():
            (before / path).write_text(text)
        (before / "harness.py").chmod(0o755)
        identity = ("-c", "user.name=Somebody", "-c", "user.email=somebody@localhost")
        for words in (("init", "-q", "-b", "main"), ("add", "-A"), (*identity, "commit", "-q", "-m", "start")):
            subprocess.run(("git", *words), cwd=before, check=True)
        self._start_anew()
        self._drive("start", self._run / "kernels")
        shutil.move(self._run, folder / "recorded")
        self._recording = find_campaign(folder / "recorded")
        self._ledger = (self._recording / "ledger.jsonl").read_bytes()
        self._start_anew()
        self._disk = Disk(self._run)
        record = folder / "calls"
        trace = ("strace", "-f", "-y", "-xx", "-s", "100000000", "--seccomp-bpf", "-o", record, "-e", f"trace={CALLS}")
        self._drive("start", self._run / "kernels", self._recording, prefix=trace)
        self._calls = [call for call in read_calls(record) if self._disk.carry_out(call)]
        self.lacks = self._disk.compare()
        self.count = len(self._calls)

    def _start_anew(self) -> None:
        shutil.rmtree(self._run, ignore_errors=True)
        shutil.copytree(self._folder / "before", self._run)

    def cut(self, tally: Cuts, at: int, mode: str, draw: random.Random) -> None:
        """Cut the power after so many calls, resume, compare."""
        self._start_anew()
        disk = Disk(self._run)
        for call in self._calls[:at]:
            disk.carry_out(call)
        shutil.rmtree(self._run)
        disk.write(self._run, mode, draw)
        what = f"call {at} of {self.count}, {mode} kept"
        kept = self._folder / f"{at}-{mode}"
        shutil.copytree(self._run, kept, symlinks=True)
        end, why = self._go_on()
        tally.ends[end] += 1
        if why:
            tally.failures.append(f"{what}: {end}: {why} ({kept})")
        else:
            shutil.rmtree(kept)

    def _go_on(self) -> tuple[str, str]:
        """How the campaign ended when it was resumed, and why that is bad; empty when it is not."""
        campaigns = [*(self._run / "kernels/agent/workspace").glob("*/request.json")]
        again = ("resume", campaigns[0].parent) if campaigns else ("start", self._run / "kernels", self._recording)
        end = "went on" if campaigns else "began again"
        code, problem = self._try(*again)
        if code == 2 and "Traceback" not in problem and campaigns:
            end = "went on after `fsck --repair`"
            subprocess.run(
                (sys.executable, "-m", "ridgeline", "fsck", campaigns[0].parent, "--repair"),
                cwd=ROOT, env=self._environment(), capture_output=True, check=False,
            )  # fmt: skip
            first = problem.strip().splitlines()[-1]
            code, problem = self._try(*again)
            problem = f"{first} / then: {problem}"
        if code != 0 or "Traceback" in problem:
            return "stood still", f"exit {code}: {' | '.join(problem.strip().splitlines()[-2:])}"
        ledger = (find_campaign(self._run) / "ledger.jsonl").read_bytes()
        return (end, "") if ledger == self._ledger else ("went wrong", "the ledger is another")

    def _drive(self, *words: object, prefix: tuple[object, ...] = ()) -> None:
        argv = (*map(str, prefix), sys.executable, "-m", "tests.drive", *map(str, words))
        subprocess.run(argv, cwd=ROOT, env=self._environment(), check=True)

    def _try(self, *words: object) -> tuple[int, str]:
        argv = (sys.executable, "-m", "tests.soak.resumed", *map(str, words))
        ended = subprocess.run(argv, cwd=ROOT, env=self._environment(), capture_output=True, text=True, check=False)
        return ended.returncode, ended.stderr

    def _environment(self) -> dict[str, str]:
        """The user's cache and runtime folders lie beside the repository: they are cut off with it."""
        runtime = self._folder / "runtime"
        runtime.mkdir(exist_ok=True)
        return {**os.environ, "RIDGELINE_CACHE": str(self._run / "cache"), "XDG_RUNTIME_DIR": str(runtime)}


def find_campaign(run: Path) -> Path:
    """The one campaign of a repository."""
    (request,) = (run / "kernels/agent/workspace").glob("*/request.json")
    return request.parent


def cut_power(folder: Path, *, count: int, seed: int = 11) -> Cuts:
    """So many cuts at moments spread over the campaign, by turns in each way of losing what was not synced."""
    campaign, draw, tally = CutCampaign(folder), random.Random(seed), Cuts()
    tally.failures += [f"the record of calls lacks {path}" for path in campaign.lacks]
    for number in range(count):
        at = round((number + draw.random()) * campaign.count / count)
        campaign.cut(tally, at, MODES[number % len(MODES)], draw)
    return tally
