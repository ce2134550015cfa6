"""Device steps on another machine: planner, record and git stay here, and builds, tests, timings and profiles are made there.

A contract's `device_host: ssh://[USER@]HOST[:PORT][/PATH/OF/ridgeline]`, or RIDGELINE_DEVICE_HOST, names it. One `ssh` runs
`ridgeline device-host` there, which answers the ports of `REMOTE` with the same adapters as a campaign has on this machine;
what they store comes back with each answer. A connection that is lost raises DeviceLost: nothing was recorded of the step
that was under way, and `resume` asks for it again. It is never a slow kernel.

Messages are a JSON object in a line, then the bytes that its `bytes` counts.
"""

import inspect
import io
import json
import os
import queue
import re
import socket
import subprocess
import tarfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import PurePosixPath
from typing import IO, Any, get_type_hints
from urllib.parse import urlsplit

from pydantic import TypeAdapter

from ridgeline.agent.campaign.tape import PROTOCOLS
from ridgeline.agent.console import note
from ridgeline.agent.errors import UserError
from ridgeline.agent.version import VERSION
from ridgeline.graph import errors
from ridgeline.graph import ports as declared
from ridgeline.graph.contract import Contract
from ridgeline.graph.evidence import Machine
from ridgeline.graph.limits import Limits
from ridgeline.graph.values import Artifact
from ridgeline.sandbox.devices.machine import LocalDevice
from ridgeline.sandbox.isolation import stopping
from ridgeline.sandbox.isolation.confinement import death_signal_words
from ridgeline.sandbox.store.campaign_folder import ArtifactStore
from ridgeline.sandbox.workspace.worktree import GitWorkspace

REMOTE = ("builder", "checker", "timer", "profiler", "device", "preparer")
"""Ports whose work a device host does."""
VARIABLE = "RIDGELINE_DEVICE_HOST"
COMMITS = frozenset({"commit", "best", "candidate"})
"""Arguments of their methods that name a version; `commits` names several."""
CALLS: Mapping[str, type] = {**PROTOCOLS, "preparer": declared.Preparer}
"""What may be asked of the other side."""
HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z|\[[0-9a-fA-F:]+\]\Z")
PROGRAM = re.compile(r"/?[A-Za-z0-9._+~][A-Za-z0-9._+~/-]*\Z")
SSH_WORDS = ("-T", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=4")
"""Nobody is asked for a password in the middle of a night, and a line that is dead for a minute is lost."""
THREADS = "device host"
CLOSING_S = 10.0
"""How long the other side may take to end once its connection was closed."""
WORDS_S = 2.0
"""How long it is waited for what `ssh` says of a lost connection."""
Message = tuple[dict[str, Any], bytes]


def find_hosts(contract: Contract) -> tuple[str, ...]:
    """The contract's device hosts, the campaign's own first; none for this machine. Raises UserError for one that is there twice."""
    addresses = tuple((os.environ.get(VARIABLE, "") or contract.device_host).split())
    if len({*addresses}) < len(addresses):
        raise UserError(f"device_host: {' '.join(addresses)!r} names a host twice; write each once")
    return addresses


def ssh_words(address: str) -> tuple[str, ...]:
    """The `ssh` command that starts `ridgeline device-host`. Raises UserError for what is no address."""
    parts = urlsplit(address)
    try:
        port, user, host = parts.port, parts.username or "", parts.hostname or ""
    except ValueError:
        port, user, host = None, "", ""
    program = "ridgeline" if parts.path in ("", "/") else parts.path
    if parts.scheme != "ssh" or not HOST.match(host) or (user and not HOST.match(user)) or not PROGRAM.match(program):
        raise UserError(f"device_host: {address!r}: write ssh://[USER@]HOST[:PORT][/PATH/OF/ridgeline]")
    where = f"{user}@{host}" if user else host
    return ("ssh", *SSH_WORDS, *(("-p", str(port)) if port else ()), where, program, "device-host")


def machine_of(contract: Contract) -> Machine:
    """The machine whose device a contract's campaigns are measured on: this one, or its device host."""
    if addresses := find_hosts(contract):
        connection = Connection(
            addresses[0], describe_session(contract, Limits(), key="", contract_dir=PurePosixPath())
        )
        try:
            return Machine.model_validate(connection.ask("device", "machine", (), {}))
        finally:
            connection.close()
    return LocalDevice(contract).machine()


def describe_session(contract: Contract, limits: Limits, *, key: str, contract_dir: PurePosixPath) -> dict[str, Any]:
    """The first message to a device host: what it needs to be told. `key`: names its folder; empty for one that does not last."""
    return {
        "version": VERSION,
        "key": key,
        "contract": contract.model_dump(mode="json"),
        "limits": limits.model_dump(mode="json"),
        "contract_dir": str(contract_dir),
        "quiet_s": os.environ.get("RIDGELINE_QUIET_S", ""),
    }


def send_message(stream: IO[bytes], fields: Mapping[str, Any], data: bytes = b"") -> None:
    """Write one message to the device host whole. Raises OSError where nobody reads any more."""
    stream.write(json.dumps({**fields, "bytes": len(data)}).encode() + b"\n" + data)
    stream.flush()


def receive_messages(stream: IO[bytes]) -> Iterator[Message]:
    """Messages of the connection to a device host until it ends; one that was cut off is none. Raises ValueError for what is no message."""
    while line := stream.readline():
        if not line.endswith(b"\n"):
            return
        fields = json.loads(line)
        data = stream.read(fields["bytes"])
        if len(data) < fields["bytes"]:
            return
        yield fields, data


class Connection:
    """One `ssh` to a device host, started at its first question."""

    def __init__(self, address: str, session: Mapping[str, Any]) -> None:
        """Raises UserError for what is no address of a device host."""
        self._address, self._session = address, session
        self._words = ssh_words(address)
        self._process: subprocess.Popen[bytes] | None = None
        self._messages: queue.Queue[Message | None] = queue.Queue()
        self._last_words = ""
        self._words_reader: threading.Thread | None = None
        self.has_versions = False
        """Whether the other side has the campaign's base."""

    def open(self) -> None:
        """Start the device host, if it is not. Raises DeviceLost where it cannot be reached, UserError for another version."""
        if self._process is not None:
            return
        try:
            self._process = subprocess.Popen(
                (*death_signal_words("TERM"), *self._words),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip
        except FileNotFoundError:
            raise errors.ProgramMissing("ssh") from None
        self._messages = queue.Queue()
        readers = [
            threading.Thread(target=work, args=(self._process,), name=THREADS, daemon=True)
            for work in (self._read_answers, self._read_words)
        ]
        for reader in readers:
            reader.start()
        self._words_reader = readers[1]
        fields, _ = self.exchange({**self._session, "what": "begin"})
        self.has_versions = bool(fields.get("has_versions"))

    def close(self) -> None:
        """End the device host's connection, if it runs; the other side ends with it."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        with suppress(OSError):
            process.stdin.close()
        try:
            process.wait(CLOSING_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def ask(self, port: str, method: str, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """The answer of a port on the device host, in JSON form."""
        return self.ask_with_blobs(port, method, bind_arguments(port, method, args, named))[0]["answer"]

    def ask_with_blobs(self, port: str, method: str, values: Mapping[str, Any]) -> Message:
        """The device host's answer with what was stored for it. Raises what the port raises, and DeviceLost for a lost connection."""
        self.open()
        return self.exchange({"what": "call", "port": port, "method": method, "arguments": values})

    def exchange(self, fields: Mapping[str, Any], data: bytes = b"") -> Message:
        """Send the device host one message and wait for its answer, hearing meanwhile whether the step shall end."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        try:
            send_message(process.stdin, fields, data)
            asked_to_stop = False
            while True:
                try:
                    answer = self._messages.get(timeout=stopping.STEP_S)
                    break
                except queue.Empty:
                    why = "" if asked_to_stop else stopping.reason()
                    if why:
                        asked_to_stop = True
                        send_message(process.stdin, {"what": "stop", "why": why})
        except (OSError, ValueError):  # nobody reads any more, or its end was seen and the pipe closed
            answer = None
        if answer is None:
            raise self._lose(process)
        if "error" in answer[0]:
            raise rebuild_error(answer[0])
        return answer

    def _lose(self, process: "subprocess.Popen[bytes]") -> errors.DeviceLost:
        """The connection to the device host is gone: the next question makes a new one."""
        self.close()
        if self._words_reader is not None:
            self._words_reader.join(WORDS_S)
        said = f": {self._last_words}" if self._last_words else ""
        return errors.DeviceLost(
            f"{self._address}: the connection to the device host was lost (exit code {process.returncode}){said};"
            " nothing that was recorded is lost: go on with `ridgeline resume` when it answers again"
        )

    def _read_answers(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdout is not None
        assert process.stdin is not None
        messages = self._messages
        with process.stdout:
            try:
                for message in receive_messages(process.stdout):
                    messages.put(message)
            except (ValueError, OSError) as error:
                self._last_words = f"it answered with something else ({str(error)[:80]})"
        messages.put(None)
        with suppress(OSError):
            process.stdin.close()
        process.wait()

    def _read_words(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stderr is not None
        with process.stderr:
            for line in process.stderr:
                self._last_words = line.decode(errors="replace").strip()[:300] or self._last_words
                note(f"{urlsplit(self._address).hostname}: {self._last_words}")


def rebuild_error(fields: Mapping[str, Any]) -> errors.RidgelineError:
    """What was raised on the device host, of the same class where it is one of the world's."""
    kinds = {name: kind for name, kind in vars(errors).items() if isinstance(kind, type)}
    kinds["StepEnded"] = stopping.StepEnded
    kind = kinds.get(str(fields["kind"]), errors.WorldError)
    assert issubclass(kind, errors.RidgelineError)
    error = kind.__new__(kind)
    Exception.__init__(error, str(fields["error"]))
    error.exit_code = int(fields["exit_code"])
    return error


def bind_arguments(port: str, method: str, args: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a port's call by name, in JSON form, for the device host."""
    call = getattr(CALLS[port], method)
    values = inspect.signature(call).bind(None, *args, **named).arguments
    hints = _hints(port, method)
    return {name: hints[name].dump_python(value, mode="json") for name, value in values.items() if name != "self"}


def parse_arguments(port: str, method: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a port's call out of the JSON that came to the device host. Raises ValidationError."""
    hints = _hints(port, method)
    return {name: hints[name].validate_python(value, strict=False) for name, value in values.items()}


def dump_answer(port: str, method: str, answer: Any) -> Any:
    """A port's answer in JSON form, for the way back from the device host."""
    return _hints(port, method)["return"].dump_python(answer, mode="json")


@cache
def _hints(port: str, method: str) -> dict[str, TypeAdapter[Any]]:
    """Types of a port's method: what turns each argument and the answer, as `return`, into JSON and back."""
    return {name: TypeAdapter(hint) for name, hint in get_type_hints(getattr(CALLS[port], method)).items()}


class DeviceHost:
    """A campaign's device host: what `REMOTE` ports ask, the versions that they name, and what they store."""

    def __init__(self, address: str, workspace: GitWorkspace, limits: Limits, artifacts: ArtifactStore) -> None:
        """Nothing is started on the device host before the first question. Raises UserError for what is no address."""
        folder = workspace.campaign_dir.resolve()
        lasts = (folder / "request.json").exists()
        key = sha256(f"{socket.gethostname()}:{folder}".encode()).hexdigest()[:16] if lasts else ""
        session = describe_session(workspace.contract, limits, key=key, contract_dir=workspace.contract_dir)
        self.address = address
        self._connection = Connection(address, session)
        self._workspace, self._artifacts = workspace, artifacts
        self._there: set[str] = set()
        """Versions that the other side was sent in this connection."""

    def port(self, name: str) -> Any:
        """One of the ports that a device host answers: `REMOTE`."""
        return _RemotePort(name, self)

    def ask(self, port: str, method: str, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """A port's answer from the device host. Raises what it raises there, and DeviceLost for a connection that was lost."""
        values = bind_arguments(port, method, args, named)
        try:
            self._connection.open()
            commits = [values[name] for name in sorted(COMMITS & values.keys())] + list(values.get("commits", ()))
            for commit in commits:
                self._send_version(commit.partition("+")[0])
            fields, data = self._connection.ask_with_blobs(port, method, values)
        except errors.DeviceLost:
            self._there.clear()
            raise
        stream = io.BytesIO(data)
        for blob in fields["blobs"]:
            artifact = Artifact.model_validate(blob)
            self._artifacts.put(artifact.name, stream.read(artifact.size))
        return _hints(port, method)["return"].validate_python(fields["answer"], strict=False)

    def _send_version(self, commit: str) -> None:
        """Send the device host the campaign's repository, once, and then what each commit has beyond its base."""
        if commit in self._there:
            return
        mirror, folder = self._workspace.repository(), self._workspace.campaign_dir
        base_file = (folder / "base.json").read_bytes()
        base = json.loads(base_file)["commit"]
        if not self._connection.has_versions:
            packed = io.BytesIO()
            with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as tar:
                tar.add(mirror.git_dir, "mirror.git", filter=_without_checkouts)
            self._connection.exchange({"what": "mirror", "base": base_file.decode()}, packed.getvalue())
            self._connection.has_versions = True
        if commit != base:
            self._connection.exchange({"what": "version", "commit": commit}, mirror.pack(commit, beyond=base))
        self._there.add(commit)


def _without_checkouts(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Leave out what git keeps of checkouts of this machine: the device host gets none of it."""
    return None if PurePosixPath(member.name).parts[1:2] == ("worktrees",) else member


class _RemotePort:
    """A port of `REMOTE` whose calls go to the device host."""

    def __init__(self, name: str, host: DeviceHost) -> None:
        self._name, self._host = name, host

    def __getattr__(self, method: str) -> Any:
        if method.startswith("_") or not hasattr(CALLS[self._name], method):
            raise AttributeError(method)
        return lambda *args, **named: self._host.ask(self._name, method, args, named)
