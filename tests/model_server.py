"""An OpenAI-compatible server for tests, on a real local socket, that answers by a script."""

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Usage = dict[str, int]
USAGE: Usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}


@dataclass(frozen=True)
class Reply:
    """One HTTP response."""

    status: int = 200
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    delay_s: float = 0.0
    drip_s: float = 0.0
    """Seconds between two bytes: a server that never quite ends."""


@dataclass
class Heard:
    """One request as it came in."""

    path: str
    headers: dict[str, str]
    body: Any


def said(
    text: str | None = "hi", *, calls: Any = None, finish: str = "stop", usage: Usage | None = USAGE, **extra
) -> Reply:
    """A good answer."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = calls
    answer: dict[str, Any] = {
        "id": "chat-1",
        "object": "chat.completion",
        "created": 1,
        "model": "served-model",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        **extra,
    }
    if usage is not None:
        answer["usage"] = usage
    return Reply(body=json.dumps(answer).encode())


def failed(status: int, message: str, **headers: str) -> Reply:
    """An error as providers write it."""
    body = json.dumps({"error": {"message": message, "type": "test", "code": status}}).encode()
    return Reply(status=status, body=body, headers=tuple((k.replace("_", "-"), v) for k, v in headers.items()))


@dataclass
class ModelServer:
    """Plays one reply after the other, the last one for ever; a function answers by the request."""

    replies: list[Reply | Callable[[Heard], Reply]]
    heard: list[Heard] = field(default_factory=list)
    url: str = ""

    def next(self, request: Heard) -> Reply:
        self.heard.append(request)
        found = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        return found if isinstance(found, Reply) else found(request)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    script: ModelServer

    def handle_error(self, request, client_address) -> None:
        """A client that went away in the middle of an answer is what some tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        reply = self.server.script.next(Heard(self.path, dict(self.headers), json.loads(data)))
        time.sleep(reply.delay_s)
        self.send_response(reply.status)
        for name, value in reply.headers:
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reply.body)))
        self.send_header("Connection", "close")
        self.end_headers()
        if not reply.drip_s:
            self.wfile.write(reply.body)
        for byte in reply.body if reply.drip_s else b"":
            self.wfile.write(bytes([byte]))
            self.wfile.flush()
            time.sleep(reply.drip_s)

    def log_message(self, format, *args) -> None:
        """Quiet."""


def serve(*replies: Reply | Callable[[Heard], Reply]) -> tuple[ModelServer, Callable[[], None]]:
    """A running server, and what stops it."""
    script = ModelServer(list(replies))
    server = _Server(("127.0.0.1", 0), _Handler)
    server.script = script
    script.url = f"http://127.0.0.1:{server.server_port}/v1"
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def stop() -> None:
        server.shutdown()
        server.server_close()

    return script, stop
