"""A real browser on a phone-sized page: follow a campaign, approve, reject with a reason, edit a change."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import pytest_socket

pytest.importorskip("fastapi")
pytest.importorskip("playwright.sync_api")

from playwright.sync_api import sync_playwright

from ridgeline.graph.approval import Decision
from ridgeline.sandbox.store.ledger import JsonlLedger
from tests.builders import make_history, make_round
from tests.document_builders import long
from tests.web_calls import TOKEN
from tests.web_campaigns import ask, hostile_campaign, write_ledger

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PHONE = {"width": 390, "height": 844}
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")]


@pytest.fixture
def campaign(tmp_path) -> Path:
    folder = write_ledger(tmp_path / "toy", make_history(make_round(2)))
    (folder / "status.json").write_text(f'{{"status":"running","phase":"measure","round":3,"pid":{os.getpid()}}}')
    return folder


@pytest.fixture
def address(campaign, tmp_path) -> Iterator[str]:
    """Of `ridgeline serve` in a process of its own."""
    argv = (
        sys.executable,
        "-m",
        "ridgeline",
        "serve",
        str(tmp_path / "toy"),
        "--port",
        "0",
        "--resume",
        "--token",
        TOKEN,
    )
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield f"{server.stdout.readline().strip()}?token={TOKEN}"
        server.terminate()


@pytest.fixture
def phone(address) -> Iterator:
    """A page that fails the test when its console complains."""
    pytest_socket.enable_socket()  # the browser of this machine, on this machine
    complaints: list[str] = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport=PHONE)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append("a script ran"))
        page.goto(address)
        yield page
        browser.close()
    assert complaints == []


def decided(campaign: Path) -> Decision:
    (path,) = (campaign / "approvals").glob("*.decision.json")
    return Decision.model_validate_json(path.read_bytes())


def fits(page) -> bool:
    """Nothing is cut off at the side."""
    return page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_following_a_campaign(phone, campaign):
    phone.click("tbody a")
    phone.wait_for_selector("text=running")
    assert fits(phone)
    JsonlLedger(campaign / "ledger.jsonl").append(make_round(3, "rolled_back"))
    (campaign / "status.json").write_text(f'{{"status":"running","phase":"judge","round":4,"pid":{os.getpid()}}}')
    phone.wait_for_selector("a:text-is('round 3')")
    assert "judge" in phone.inner_text("#live")


def test_approving(phone, campaign):
    ask(campaign)
    phone.click("text=Queue")
    phone.click("text=Look at the evidence")
    assert fits(phone)
    phone.click("button:text-is('Approve')")
    phone.wait_for_selector("text=Stored: approve")
    assert decided(campaign).choice == "approve"


def test_a_decision_goes_on_by_itself_and_the_page_follows(phone, campaign):
    ask(campaign)
    phone.click("text=Queue")
    phone.click("text=Look at the evidence")
    assert "This server then goes on" in phone.inner_text("main")
    phone.click("button:text-is('Approve')")
    phone.click("a:text-is('toy')")
    # a made ledger is no campaign that can be resumed; that it was tried, and why it failed, is on the page
    phone.wait_for_selector("text=left with exit code 2")
    assert "request.json: not found" in phone.inner_text("details")
    assert fits(phone)


def test_rejecting_needs_a_reason(phone, campaign):
    ask(campaign)
    phone.click("text=Queue")
    phone.click("text=Look at the evidence")
    phone.click("button:text-is('Reject')")  # the browser itself asks for the reason
    assert not list((campaign / "approvals").glob("*.decision.json"))
    phone.fill("#why-no", "we tried that in June")
    phone.click("button:text-is('Reject')")
    phone.wait_for_selector("text=Stored: reject")
    assert decided(campaign).reason == "we tried that in June"


def test_editing_a_change(phone, campaign):
    ask(campaign, source="\nint x;\n")
    phone.click("text=Queue")
    phone.click("text=Look at the evidence")
    phone.click("text=Edit the code")
    assert phone.input_value("textarea.code") == "\nint x;\n"
    phone.fill("textarea.code", "\nint y;\n")
    phone.click("text=Approve with these files")
    phone.wait_for_selector("text=Stored: edit")
    assert [edit.text for edit in decided(campaign).edits] == ["\nint y;\n"]


def test_no_text_of_a_campaign_runs(phone, campaign):
    hostile_campaign(campaign)
    ask(campaign, "<script>alert(1)</script>")
    phone.reload()
    phone.click("tbody a")
    here = phone.url
    for target in ("/r/2", "/report", ""):
        phone.goto(here + target)
        phone.wait_for_timeout(300)
    phone.click("text=Queue")
    phone.click("text=Look at the evidence")
    assert "<script>" in phone.inner_text("main")


def test_the_list_follows_what_happens_and_keeps_what_is_being_typed(phone, campaign):
    phone.wait_for_selector("text=running, round 3: measure")
    phone.fill("#words", "mat")
    JsonlLedger(campaign / "ledger.jsonl").append(make_round(3, "rolled_back"))
    (campaign / "status.json").write_text(f'{{"status":"running","phase":"judge","round":4,"pid":{os.getpid()}}}')
    phone.wait_for_selector("text=running, round 4: judge")
    phone.wait_for_selector("text=1 of 2")
    assert phone.input_value("#words") == "mat"
    phone.click("button:text-is('Show')")
    phone.wait_for_selector("tbody a:text-is('matmul_fp32_c_x86_64_20261121')")
    assert fits(phone)
    phone.click("text=Last night")
    phone.wait_for_selector("text=Need you")
    assert fits(phone)


def test_a_campaign_of_300_rounds_fits_a_phone(phone, campaign):
    write_ledger(campaign, long(300))
    phone.reload()
    phone.click("tbody a")
    phone.wait_for_selector("text=1 to 25 of 300")
    assert fits(phone)
    assert phone.evaluate("document.documentElement.scrollHeight") < 12_000, "it was 81,000 pixels"
    phone.click("text=Older >> nth=0")
    phone.wait_for_selector("text=26 to 50 of 300")
