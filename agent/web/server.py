"""Listen: the socket, the token where one is needed, and the address to open."""

import asyncio
import contextlib
import ipaddress
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from types import FrameType
from typing import Annotated

import uvicorn
from fastapi import FastAPI, Query
from fastapi import Path as InPath
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from ridgeline.agent.campaign.evidence_pack import page
from ridgeline.agent.campaign.folders import announce_server
from ridgeline.agent.console import note
from ridgeline.agent.errors import UserError
from ridgeline.agent.web import pages
from ridgeline.agent.web.catalogue import Catalogue
from ridgeline.agent.web.gatekeeper import (
    LOOPBACK,
    NAME,
    Access,
    Gatekeeper,
    Refusal,
    fields,
    keep_token,
    make_token,
    words,
)
from ridgeline.agent.web.listing import Column, ListQuery, State
from ridgeline.agent.web.live import LONGEST_S, All, Streams, beat
from ridgeline.agent.web.resume import Resumer
from ridgeline.graph.errors import WorldError
from ridgeline.graph.reports.html import style
from ridgeline.graph.values import Value
from ridgeline.prompts.render import render
from ridgeline.sandbox.store.durable import cache_folder

# The server: which address shows what. Reads campaigns; the one thing it writes is a person's decision.
#
# With `going`, it also starts a process that goes on with a campaign once that decision is stored.

Id = Annotated[str, InPath(pattern="^[0-9a-f]{12}$")]
OfCampaign = Annotated[str | None, Query(pattern="^[0-9a-f]{12}$")]
Key = Annotated[str, InPath(pattern="^[a-z0-9-]{1,100}$")]
Words = Annotated[str, Query(max_length=100)]
Hours = Annotated[int, Query(ge=1, le=2000)]
Page = Annotated[int, Query(ge=1, le=100_000)]
Number = Annotated[int, InPath(ge=1, le=100_000)]


def application(
    folders: Sequence[Path], access: Access, streams: Streams | None = None, going: Resumer | None = None
) -> ASGIApp:
    """The web server's application over the campaigns of some folders.

    `streams`: for whoever wants to end them; `going`: goes on with what was decided, where the server shall do so.
    """
    catalogue = Catalogue(folders)
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, lifespan=_lifespan(catalogue, going))
    _static(app)
    _campaigns(app, catalogue, streams or Streams())
    _queue(app, catalogue, going)
    _troubles(app, catalogue)
    return Gatekeeper(app, access)


def _static(app: FastAPI) -> None:
    sheet, script = style(), render("live.v1.js")

    @app.get("/static/page.css")
    def css() -> Response:
        return Response(sheet, media_type="text/css")

    @app.get("/static/live.js")
    def javascript() -> Response:
        return Response(script, media_type="text/javascript")


def _campaigns(app: FastAPI, catalogue: Catalogue, streams: Streams) -> None:
    @app.get("/")
    def all_campaigns(
        q: Words = "", state: State = "", sort: Column = "", turned: bool = False, page: Page = 1
    ) -> HTMLResponse:
        selection = ListQuery(words=q, state=state, sort=sort, turned=turned, page=page)
        return HTMLResponse(pages.campaign_list(catalogue, selection))

    @app.get("/morning")
    def morning(hours: Hours = 16) -> HTMLResponse:
        return HTMLResponse(pages.morning(catalogue, hours))

    @app.get("/fleet")
    def fleets() -> HTMLResponse:
        return HTMLResponse(pages.fleets(catalogue))

    @app.get("/events")
    async def all_events() -> Response:
        return _stream(streams, lambda: All(stamp=catalogue.stamp()))

    @app.get("/c/{id}")
    def campaign(id: Id, page: Page = 1) -> HTMLResponse:
        return HTMLResponse(pages.campaign(catalogue, id, page))

    @app.get("/c/{id}/r/{number}")
    def of_round(id: Id, number: Number) -> HTMLResponse:
        return HTMLResponse(pages.round_page(catalogue, id, number))

    @app.get("/c/{id}/report")
    def report(id: Id) -> HTMLResponse:
        folder = catalogue.folder(id)
        return HTMLResponse(catalogue.render_once((id, "report"), catalogue.read_record(id).head, lambda: page(folder)))

    @app.get("/c/{id}/events")
    async def events(id: Id) -> Response:
        folder = catalogue.folder(id)
        return _stream(streams, lambda: beat(folder))


def _stream(streams: Streams, look: Callable[[], Value]) -> Response:
    if streams.full:
        return PlainTextResponse("too many pages follow campaigns; close some\n", HTTPStatus.SERVICE_UNAVAILABLE)
    return StreamingResponse(streams.follow(look), media_type="text/event-stream")


def _queue(app: FastAPI, catalogue: Catalogue, going: Resumer | None) -> None:
    @app.get("/queue")
    def waiting(done: pages.Choice | None = None, of: OfCampaign = None) -> HTMLResponse:
        return HTMLResponse(pages.waiting(catalogue, done, of=of, goes_on=going is not None))

    @app.get("/queue/{id}/{key}")
    def question(id: Id, key: Key) -> HTMLResponse:
        return HTMLResponse(pages.question(catalogue, id, key, goes_on=going is not None))

    @app.post("/queue/{id}/{key}")
    async def decide(id: Id, key: Key, request: Request) -> Response:
        form = await fields(request)

        choice = await asyncio.to_thread(pages.decide, catalogue, id, key, form, goes_on=going is not None)
        if going is not None and choice != "defer":
            going.go_on(catalogue.folder(id), f"{choice} by {words(form, 'by', NAME)} ({key})")
        return RedirectResponse(f"/queue?done={choice}&of={id}", HTTPStatus.SEE_OTHER)


def _troubles(app: FastAPI, catalogue: Catalogue) -> None:
    """Every mistake of a request as a web page with one sentence, none of which repeats what was asked for."""

    def make_page(title: str, text: str, status: int) -> HTMLResponse:
        return HTMLResponse(pages.message(catalogue, title, text), status)

    @app.exception_handler(UserError)
    def mistake(request: Request, error: UserError) -> HTMLResponse:
        return make_page("This did not work", str(error), 404 if request.method == "GET" else 400)

    @app.exception_handler(WorldError)
    def trouble(_: Request, error: WorldError) -> HTMLResponse:
        return make_page("This cannot be shown", str(error), 500)

    @app.exception_handler(Refusal)
    def refuse(_: Request, error: Refusal) -> Response:
        return PlainTextResponse(f"{error.why}\n", error.status)

    @app.exception_handler(RequestValidationError)
    def reject(_: Request, error: RequestValidationError) -> HTMLResponse:
        return make_page("There is no such page", "The address is none of this server's.", 404)

    @app.exception_handler(HTTPException)
    def nothing(_: Request, error: HTTPException) -> HTMLResponse:
        return make_page("There is no such page", "The address is none of this server's.", error.status_code)


def _lifespan(catalogue: Catalogue, going: Resumer | None) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def running(_: FastAPI) -> AsyncIterator[None]:
        ended = threading.Event()
        threading.Thread(target=catalogue.keep_reading, args=(ended,), name="ledgers", daemon=True).start()
        if going is not None:
            late = threading.Thread(target=going.keep_looking, args=(catalogue, ended), name="late", daemon=True)
            late.start()
        yield
        ended.set()

    return running


BACKLOG = 64


class _Server(uvicorn.Server):
    """Ends the streams first: an open page would hold the server until it is cancelled."""

    def __init__(self, config: uvicorn.Config, streams: Streams) -> None:
        super().__init__(config)
        self._streams = streams

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal asks the web server to end."""
        self._streams.end()
        super().handle_exit(sig, frame)


MOST_CONNECTIONS = 200
REQUEST_S = 20.0
"""A request is complete so many seconds after the connection or the answer before it, or never."""
ANSWER_S = LONGEST_S + 60
"""So long an answer may take to be sent: the longest is a stream of events."""


class _Connection(H11Protocol):
    """Ends connections on which no request is completed, the oldest of them first where there are too many."""

    _waits_since = 0.0
    _deadline: asyncio.TimerHandle | None = None
    _is_answering = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as its base says
        """A browser has connected."""
        super().connection_made(transport)
        self._await_request()
        if len(self.connections) > MOST_CONNECTIONS:
            unanswered = [each for each in self.connections if isinstance(each, _Connection) and not each._is_answering]
            min(unanswered, key=lambda each: each._waits_since).transport.abort()

    def data_received(self, data: bytes) -> None:
        """Some bytes of a request came; the time that is left for it is not prolonged by them."""
        super().data_received(data)
        cycle = self.cycle
        if not self._is_answering and cycle is not None and not cycle.more_body and not cycle.response_complete:
            self._is_answering = True
            self._end_in(ANSWER_S)

    def on_response_complete(self) -> None:
        """An answer was sent to the browser."""
        super().on_response_complete()
        self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """The browser has gone."""
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)

    def _await_request(self) -> None:
        self._is_answering, self._waits_since = False, self.loop.time()
        self._end_in(REQUEST_S)

    def _end_in(self, seconds: float) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(seconds, self.transport.abort)


class ServeOptions(Value):
    """What `ridgeline serve` was asked for."""

    folders: tuple[Path, ...]
    host: str
    port: int
    token: str | None
    names: tuple[str, ...] = ()
    resume: bool = False
    """Whether a decided campaign goes on by itself."""


def listen(options: ServeOptions, say: Callable[[str], None]) -> None:
    """Serve web pages until interrupted. Raises UserError where the address cannot be had."""
    listener = _socket(options.host, options.port)
    with listener:
        port = listener.getsockname()[1]
        access, stored_at = access_of(options)
        # a log keeps what is printed: only a terminal is told the token, and who could not learn it elsewhere
        token_shown = sys.stdout.isatty() or not (options.token or stored_at)
        say(_address(options, port, access.token if token_shown else None))
        if not token_shown:
            note(
                f"open it with ?token=TOKEN behind it, once in each browser; the token {f'is in {stored_at}' if stored_at else 'is yours'}"
            )
        streams = Streams()
        config = configure(application(options.folders, access, streams, Resumer() if options.resume else None))
        folders, url = options.folders, _address(options, port, None)
        with (
            announce_server(url, folders),
            contextlib.suppress(KeyboardInterrupt),
        ):  # the way to end it: nothing was interrupted
            _Server(config, streams).run(sockets=[listener])


def configure(app: ASGIApp) -> uvicorn.Config:
    """How the web server listens and what it says of it."""
    return uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,  # an address may carry the token
        server_header=False,
        proxy_headers=False,
        ws="none",
        http=_Connection,
        timeout_graceful_shutdown=5,
    )


def access_of(options: ServeOptions) -> tuple[Access, Path | None]:
    """Names that are this web server's, and the token that was given or is this user's own; with the file of the latter."""
    local = is_loopback(options.host)
    names = LOOPBACK | {options.host.lower(), *(name.lower() for name in options.names)}
    if not local:
        names |= {socket.gethostname().lower(), socket.getfqdn().lower()}
    token, stored_at = (options.token, None) if options.token else _own_token()
    return Access(names=frozenset(names), addresses=not local, token=token, style=style()), stored_at


def _own_token() -> tuple[str, Path | None]:
    """This user's token for the web server, the same at every start, and where it is kept; a new one where nothing can be kept."""
    folder = cache_folder("serve")
    if folder is not None:
        with contextlib.suppress(OSError):
            return keep_token(folder / "token"), folder / "token"
    return make_token(), None


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the web server. Names other than `localhost` are taken to be reachable."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _socket(host: str, port: int) -> socket.socket:
    """The web server's listening socket. Raises UserError where the address cannot be had."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise UserError(f"--host: {host}: {error.strerror}; give an address of this machine") from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise UserError(f"--port: {host}:{port}: {error.strerror}; choose another with --port") from None
    return listener


def _address(options: ServeOptions, port: int, token: str | None) -> str:
    """The web server's address to open in a browser; with the token where there is one."""
    hostname = socket.gethostname() if options.host in ("0.0.0.0", "::") else options.host
    name = f"[{hostname}]" if ":" in hostname else hostname
    return f"http://{name}:{port}/" + (f"?token={token}" if token else "")
