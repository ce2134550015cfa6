"""Fifty campaigns of a hundred rounds: every page within a second of processor time, read or not."""

import re
import time
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

from ridgeline.agent.web.catalogue import Catalogue
from ridgeline.agent.web.gatekeeper import Access
from ridgeline.agent.web.server import application
from ridgeline.sandbox.store.ledger import JsonlLedger
from tests.builders import make_round
from tests.document_builders import long
from tests.web_calls import TOKEN, call
from tests.web_campaigns import write_ledger

AGAIN_S = 0.1
"""Of a page that was shown before."""
MOST_S = 1.0
"""Of processor time, this process alone: the machine is shared."""


@pytest.fixture(scope="module")
def many(tmp_path_factory) -> list[Path]:
    root = tmp_path_factory.mktemp("many")
    first = write_ledger(root / "campaign-00" / "agent" / "workspace" / "toy", long(100))
    folders = [first]
    for number in range(1, 50):
        folder = root / f"campaign-{number:02d}" / "agent" / "workspace" / "toy"
        folder.mkdir(parents=True)
        (folder / "ledger.jsonl").write_bytes((first / "ledger.jsonl").read_bytes())
        folders.append(folder)
    return folders


def took(work) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def test_the_list_does_not_wait_for_what_it_has_not_read(many):
    catalogue = Catalogue(many)
    assert took(catalogue.rows) < MOST_S
    assert len(catalogue.rows()) == 50


@pytest.mark.slow
def test_every_page_is_there_within_a_second(many):
    web = application(many, Access(token=TOKEN))
    catalogue = Catalogue(many)
    name = next(iter(catalogue.find_campaigns()))
    for each in catalogue.find_campaigns():
        catalogue.row(each)
    assert took(catalogue.rows) < MOST_S
    assert all(row.record is not None and row.record.result.rounds == 100 for row in catalogue.rows())
    for target in ("/", f"/c/{name}", f"/c/{name}/r/60", f"/c/{name}/report", "/queue"):
        spent = took(lambda target=target: call(web, target))
        assert spent < MOST_S, f"{target}: {spent:.2f} s"


@pytest.mark.slow
def test_a_page_of_300_rounds_is_short_and_rendered_once(tmp_path):
    folder = write_ledger(tmp_path / "agent" / "workspace" / "toy", long(300))
    web = application((folder,), Access(token=TOKEN))
    (name,) = Catalogue((folder,)).find_campaigns()
    assert took(lambda: call(web, f"/c/{name}")) < MOST_S
    for target in (f"/c/{name}", f"/c/{name}/report", f"/c/{name}?page=2"):
        call(web, target)
        again = min(took(lambda target=target: call(web, target)) for _ in range(3))
        assert again < AGAIN_S, f"{target}: {again:.2f} s"
    pages = [call(web, f"/c/{name}?page={number}").text for number in (1, 2, 12, 99)]
    rounds = [sorted({int(n) for n in re.findall(rf'/c/{name}/r/(\d+)"', page)}) for page in pages]
    assert rounds == [[*range(277, 302)], [*range(252, 277)], [*range(2, 27)], [*range(2, 27)]]
    assert "the newest first, 1 to 25 of 300" in pages[0]
    assert all(len(page) < 90_000 for page in pages), "a phone showed 81,000 pixels of 211,000 characters"


def test_what_a_ledger_gains_is_shown_though_the_page_was_rendered_before(tmp_path):
    folder = write_ledger(tmp_path / "toy", long(30))
    web = application((folder,), Access(token=TOKEN))
    (name,) = Catalogue((folder,)).find_campaigns()
    assert "from round 32 on, is not counted" in call(web, f"/c/{name}").text
    JsonlLedger(folder / "ledger.jsonl").append(make_round(32, "rolled_back"))
    text = call(web, f"/c/{name}").text
    assert "from round 33 on, is not counted" in text
    assert "round 32" in text
