"""Fifty campaigns of a hundred rounds: every page within a second of processor time, read or not."""

import time
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

from ridgeline.agent.web.application import application
from ridgeline.agent.web.catalogue import Catalogue
from ridgeline.agent.web.gatekeeper import Access
from tests.document_builders import long
from tests.web_calls import call
from tests.web_campaigns import write_ledger

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
    web = application(many, Access())
    catalogue = Catalogue(many)
    name = next(iter(catalogue.known()))
    for each in catalogue.known():
        catalogue.row(each)
    assert took(catalogue.rows) < MOST_S
    assert all(row.record is not None and row.record.rounds == 100 for row in catalogue.rows())
    for target in ("/", f"/c/{name}", f"/c/{name}/r/60", f"/c/{name}/report", "/queue"):
        spent = took(lambda target=target: call(web, target))
        assert spent < MOST_S, f"{target}: {spent:.2f} s"
