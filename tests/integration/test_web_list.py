"""The list of campaigns and the morning page: dates, bounds, ends, order, search below, and what is live."""

import asyncio
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

from ridgeline.agent.campaign import folders
from ridgeline.agent.web.catalogue import Catalogue
from ridgeline.agent.web.gatekeeper import Access
from ridgeline.agent.web.live import All, Streams
from ridgeline.agent.web.server import application
from ridgeline.sandbox.store.ledger import JsonlLedger
from tests.builders import make_history, make_round
from tests.document_builders import complete, make_concluded
from tests.web_calls import TOKEN, call, seen
from tests.web_campaigns import ask, write_ledger


def made(folder: Path, op: str, *, created: str, speedup: float | None = None, hours_ago: float = 1.0) -> Path:
    """A campaign of that kernel; concluded where it has a speedup."""
    history = make_history(make_round(2), make_round(3, "rolled_back"))
    target = history.opened.target.model_copy(update={"campaign": f"{op}_c", "target_op": op, "created": created})
    ended = (datetime.now(UTC) - timedelta(hours=hours_ago)).isoformat()
    rounds = tuple(closed.model_copy(update={"closed_at": ended}) for closed in history.rounds)
    end = make_concluded(speedup=speedup, speedup_lower=speedup - 0.1, closed_at=ended) if speedup else None
    opened = history.opened.model_copy(update={"target": target})
    return write_ledger(folder, history.model_copy(update={"opened": opened, "rounds": rounds, "concluded": end}))


def stand(folder: Path, **status: object) -> None:
    (folder / "status.json").write_text(json.dumps(status))


@pytest.fixture
def kernels(tmp_path) -> Path:
    """Four campaigns in repositories at different depths below one folder."""
    root = tmp_path / "kernels"
    workspace = "agent/workspace"
    made(root / "one" / workspace / "gelu", "gelu", created="2026-11-20 22:00", speedup=1.5, hours_ago=60)
    made(root / "team" / "two" / workspace / "norm", "norm", created="2026-11-22 21:00", speedup=3.0)
    running = made(root / "team" / "deep" / "three" / workspace / "topk", "topk", created="2026-11-22 23:00")
    stand(running, status="running", phase="measure", round=4, pid=os.getpid())
    asks = made(root / "four" / workspace / "pool", "pool", created="2026-11-22 20:00")
    ask(asks)
    stand(asks, status="waiting", phase="approve_change", round=3)
    return root


@pytest.fixture
def web(kernels):
    """Everything is read."""
    found = application((kernels,), Access(token=TOKEN))
    catalogue = Catalogue((kernels,))
    for name in catalogue.find_campaigns():
        call(found, f"/c/{name}")
    return found


def names(page: str) -> list[str]:
    """Kernels in the order of the page."""
    words = [word.strip() for word in seen(page).words]
    return [word.removesuffix("_c") for word in words if word in ("gelu_c", "norm_c", "topk_c", "pool_c")]


def test_folders_are_searched_below_and_nothing_else_is_taken_for_a_campaign(kernels):
    for other in (".hidden", "node_modules", "plain"):
        (kernels / other).mkdir()
        (kernels / other / "status.json").write_text("{}")
    write_ledger(kernels / ".hidden" / "agent" / "workspace" / "x", complete())
    (kernels / "loop").symlink_to(kernels)
    inside = next(kernels.rglob("gelu"))
    (inside / "mirror.git" / "deep").mkdir(parents=True)
    write_ledger(inside / "mirror.git" / "deep", complete())
    found, whole = folders.below(kernels)
    assert (sorted(path.name for path in found), whole) == (["gelu", "norm", "pool", "topk"], True)
    assert len(Catalogue((kernels,)).find_campaigns()) == 4


def test_the_queue_of_a_folder_is_searched_below_too(cli, kernels):
    (waiting,) = cli("queue", kernels, "--json").json["waiting"]
    assert Path(waiting["dir"]).name == "pool"


def test_a_search_that_would_take_too_long_ends_and_says_so(kernels, monkeypatch):
    monkeypatch.setattr(folders, "MOST_FOLDERS", 5)
    web = application((kernels,), Access(token=TOKEN))
    assert "too many folders below it" in call(web, "/").text


def test_a_campaign_that_begins_beside_a_known_one_is_shown_at_once(kernels, monkeypatch):
    monkeypatch.setattr("ridgeline.agent.web.catalogue.RESCAN_S", 0.0)
    catalogue = Catalogue((kernels,))
    before = set(catalogue.find_campaigns())
    write_ledger(kernels / "team" / "two" / "agent" / "workspace" / "fresh", complete())
    (fresh,) = set(catalogue.find_campaigns()) - before
    assert catalogue.folder(fresh).name == "fresh"


def test_the_list_says_when_how_much_at_least_and_why_it_ended(web):
    page = call(web, "/").text
    text = "".join(seen(page).words)
    for expected in ("2026-11-22 21:00", "3.00x", "at least 2.90x", "5 of 5 rounds", "round 4: measure", "asks you"):
        assert expected in text
    assert "T3" not in text
    assert names(page) == ["pool", "topk", "norm", "gelu"], "who asks, what runs, then the newest"


@pytest.mark.parametrize(
    ("query", "order"),
    [
        ("sort=name", ["gelu", "norm", "pool", "topk"]),
        ("sort=name&turned=1", ["topk", "pool", "norm", "gelu"]),
        ("sort=begun", ["topk", "norm", "pool", "gelu"]),
        ("sort=speedup&state=concluded", ["norm", "gelu"]),
        ("sort=speedup&turned=1&state=concluded", ["gelu", "norm"]),
        ("state=asks", ["pool"]),
        ("state=running", ["topk"]),
        ("q=TWO+c", ["norm"]),
        ("q=deep", []),
        ("q=gelu", ["gelu"]),
    ],
)
def test_the_list_is_sorted_and_filtered(web, query, order):
    assert names(call(web, f"/?{query}").text) == order


def test_a_column_is_turned_by_its_own_head_and_keeps_the_filter(web):
    assert "/?state=concluded&sort=name" in seen(call(web, "/?state=concluded").text).links
    assert "/?state=concluded&sort=name&turned=1" in seen(call(web, "/?state=concluded&sort=name").text).links


@pytest.mark.parametrize("query", ["sort=nothing", "state=gone", "page=0", "q=" + "x" * 101])
def test_an_address_that_asks_for_what_there_is_not_is_refused(web, query):
    assert call(web, f"/?{query}").status == 404


def test_the_list_is_told_of_what_changes_and_of_nothing_else(kernels, monkeypatch):
    monkeypatch.setattr("ridgeline.agent.web.live.EVERY_S", 0.01)
    catalogue = Catalogue((kernels,))
    stamps = [catalogue.stamp(), catalogue.stamp()]
    (running,) = kernels.rglob("topk")
    JsonlLedger(running / "ledger.jsonl").append(make_round(4))
    stamps.append(catalogue.stamp())
    stand(running, status="running", phase="judge", round=5, pid=os.getpid())
    stamps.append(catalogue.stamp())
    assert [a == b for a, b in zip(stamps, stamps[1:], strict=False)] == [True, False, False]

    async def followed() -> str:
        stream = Streams().follow(lambda: All(stamp=catalogue.stamp()))
        first = await anext(stream)
        await stream.aclose()
        return first

    assert stamps[-1] in asyncio.run(followed())


def test_the_morning_page_begins_with_what_needs_a_person(web):
    page = call(web, "/morning").text
    text = " ".join(word.strip() for word in seen(page).words if word.strip())
    assert names(page) == ["pool", "norm", "topk"], "gelu ended the day before yesterday"
    assert "Need you 1 Concluded 1 Running 1 Changes kept 3 of 6" in text
    for expected in ("3.000x, at least 2.900x at 99 % confidence", "round 2: ", "Not settled", "git am"):
        assert expected in text
    assert names(call(web, "/morning?hours=72").text) == ["pool", "norm", "gelu", "topk"]


def test_a_campaign_with_many_kept_changes_leaves_room_for_the_others(tmp_path):
    rounds = tuple(make_round(number) for number in range(2, 42))
    folder = write_ledger(tmp_path / "toy", make_history(*rounds))
    stand(folder, status="running", phase="measure", round=42, pid=os.getpid())
    web = application((folder,), Access(token=TOKEN))
    call(web, f"/c/{next(iter(Catalogue((folder,)).find_campaigns()))}")
    page = call(web, "/morning").text
    assert "and 32 before" in page
    assert page.count("<li>") < 20
