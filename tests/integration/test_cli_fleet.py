"""A fleet's driver: begins, notes, begins again what was lost, stops at its limits. Ray is faked here, or skipped."""

import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from ridgeline.agent.attempts import Ended, read_rows
from ridgeline.agent.errors import UserError
from ridgeline.agent.fleet.plan import Attempt, Entry, FleetFile, Node
from ridgeline.agent.fleet.ray_engine import AttemptLost, drive_in_child
from ridgeline.agent.fleet.run import Fleet, list_running
from ridgeline.agent.web.gatekeeper import Access
from ridgeline.agent.web.server import application
from tests.web_calls import TOKEN, call

TWO_SLOTS = (Node(id="n", cpus=2),)


class Cluster:
    """Two slots; each campaign answers what it was given, in turn, and takes one second."""

    def __init__(self, answers: dict[str, list], nodes=TWO_SLOTS) -> None:
        self.answers, self.nodes, self.now = answers, nodes, 0.0
        self.asked: list[tuple[str, Sequence[str]]] = []
        self.active: list[str] = []

    def list_nodes(self):
        return self.nodes

    def begin(self, name, words, needs):
        self.asked.append((name, words))
        self.active.append(name)
        assert len(self.active) <= sum(node.cpus for node in self.nodes)
        if words[0] == "run":
            folder = Path(words[words.index("--dir") + 1])
            folder.mkdir(parents=True)
            (folder / "ledger.jsonl").write_text("{}\n")

    def wait(self, seconds):
        self.now += 1
        name = self.active.pop(0)
        return [(name, self.answers[name].pop(0), "host")]


def concluded(speedup=None, dollars=0.0):
    fields = {
        "status": "concluded",
        "speedup": speedup,
        "speedup_lower": speedup and speedup - 0.1,
        "rounds": 3,
        "accepted": 1,
    }
    return Ended(code=0, output=json.dumps({**fields, "cost": {"dollars": dollars}}))


def fleet(tmp_path: Path, cluster: Cluster, *names: str, joining_s=0.0, **fields) -> Fleet:
    (tmp_path / "k").mkdir(exist_ok=True, parents=True)
    file = FleetFile(campaigns=tuple(Entry(name=name, contract="k") for name in names), **fields)
    return Fleet(
        folder=tmp_path / "fleet",
        file=file,
        root=tmp_path,
        engine=cluster,
        clock=lambda: cluster.now,
        look_s=0,
        joining_s=joining_s,
    )


def test_lost_attempts_go_on_and_a_second_fleet_begins_nothing_that_concluded(tmp_path):
    lost = AttemptLost("the node died")
    cluster = Cluster(
        {"a": [lost, concluded(2.0)], "b": [concluded()], "c": [Ended(code=3, output='{"status": "waiting"}')]}
    )
    lines = fleet(tmp_path, cluster, "a", "b", "c").run()
    assert [(name, words[0]) for name, words in cluster.asked] == [
        ("a", "run"),
        ("b", "run"),
        ("a", "resume"),
        ("c", "run"),
    ]
    assert [(line.state, line.speedup, line.attempts) for line in lines] == [
        ("concluded", 2.0, 2),
        ("concluded", None, 1),
        ("blocked", None, 1),
    ]

    with (tmp_path / "fleet" / "rows.jsonl").open("a") as rows:
        rows.write('{"name": "a", "num')  # cut by a kill
    again = Cluster({"c": [concluded(1.5)]})
    lines = fleet(tmp_path, again, "a", "b", "c").run()
    assert [(name, words[0]) for name, words in again.asked] == [("c", "resume")]
    assert [line.state for line in lines] == ["concluded"] * 3
    assert list_running(tmp_path / "fleet") == {}
    assert len(list(read_rows(tmp_path / "fleet", Attempt))) == 5


def test_one_that_is_lost_again_and_again_is_left(tmp_path):
    cluster = Cluster({"a": [AttemptLost("gone")] * 9})
    (line,) = fleet(tmp_path, cluster, "a").run()
    assert (line.attempts, line.state, line.detail) == (5, "waiting", "gone")


def test_at_most_so_many_at_a_time_and_what_a_failure_said_stays(tmp_path):
    cluster = Cluster({"a": [concluded()], "b": [Ended(code=2, output='{"error": "kernel.c: no such file"}')]})
    lines = fleet(tmp_path, cluster, "a", "b", max_parallel=1).run()
    assert (lines[1].state, lines[1].detail) == ("failed", "kernel.c: no such file")


def test_the_fleet_s_minutes_stop_what_runs_and_begin_nothing_more(tmp_path):
    cluster = Cluster({"a": [concluded()], "b": [concluded()], "c": []})
    lines = fleet(tmp_path, cluster, "a", "b", "c", max_minutes=0.5 / 60).run()
    assert [line.state for line in lines] == ["concluded", "concluded", "waiting"]
    assert (tmp_path / "fleet" / "campaigns" / "b" / "stop.request").exists()


def test_the_budget_is_shared_out_so_that_no_order_exceeds_it(tmp_path):
    cluster = Cluster({name: [concluded(dollars=1.0)] for name in "abc"})
    fleet(tmp_path, cluster, "a", "b", "c", budget_usd=6.0, settings={"budget_usd": 5}).run()
    assert [words[words.index("--budget-usd") + 1] for _, words in cluster.asked] == ["2.0000"] * 3


def test_what_fits_no_machine_is_left(tmp_path):
    cluster = Cluster({}, nodes=(Node(id="n", cpus=0.5),))
    assert fleet(tmp_path, cluster, "a").run()[0].state == "waiting"


def test_one_driver_a_fleet(tmp_path):
    cluster = Cluster({"a": [concluded()]})
    first, second = fleet(tmp_path, cluster, "a"), fleet(tmp_path, cluster, "a")
    cluster.wait = lambda seconds: (running.append(list_running(tmp_path / "fleet")), second.run())
    running = []
    with pytest.raises(UserError, match="another `ridgeline fleet` works on it"):
        first.run()
    assert running == [{"a": "n"}]


def test_what_cannot_be_read_is_one_line(cli, tmp_path):
    file = tmp_path / "fleet.yaml"
    file.write_text("campaigns:\n- {name: a/b, contract: k, neds: {gpus: 1}}\n")
    refused = cli("fleet", "run", file, "--out", tmp_path / "out")
    assert refused.code == 2
    assert "campaigns.0.neds: unknown field; did you mean 'needs'?" in refused.err
    assert "campaigns.0.name: 'a/b': use letters" in refused.err
    assert not (tmp_path / "out").exists()
    assert "is no folder of a fleet" in cli("fleet", "table", tmp_path).complaint


def test_machines_that_join_later_are_waited_for(tmp_path):
    cluster = Cluster({"a": [concluded(2.0)]}, nodes=())
    asked = fleet(tmp_path, cluster, "a", joining_s=10)

    def wait(seconds):
        if cluster.now == 3:
            cluster.nodes = TWO_SLOTS
        return Cluster.wait(cluster, seconds) if cluster.active else setattr(cluster, "now", cluster.now + 1) or ()

    cluster.wait = wait
    assert asked.run()[0].state == "concluded"
    cluster.answers, cluster.nodes = {}, ()
    left = fleet(tmp_path / "other", cluster, "a", joining_s=10)
    assert left.run()[0].state == "waiting"
    assert cluster.now >= 15


def test_a_driver_that_ray_ended_is_begun_again_until_the_cluster_answers():
    def drive(*answers, joining_s=600.0):
        left, said, now = list(answers), [], [0.0]

        def command(words, timeout_s):
            ended = left.pop(0)
            now[0] += max(ended.seconds, 1.0)
            return ended

        def sleep(seconds):
            now[0] += seconds

        ended = drive_in_child(
            ("x",), joining_s=joining_s, say=said.append, command=command, clock=lambda: now[0], sleep=sleep
        )
        return ended, len(said), len(left)

    table = Ended(code=0, output='{"campaigns": []}', seconds=5)
    by_ray = Ended(code=1, output="", seconds=70)
    unreachable = Ended(code=0, output='{"error": "--address: x", "exit_code": 5}', seconds=20)
    assert drive(by_ray, unreachable, unreachable, table) == (table, 1, 0)
    assert drive(unreachable, table) == (unreachable, 0, 1)  # it was never there: the address is wrong
    assert drive(by_ray, Ended(code=1, output="", seconds=9000), table) == (table, 2, 0)
    with pytest.raises(UserError, match="was not there again within 1 minutes"):
        drive(by_ray, *[unreachable] * 9, joining_s=60.0)


def test_a_start_that_was_killed_before_it_was_on_record_begins_again(tmp_path):
    lost = Ended(code=-9, output="")
    cluster = Cluster({"a": [lost, lost, concluded()]})
    begin = cluster.begin

    def begin_without_ledger(name, words, needs):
        begin(name, words, needs)
        folder = tmp_path / "fleet" / "campaigns" / "a"
        (folder / "ledger.jsonl").unlink(missing_ok=True)
        if len(cluster.asked) == 1:
            (folder / "logs").mkdir()
        if len(cluster.asked) == 2:
            (folder / "request.json").write_text("{}")

    cluster.begin = begin_without_ledger
    assert fleet(tmp_path, cluster, "a").run()[0].state == "concluded"
    assert [words[0] for _, words in cluster.asked] == ["run", "run", "resume"]


def test_a_fleet_in_a_browser(cli, tmp_path):
    answers = {"a": [concluded(2.0, dollars=1.5)], "b": [Ended(code=2, output='{"error": "<b>no</b>"}')]}
    cluster = Cluster({**answers, "c": [concluded()]}, nodes=(Node(id="n", cpus=1, host="gpu-7"),))
    pages = []

    def look():
        return call(application((tmp_path / "fleet",), Access(token=TOKEN)), "/fleet").text

    def wait(seconds):
        pages.append(look())
        return Cluster.wait(cluster, seconds)

    cluster.wait = wait
    fleet(tmp_path, cluster, "a", "b", "c", budget_usd=9.0).run()
    assert "<strong>gpu-7</strong>" in pages[0]
    assert "0 of 3 concluded, 1 running; 0.00 of 9.00 USD" in pages[0]
    page = look()
    assert "<strong>gpu-7</strong>" not in page
    assert "2 of 3 concluded, 1 failed; 1.50 of 9.00 USD" in page
    assert "&lt;b&gt;no&lt;/b&gt;" in page
    assert "<strong>2.00x</strong>" in page
    assert 'href="/fleet"' in page
    assert 'href="/fleet"' not in call(application((tmp_path,), Access(token=TOKEN)), "/").text
    assert "2 of 3 concluded, 1 failed; 1.50 of 9.00 USD" in cli("fleet", "table", tmp_path / "fleet").out


def test_without_ray_one_line_says_what_brings_it(cli, tmp_path):
    if importlib.util.find_spec("ray"):
        pytest.skip("Ray is installed here")
    file = tmp_path / "fleet.yaml"
    file.write_text("campaigns:\n- {name: a, contract: k}\n")
    assert cli("fleet", "run", file, "--out", tmp_path / "out").complaint.endswith("pip install 'ray>=2.50'")
