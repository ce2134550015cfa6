"""Listen: the socket, the token where one is needed, and the address to open."""

import contextlib
import ipaddress
import socket
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import uvicorn

from ridgeline.agent.errors import UserError
from ridgeline.agent.served import announced
from ridgeline.agent.web.application import application
from ridgeline.agent.web.gatekeeper import LOOPBACK, Access, make_token
from ridgeline.agent.web.going_on import Continuing
from ridgeline.agent.web.live import Streams
from ridgeline.graph.documents.report_html import style
from ridgeline.graph.values import Value

BACKLOG = 64


class _Server(uvicorn.Server):
    """Ends the streams first: an open page would hold the server until it is cancelled."""

    def __init__(self, config: uvicorn.Config, streams: Streams) -> None:
        super().__init__(config)
        self._streams = streams

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal asks for the end."""
        self._streams.end()
        super().handle_exit(sig, frame)


class Listening(Value):
    """What `ridgeline serve` was asked for."""

    folders: tuple[Path, ...]
    host: str
    port: int
    token: str | None
    names: tuple[str, ...] = ()
    resume: bool = False
    """Whether a decided campaign goes on by itself."""


def listen(asked: Listening, say: Callable[[str], None]) -> None:
    """Serve until interrupted. Raises UserError where the address cannot be had."""
    taken = _socket(asked.host, asked.port)
    with taken:
        port = taken.getsockname()[1]
        access = access_of(asked)
        say(_address(asked, port, access.token))
        streams = Streams()
        config = uvicorn.Config(
            application(asked.folders, access, streams, Continuing() if asked.resume else None),
            log_level="warning",
            access_log=False,  # an address may carry the token
            server_header=False,
            proxy_headers=False,
            ws="none",
            limit_concurrency=200,
            timeout_graceful_shutdown=5,
        )
        folders, url = asked.folders, _address(asked, port, None)
        with (
            announced(url, folders),
            contextlib.suppress(KeyboardInterrupt),
        ):  # the way to end it: nothing was interrupted
            _Server(config, streams).run(sockets=[taken])


def access_of(asked: Listening) -> Access:
    """Names that are this server's, and a token wherever more than this machine can reach it."""
    local = is_loopback(asked.host)
    names = LOOPBACK | {asked.host.lower(), *(name.lower() for name in asked.names)}
    if not local:
        names |= {socket.gethostname().lower(), socket.getfqdn().lower()}
    return Access(
        names=frozenset(names),
        addresses=not local,
        token=asked.token or (None if local else make_token()),
        style=style(),
    )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it. Names other than `localhost` are taken to be reachable."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _socket(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        found = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise UserError(f"--host: {host}: {error.strerror}; give an address of this machine") from None
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
        found.listen(BACKLOG)
    except OSError as error:
        found.close()
        raise UserError(f"--port: {host}:{port}: {error.strerror}; choose another with --port") from None
    return found


def _address(asked: Listening, port: int, token: str | None) -> str:
    shown = socket.gethostname() if asked.host in ("0.0.0.0", "::") else asked.host
    name = f"[{shown}]" if ":" in shown else shown
    return f"http://{name}:{port}/" + (f"?token={token}" if token else "")
