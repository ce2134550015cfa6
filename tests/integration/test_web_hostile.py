"""What a server on an engineer's machine must not do, whatever it is sent: no file, no decision, no script."""

import contextlib
import hashlib
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

import uvicorn

from ridgeline.agent.campaign.approvals import ApprovalFiles
from ridgeline.agent.web import server
from ridgeline.agent.web.catalogue import Catalogue
from ridgeline.agent.web.gatekeeper import LARGEST_BODY, Access
from ridgeline.agent.web.resume import Resumer
from ridgeline.agent.web.server import application
from tests.builders import make_history, make_round
from tests.web_calls import HOST, TOKEN, Answer, call, seen
from tests.web_campaigns import HOSTILE, ask, hostile_campaign, write_ledger

OURS = (("host", HOST),)
FORM = (*OURS, ("origin", f"http://{HOST}"), ("content-type", "application/x-www-form-urlencoded"))
YES = b"action=approve&by=Eve"


def without(*names: str, **more: str) -> tuple[tuple[str, str], ...]:
    """The headers of a good form, less some, with others."""
    kept = tuple(pair for pair in FORM if pair[0] not in (*names, *(name.replace("_", "-") for name in more)))
    return (*kept, *((name.replace("_", "-"), value) for name, value in more.items()))


@pytest.fixture
def campaign(tmp_path) -> Path:
    folder = write_ledger(tmp_path / "toy", make_history(make_round(2)))
    ask(folder)
    (tmp_path / "secret.txt").write_text("the secret")
    return folder


@pytest.fixture
def web(campaign):
    """The server that can do most: one that goes on with what is decided."""
    return application((campaign,), Access(token=TOKEN), going=Resumer(("false",)))


@pytest.fixture
def name(campaign) -> str:
    (found,) = Catalogue((campaign,)).find_campaigns()
    return found


def everything(folder: Path) -> dict[str, str]:
    return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.rglob("*")) if p.is_file()}


TARGETS = [
    ("/c/../../etc/passwd", 404),
    ("/c/..%2f..%2fsecret.txt", 404),
    ("/c/%2e%2e/secret.txt", 404),
    ("/c/..%5c..%5csecret.txt", 404),
    ("/static/../agent/cli/application.py", 404),
    ("/static/secret.txt", 404),
    ("//etc/passwd", 404),
    ("/c/ID/../../secret.txt", 404),
    ("/c/ID/r/../../../secret.txt", 404),
    ("/c/<script>alert(1)</script>", 404),
    ("/c/%00", 404),
    ("/c/ID%0d%0aset-cookie:x=y", 404),
    ("/c/000000000000", 404),
    ("/c/toy", 404),
    ("/c/ID/r/-1", 404),
    ("/c/ID/r/0x2", 404),
    ("/c/ID/r/99999999999999999999", 404),
    ("/c/ID/r/77", 404),
    ("/c/ID/ledger.jsonl", 404),
    ("/queue/ID/nothing-asked", 404),
    ("/queue/ID/..", 404),
    ("/queue/000000000000/round-3-change-0123456789ab", 404),
    ("/queue?done=<script>alert(1)</script>", 404),
    ("/queue?done=approve&of=<script>alert(1)</script>", 404),
    ("/queue?done=approve&of=../../secret.txt", 404),
    ("/docs", 404),
    ("/openapi.json", 404),
    ("/" + "a" * 5000, 414),
    ("/?q=" + "a" * 5000, 414),
]


@pytest.mark.parametrize(("target", "status"), TARGETS, ids=[target[:40] for target, _ in TARGETS])
def test_an_address_that_is_none_of_ours(web, name, campaign, target, status):
    before = everything(campaign)
    found = call(web, target.replace("ID", name))
    assert found.status == status
    assert "the secret" not in found.text
    assert "set-cookie" not in found.headers
    assert seen(found.text).scripts == []
    assert everything(campaign) == before


HEADERS = [
    ("name of another", (("host", "evil.example"),), 421),
    ("name that begins like ours", (("host", "127.0.0.1.evil.example:8765"),), 421),
    ("name with a user", (("host", "localhost@evil.example"),), 421),
    ("another address", (("host", "10.0.0.1:8765"),), 421),
    ("no name", (), 421),
    ("two names", (("host", HOST), ("host", "evil.example")), 400),
    ("endless headers", (*OURS, ("x-long", "a" * 20_000)), 431),
]


@pytest.mark.parametrize(("headers", "status"), [case[1:] for case in HEADERS], ids=[case[0] for case in HEADERS])
def test_a_request_that_is_not_for_us(web, headers, status):
    assert call(web, "/", headers=headers).status == status


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "TRACE", "CONNECT", "OPTIONS", "get", "X" * 100])
def test_other_methods(web, method):
    assert call(web, "/", method=method).status == 405


FORMS = [
    ("no origin", without("origin"), YES, 403),
    ("another site", without(origin="http://evil.example"), YES, 403),
    ("a file or a sandbox", without(origin="null"), YES, 403),
    ("another port", without(origin="http://127.0.0.1:1"), YES, 403),
    ("another scheme", without(origin=f"https://{HOST}"), YES, 403),
    ("two origins", (*FORM, ("origin", "http://evil.example")), YES, 400),
    ("cross-site, says the browser", (*FORM, ("sec-fetch-site", "cross-site")), YES, 403),
    ("same site, other origin", (*FORM, ("sec-fetch-site", "same-site")), YES, 403),
    ("text", without(content_type="text/plain"), YES, 415),
    ("JSON", without(content_type="application/json"), b'{"action":"approve","by":"Eve"}', 415),
    ("multipart", without(content_type="multipart/form-data; boundary=x"), YES, 415),
    ("no type", without("content-type"), YES, 415),
    ("a length that is too large", (*FORM, ("content-length", str(LARGEST_BODY + 1))), YES, 413),
    ("a length without end", (*FORM, ("content-length", "9" * 400)), YES, 413),
    ("a negative length", (*FORM, ("content-length", "-1")), YES, 413),
    ("a length in other digits", (*FORM, ("content-length", "\xb2")), YES, 413),
    ("bytes", FORM, b"\xff\xfe", 400),
    ("wrong UTF-8", FORM, b"action=approve&by=%ff", 400),
    ("many fields", FORM, b"&".join(b"f%d=1" % n for n in range(1000)), 400),
    ("one field twice", FORM, b"action=reject&action=approve&by=Eve", 400),
    ("no action", FORM, b"by=Eve", 400),
    ("an unknown action", FORM, b"action=delete&by=Eve", 400),
    ("nobody decides", FORM, b"action=approve&by=+", 400),
    ("a long name", FORM, b"action=approve&by=" + b"a" * 101, 400),
    ("a long reason", FORM, b"action=reject&by=Eve&reason=" + b"a" * 2001, 400),
    ("a rejection without a reason", FORM, b"action=reject&by=Eve&reason=+", 400),
    ("an edit of nothing", FORM, b"action=edit&by=Eve", 400),
    ("an edit that changes nothing", FORM, b"action=edit&by=Eve&file-0=int+x%3b%0d%0a", 400),
    ("an edit of another file", FORM, b"action=edit&by=Eve&file-1=x&path=../../secret.txt", 400),
]


@pytest.mark.parametrize(("headers", "body", "status"), [case[1:] for case in FORMS], ids=[case[0] for case in FORMS])
def test_a_form_that_decides_nothing(web, name, campaign, headers, body, status):
    before = everything(campaign)
    found = call(web, f"/queue/{name}/round-3-change-0123456789ab", method="POST", headers=headers, body=[body])
    assert found.status == status
    assert everything(campaign) == before
    assert len(ApprovalFiles(campaign).waiting()) == 1


def test_a_body_that_never_ends_is_not_read_to_its_end(web, name, campaign):
    pieces = [b"a" * 1_000_000] * 50
    found = call(web, f"/queue/{name}/round-3-change-0123456789ab", method="POST", headers=FORM, body=pieces)
    assert found.status == 413
    assert len(ApprovalFiles(campaign).waiting()) == 1


PAGES = ("/", "/c/ID", "/c/ID/r/2", "/c/ID/report", "/queue", "/queue/ID/round-3-change-0123456789ab")


@pytest.mark.parametrize("target", PAGES)
def test_text_that_wants_to_be_a_script_stays_text(tmp_path, target):
    folder = hostile_campaign(tmp_path / "toy")
    ask(folder, HOSTILE, source=HOSTILE)
    (folder / "status.json").write_text(
        '{"status":"waiting","phase":"<script>alert(5)</script>","detail":"<b onclick=x>"}'
    )
    (name,) = Catalogue((folder,)).find_campaigns()
    web = application((folder,), Access(token=TOKEN))
    call(web, f"/c/{name}")
    found = call(web, target.replace("ID", name))
    assert found.status == 200
    page = seen(found.text)
    assert set(page.scripts) <= {"/static/live.js"}
    assert page.handlers == []
    assert "img" not in page.tags
    assert all(link.startswith(("/", "#", "data:,")) for link in page.links)
    assert "script-src 'self'" in found.headers["content-security-policy"]
    assert "unsafe" not in found.headers["content-security-policy"]


def signed(target: str = "/", *, web, headers=()) -> Answer:
    return call(web, target, headers=(*OURS, *headers))


def test_a_token_is_asked_for_everywhere(campaign):
    token = "a-token-that-nobody-guesses"
    web = application((campaign,), Access(token=token))
    for target in ("/", "/queue", "/static/page.css", "/c/000000000000"):
        for headers in (
            (),
            (("authorization", "Bearer "),),
            (("authorization", f"Bearer {token[:-1]}"),),
            (("authorization", f"Bearer {token}x"),),
            (("authorization", "Bearer \xe9"),),
            (("cookie", f"ridgeline={token}"),),
            (("cookie", "ridgeline=; ridgeline=\x00"),),
        ):
            found = signed(target, web=web, headers=headers)
            assert found.status == 401, (target, headers)
            assert token not in found.text
            assert "put ?token=TOKEN behind this address" in found.text
    assert signed("/?token=wrong", web=web).status == 401
    assert signed("/", web=web, headers=(("authorization", f"Bearer {token}"),)).status == 200


def test_the_token_leaves_the_address_and_stays_in_a_cookie(campaign):
    token = "a-token-that-nobody-guesses"
    web = application((campaign,), Access(token=token))
    found = signed(f"/queue?token={token}", web=web)
    assert (found.status, found.headers["location"]) == (303, "/queue")
    cookie = found.headers["set-cookie"]
    assert all(mark in cookie for mark in ("HttpOnly", "SameSite=Strict"))
    assert token not in cookie
    assert signed("/queue", web=web, headers=(("cookie", cookie.partition(";")[0]),)).status == 200


def test_no_log_and_no_address_has_the_token(campaign, tmp_path, socket_enabled):
    """Standard output is a file here, as under nohup or systemd."""
    environment = os.environ | {"RIDGELINE_CACHE": str(tmp_path / "cache")}
    argv = (sys.executable, "-m", "ridgeline", "serve", str(campaign), "--port", "0")
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        address = process.stdout.readline().strip()
        kept = tmp_path / "cache/serve/token"
        token = kept.read_text()
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with opener.open(f"{address}queue?token={token}", timeout=10) as page:
            assert (page.status, page.url) == (200, f"{address}queue")
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=10)
    finally:
        process.kill()
        process.wait()
    said = out + err
    assert process.returncode == 0
    assert token not in address + said
    assert str(kept) in said
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


ODD = [
    b"[]", b"null", b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"round": {"a": 1}}', b'{"round": 1e999}', b'{"round": true}',
    b'{"round": 99999999999999999999999}', b'{"updated": NaN}', b'{"updated": 1e300}', b'{"updated": -1e300}', b'{"updated": "x"}',
    b'{"pid": -1}', b'{"pid": 1e999}', b'{"pid": 99999999999999999999}', b'{"status": ["x"]}', b'{"status": {"a": {}}}',
    b'{"phase": 7, "detail": [1]}', b'{"phase": "\\ud800", "detail": "\\udfff"}', b'{"problem": "\\ud800"}',
    b'{"detail": "' + b"a" * 1_000_000 + b'"}', b'{"phase": "\\u001b[2J\\u202e"}',
]  # fmt: skip


@pytest.mark.parametrize("written", ODD, ids=[repr(written[:30]) for written in ODD])
def test_no_status_file_takes_a_page_away(web, name, campaign, written):
    (campaign / "status.json").write_bytes(written)
    assert {call(web, target.replace("ID", name)).status for target in PAGES} == {200}


@pytest.fixture
def address(campaign, socket_enabled, monkeypatch):
    """Of a server that listens, with a second for a request."""
    monkeypatch.setattr(server, "REQUEST_S", 1.0)
    with listening(application((campaign,), Access(token=TOKEN))) as place:
        yield place


@contextlib.contextmanager
def listening(app) -> Iterator[tuple[str, int]]:
    """The address at which the application is served, by connections as those of `ridgeline serve`."""
    listener = socket.create_server(("127.0.0.1", 0))
    running = uvicorn.Server(server.configure(app))
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    yield listener.getsockname()
    running.should_exit = True
    thread.join(10)
    listener.close()


def ask_wire(address, data: bytes) -> bytes:
    with socket.create_connection(address, timeout=10) as client:
        client.sendall(data)
        return client.recv(1000)


GOOD = f"GET /queue HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {TOKEN}\r\n\r\n".encode()


def test_three_hundred_half_open_connections_keep_nobody_out(address):
    half_open = [socket.create_connection(address, timeout=10) for _ in range(300)]
    for client in half_open:
        with contextlib.suppress(OSError):  # the oldest are ended already
            client.sendall(b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\nx-slow: ")
    assert ask_wire(address, GOOD).startswith(b"HTTP/1.1 200")
    for client in half_open:
        client.close()


@pytest.mark.parametrize(
    "start",
    [
        b"",
        b"G",
        b"GET / HTTP/1.1\r\nx: ",
        b"POST / HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 100\r\n\r\n",
        GOOD + b"GET ",
    ],
    ids=["nothing", "a letter", "half a head", "half a body", "a second one"],
)
def test_a_request_that_is_never_complete_is_not_waited_for(address, start):
    with socket.create_connection(address, timeout=10) as client:
        client.sendall(start)
        until = time.monotonic() + 8
        with contextlib.suppress(ConnectionError):
            while client.recv(100_000) and time.monotonic() < until:
                client.sendall(b"a")  # a byte now and then does not prolong it
                time.sleep(0.1)
        assert time.monotonic() < until


async def answer_at_length(scope, receive, send) -> None:
    """Ten megabytes for `/long`, which no socket takes whole; a few bytes for anything else."""
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"a" * (10_000_000 if scope["path"] == "/long" else 10)})


def test_clients_that_read_nothing_of_their_answers_keep_nobody_out(socket_enabled, monkeypatch):
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 5)
    with listening(answer_at_length) as address, contextlib.ExitStack() as clients:
        for _ in range(8):
            client = clients.enter_context(socket.create_connection(address, timeout=10))
            client.sendall(GOOD.replace(b"/queue", b"/long"))
            client.recv(1)  # it is being answered
        assert ask_wire(address, GOOD).startswith(b"HTTP/1.1 200")


def test_bytes_that_are_no_request_are_answered_and_hurt_nobody(address):
    for data in (
        b"\x16\x03\x01" + bytes(300),
        b"\r\n\r\n\r\n",
        b"GET " + b"a" * 200_000,
        b"\x00" * 1000,
        b"PRI * HTTP/2.0\r\n\r\n",
    ):
        with contextlib.suppress(ConnectionError):
            assert not ask_wire(address, data).startswith(b"HTTP/1.1 5")
    assert ask_wire(address, GOOD).startswith(b"HTTP/1.1 200")
