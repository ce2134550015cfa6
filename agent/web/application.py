"""The server: which address shows what. Reads campaigns; the one thing it writes is a person's decision.

With `going`, it also starts a process that goes on with a campaign once that decision is stored.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Annotated

from fastapi import FastAPI, Query
from fastapi import Path as InPath
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.types import ASGIApp

from ridgeline.agent.errors import UserError
from ridgeline.agent.evidence_pack import page
from ridgeline.agent.web import pages, queue
from ridgeline.agent.web.catalogue import Catalogue
from ridgeline.agent.web.forms import NAME, fields, words
from ridgeline.agent.web.gatekeeper import Access, Gatekeeper, Refused
from ridgeline.agent.web.going_on import Continuing
from ridgeline.agent.web.listing import Asked, Column, State
from ridgeline.agent.web.live import All, Streams, beat
from ridgeline.graph.documents.report_html import style
from ridgeline.graph.errors import WorldError
from ridgeline.graph.values import Value
from ridgeline.prompts.render import render

Id = Annotated[str, InPath(pattern="^[0-9a-f]{12}$")]
OfCampaign = Annotated[str | None, Query(pattern="^[0-9a-f]{12}$")]
Key = Annotated[str, InPath(pattern="^[a-z0-9-]{1,100}$")]
Words = Annotated[str, Query(max_length=100)]
Hours = Annotated[int, Query(ge=1, le=2000)]
Page = Annotated[int, Query(ge=1, le=100_000)]
Number = Annotated[int, InPath(ge=1, le=100_000)]


def application(
    folders: Sequence[Path], access: Access, streams: Streams | None = None, going: Continuing | None = None
) -> ASGIApp:
    """The whole server over the campaigns of some folders.

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
        asked = Asked(words=q, state=state, sort=sort, turned=turned, page=page)
        return HTMLResponse(pages.campaign_list(catalogue, asked))

    @app.get("/morning")
    def morning(hours: Hours = 16) -> HTMLResponse:
        return HTMLResponse(pages.morning(catalogue, hours))

    @app.get("/events")
    async def all_events() -> Response:
        return _followed(streams, lambda: All(stamp=catalogue.stamp()))

    @app.get("/c/{id}")
    def campaign(id: Id, page: Page = 1) -> HTMLResponse:
        return HTMLResponse(pages.campaign(catalogue, id, page))

    @app.get("/c/{id}/r/{number}")
    def of_round(id: Id, number: Number) -> HTMLResponse:
        return HTMLResponse(pages.round_page(catalogue, id, number))

    @app.get("/c/{id}/report")
    def report(id: Id) -> HTMLResponse:
        folder = catalogue.folder(id)
        return HTMLResponse(catalogue.rendered((id, "report"), catalogue.whole(id).head, lambda: page(folder)))

    @app.get("/c/{id}/events")
    async def events(id: Id) -> Response:
        folder = catalogue.folder(id)
        return _followed(streams, lambda: beat(folder))


def _followed(streams: Streams, look: Callable[[], Value]) -> Response:
    if streams.full:
        return PlainTextResponse("too many pages follow campaigns; close some\n", HTTPStatus.SERVICE_UNAVAILABLE)
    return StreamingResponse(streams.follow(look), media_type="text/event-stream")


def _queue(app: FastAPI, catalogue: Catalogue, going: Continuing | None) -> None:
    @app.get("/queue")
    def waiting(done: queue.Choice | None = None, of: OfCampaign = None) -> HTMLResponse:
        return HTMLResponse(queue.waiting(catalogue, done, of=of, goes_on=going is not None))

    @app.get("/queue/{id}/{key}")
    def question(id: Id, key: Key) -> HTMLResponse:
        return HTMLResponse(queue.question(catalogue, id, key, goes_on=going is not None))

    @app.post("/queue/{id}/{key}")
    async def decide(id: Id, key: Key, request: Request) -> Response:
        form = await fields(request)

        choice = await asyncio.to_thread(queue.decide, catalogue, id, key, form, goes_on=going is not None)
        if going is not None and choice != "defer":
            going.go_on(catalogue.folder(id), f"{choice} by {words(form, 'by', NAME)} ({key})")
        return RedirectResponse(f"/queue?done={choice}&of={id}", HTTPStatus.SEE_OTHER)


def _troubles(app: FastAPI, catalogue: Catalogue) -> None:
    """Every mistake as a page with one sentence, none of which repeats what was asked for."""

    def told(title: str, text: str, status: int) -> HTMLResponse:
        return HTMLResponse(pages.message(catalogue, title, text), status)

    @app.exception_handler(UserError)
    def mistake(request: Request, error: UserError) -> HTMLResponse:
        return told("This did not work", str(error), 404 if request.method == "GET" else 400)

    @app.exception_handler(WorldError)
    def trouble(_: Request, error: WorldError) -> HTMLResponse:
        return told("This cannot be shown", str(error), 500)

    @app.exception_handler(Refused)
    def refused(_: Request, error: Refused) -> Response:
        return PlainTextResponse(f"{error.why}\n", error.status)

    @app.exception_handler(RequestValidationError)
    def malformed(_: Request, error: RequestValidationError) -> HTMLResponse:
        return told("There is no such page", "The address is none of this server's.", 404)

    @app.exception_handler(HTTPException)
    def nothing(_: Request, error: HTTPException) -> HTMLResponse:
        return told("There is no such page", "The address is none of this server's.", error.status_code)


def _lifespan(catalogue: Catalogue, going: Continuing | None) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
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
