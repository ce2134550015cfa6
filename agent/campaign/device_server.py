"""`ridgeline device-host`: the other side of a campaign's device host, which `ssh` starts and whose end is its end.

Its folder lies in the cache: a copy of the campaign's repository, checkouts with their builds, and what the ports stored.
"""

import atexit
import json
import os
import queue
import shutil
import tarfile
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import IO, Any

from ridgeline.agent.campaign.device_host import (
    REMOTE,
    Message,
    dump_answer,
    parse_arguments,
    receive_messages,
    send_message,
)
from ridgeline.agent.campaign.wiring import Place, connect_devices
from ridgeline.agent.console import note
from ridgeline.agent.errors import UserError
from ridgeline.agent.version import VERSION
from ridgeline.graph.contract import Contract
from ridgeline.graph.errors import RidgelineError, WorldError
from ridgeline.graph.limits import Limits
from ridgeline.graph.values import Artifact
from ridgeline.sandbox.devices.lease import lease, telling
from ridgeline.sandbox.isolation.directory_pool import discard_tree
from ridgeline.sandbox.isolation.stopping import Stopping, listening
from ridgeline.sandbox.store.campaign_folder import ArtifactStore
from ridgeline.sandbox.store.durable import cache_folder, write_whole
from ridgeline.sandbox.workspace.worktree import GitWorkspace

UNUSED_S = 14 * 24 * 3600.0
"""After so long a campaign's folder here is removed: it is made again when it is asked for."""
BEFORE_S = 90.0
"""How long a new connection waits for the end of an earlier one."""
ENDING_S = 30.0
"""How long a step has to end after its connection was lost."""


class Inbox:
    """Messages as they come, and what has to be known of them while a step is under way."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.messages: queue.Queue[Message | None] = queue.Queue()
        self.stops = 0
        """Requests to end the step under way; the end of the connection is one."""
        threading.Thread(target=self._read, args=(stream,), daemon=True).start()

    def _read(self, stream: IO[bytes]) -> None:
        try:
            for fields, data in receive_messages(stream):
                if fields.get("what") == "stop":
                    self.stops += 1
                else:
                    self.messages.put((fields, data))
        except ValueError as error:
            note(f"not a message: {error}")
        self.stops += 1
        self.messages.put(None)
        time.sleep(ENDING_S)
        os._exit(5)  # a step that hears nothing: its commands end with this process


class KeptArtifacts(ArtifactStore):
    """A store that remembers what the call under way stored."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.stored: dict[str, Artifact] = {}

    def put(self, name: str, data: bytes) -> Artifact:
        """Store an artifact on the device host, for the answer to carry too."""
        artifact = super().put(name, data)
        self.stored[artifact.model_dump_json()] = artifact
        return artifact


def serve_devices(incoming: IO[bytes], outgoing: IO[bytes]) -> None:
    """Answer one campaign's connection until it ends. Errors of a step are answers; a first message that cannot be met ends it."""
    inbox = Inbox(incoming)
    message = inbox.messages.get()
    if message is None:
        return
    try:
        _require_version(message[0])
        with _own_folder(str(message[0]["key"])) as folder, telling(note):
            session = Session(folder, message[0], outgoing)
            session.begin()
            while (message := inbox.messages.get()) is not None:
                inbox.stops = 0
                with listening(Stopping(requests=lambda: inbox.stops)):
                    session.answer(*message)
    except (RidgelineError, OSError) as error:
        _send_error(outgoing, error)


def _require_version(fields: Mapping[str, Any]) -> None:
    if fields["version"] != VERSION:
        raise UserError(
            f"device host: has Ridgeline {VERSION}, the campaign's machine {fields['version']}; install the same"
        )


@contextmanager
def _own_folder(key: str) -> Iterator[Path]:
    """A campaign's folder on the device host, held against other connections; without a key one that does not last."""
    root = cache_folder("device-hosts")
    if not key.isalnum() or root is None:
        with tempfile.TemporaryDirectory(prefix="ridgeline-") as place:
            yield Path(place)
        return
    folder = root / key
    folder.mkdir(parents=True, exist_ok=True)
    for other in root.iterdir():
        if other != folder and time.time() - other.stat().st_mtime > UNUSED_S:
            discard_tree(other)
    with lease("running", wait_s=BEFORE_S, folder=folder):
        os.utime(folder)
        yield folder


def _send_error(outgoing: IO[bytes], error: Exception) -> None:
    """Send what a port raised on the device host, for the campaign to raise."""
    fields = {"kind": type(error).__name__, "error": str(error), "exit_code": getattr(error, "exit_code", 5)}
    try:
        send_message(outgoing, fields)
    except OSError:
        note(f"nobody reads any more: {error}")


class Session:
    """One connection's ports, on its folder."""

    def __init__(self, folder: Path, fields: Mapping[str, Any], outgoing: IO[bytes]) -> None:
        contract, limits = Contract.model_validate(fields["contract"]), Limits.model_validate(fields["limits"])
        os.environ["RIDGELINE_QUIET_S"] = str(fields["quiet_s"])
        self._folder, self._outgoing = folder, outgoing
        self._artifacts = KeptArtifacts(folder)
        place = Place(
            repository=folder / "user", contract_dir=PurePosixPath(fields["contract_dir"]), campaign_dir=folder
        )
        (place.repository / place.contract_dir).mkdir(parents=True, exist_ok=True)
        self._workspace = GitWorkspace(
            repo_root=place.repository,
            contract_dir=place.contract_dir,
            campaign_dir=folder,
            contract=contract,
            artifacts=self._artifacts,
        )
        ports = connect_devices(place, contract, limits, workspace=self._workspace, artifacts=self._artifacts)
        self._ports = dict(zip(REMOTE, ports, strict=True))

    def begin(self) -> None:
        """Tell the campaign whether its repository is on this device host."""
        send_message(self._outgoing, {"has_versions": (self._folder / "mirror.git").is_dir()})

    def answer(self, fields: Mapping[str, Any], data: bytes) -> None:
        """Answer one message of a campaign on its device host."""
        try:
            match fields["what"]:
                case "mirror":
                    self._unpack(data)
                    write_whole(self._folder / "base.json", str(fields["base"]).encode())
                    send_message(self._outgoing, {})
                case "version":
                    mirror = self._workspace.repository()
                    mirror.unpack(data)
                    mirror.hold(f"refs/ridgeline/device-host/{fields['commit']}", str(fields["commit"]))
                    send_message(self._outgoing, {})
                case "call":
                    self._call(str(fields["port"]), str(fields["method"]), fields["arguments"])
                case what:
                    raise WorldError(f"device host: {what!r} is no message of this version")
        except (RidgelineError, OSError) as error:
            _send_error(self._outgoing, error)

    def _unpack(self, data: bytes) -> None:
        """Put the campaign's repository in place on the device host whole, or not at all."""
        with tempfile.TemporaryDirectory(prefix="new-", dir=self._folder) as place:
            with tarfile.open(fileobj=BytesIO(data)) as tar:
                tar.extractall(place, filter="data")
            shutil.rmtree(self._folder / "mirror.git", ignore_errors=True)
            (Path(place) / "mirror.git").rename(self._folder / "mirror.git")

    def _call(self, port: str, method: str, values: Mapping[str, Any]) -> None:
        self._artifacts.stored.clear()
        answer = getattr(self._ports[port], method)(**parse_arguments(port, method, values))
        blobs = tuple(self._artifacts.stored.values())
        fields = {
            "answer": dump_answer(port, method, answer),
            "blobs": [json.loads(blob.model_dump_json()) for blob in blobs],
        }
        send_message(self._outgoing, fields, b"".join(self._artifacts.get(blob) for blob in blobs))


def serve_standard_streams() -> None:
    """`device-host` on this process's own input and output; what anything prints meanwhile goes to standard error."""
    outgoing, incoming = os.fdopen(os.dup(1), "wb"), os.fdopen(os.dup(0), "rb")
    os.dup2(2, 1)
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    code = 1
    try:
        serve_devices(incoming, outgoing)
        code = 0
    finally:
        if code:
            traceback.print_exc()
        atexit._run_exitfuncs()
        os._exit(code)  # a thread still reads, and would hold up an orderly end
