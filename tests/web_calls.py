"""Ask a server application directly, with requests that no client makes; and read pages as browsers do."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import unquote

HOST = "127.0.0.1:8765"
TOKEN = "the-token-of-this-server"
Header = tuple[str, str]


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    text: str


def call(
    app,
    target: str,
    *,
    method: str = "GET",
    headers: Sequence[Header] = (("host", HOST),),
    body: Sequence[bytes] = (b"",),
) -> Answer:
    """One request; `target` is path and query as they stand on the wire, `body` the pieces that arrive.

    It shows `TOKEN` where its headers show nothing else.
    """
    if not {"authorization", "cookie"} & {name for name, _ in headers}:
        headers = (*headers, ("authorization", f"Bearer {TOKEN}"))
    path, _, query = target.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path, errors="replace"),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8765),
    }
    return asyncio.run(_called(app, scope, list(body)))


async def _called(app, scope, body: list[bytes]) -> Answer:
    sent = []
    ended = asyncio.Event()

    async def receive():
        if body:
            piece = body.pop(0)
            return {"type": "http.request", "body": piece, "more_body": bool(body)}
        await ended.wait()
        return {"type": "http.disconnect"}

    async def send(message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    ended.set()
    start = next(message for message in sent if message["type"] == "http.response.start")
    data = b"".join(message.get("body", b"") for message in sent if message["type"] == "http.response.body")
    found = {name.decode().lower(): value.decode() for name, value in start["headers"]}
    return Answer(start["status"], found, data.decode())


@dataclass
class Seen(HTMLParser):
    """What a browser would find in a page."""

    scripts: list[str] = field(default_factory=list)
    handlers: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    tags: set[str] = field(default_factory=set)
    words: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag, attrs) -> None:
        found = dict(attrs)
        self.tags.add(tag)
        if tag == "script":
            self.scripts.append(found.get("src") or "inline")
        self.handlers += [name for name in found if name.startswith("on")]
        self.links += [found[name] or "" for name in ("href", "src", "action") if name in found]

    def handle_data(self, data) -> None:
        self.words.append(data)


def seen(page: str) -> Seen:
    """Parse a page."""
    parser = Seen()
    parser.feed(page)
    parser.close()
    return parser
