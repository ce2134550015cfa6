"""Which campaign of a fleet begins next, and where it fits."""

from ridgeline.agent.fleet.plan import (
    PATIENCE,
    Attempt,
    Entry,
    FleetFile,
    Needs,
    Node,
    Running,
    choose_next,
    find_node,
    summarize_attempts,
)

NODES = (Node(id="big", cpus=8, gpus=4, arch="H100"), Node(id="small", cpus=2))


def entry(name: str, **fields) -> Entry:
    return Entry(name=name, contract="k", **fields)


def choose(waiting, running=(), nodes=NODES, seconds=None, passed=None):
    choice = choose_next(list(waiting), list(running), nodes, seconds=seconds or {}, passed=passed or {})
    return choice and (choice[0].name, choice[1])


def test_priority_then_fairness_between_groups_then_the_file_s_order():
    waiting = [entry("a", group="x"), entry("b", group="y"), entry("c", group="y", priority=1)]
    assert choose(waiting) == ("c", "small")
    busy = [Running(entry=entry("r", group="x"), node="small")]
    assert choose(waiting[:2], busy) == ("b", "small")
    assert choose(waiting[:2], seconds={"x": 5.0}) == ("b", "small")
    assert choose(waiting[:2]) == ("a", "small")


def test_a_campaign_goes_where_least_is_left_over_and_cards_stay_free():
    assert find_node(Needs(), NODES, ()) == "small"
    assert find_node(Needs(cpus=4), NODES, ()) == "big"
    assert find_node(Needs(gpus=1, arch="H100"), NODES, ()) == "big"
    assert find_node(Needs(gpus=1, arch="MI300X"), NODES, ()) is None
    full = [Running(entry=entry(str(n), needs=Needs(gpus=1)), node="big") for n in range(4)]
    assert find_node(Needs(gpus=1), NODES, full) is None


def test_one_that_fits_nowhere_is_passed_for_a_while_and_then_its_machine_is_kept_free():
    wide, narrow = entry("wide", needs=Needs(gpus=4)), entry("narrow", needs=Needs(gpus=1))
    busy = [Running(entry=entry("r", needs=Needs(gpus=1)), node="big")]
    assert choose([wide, narrow], busy) == ("narrow", "big")
    assert choose([wide, narrow], busy, passed={"wide": PATIENCE}) is None
    assert choose([wide, narrow], passed={"wide": PATIENCE}) == ("wide", "big")
    impossible = entry("never", needs=Needs(gpus=99))
    assert choose([impossible, narrow], busy, passed={"never": PATIENCE}) == ("narrow", "big")


def test_the_table_tells_where_each_stands():
    file = FleetFile(campaigns=tuple(entry(name) for name in ("a", "b", "c", "d")))
    attempts = [
        Attempt(name="a", number=1, result="lost", seconds=60),
        Attempt(name="a", number=2, result="concluded", speedup=2.0, speedup_lower=1.9, seconds=60, dollars=None),
        Attempt(name="b", number=1, result="waiting", detail="request.md"),
    ]
    lines = summarize_attempts(file, attempts, running={"c": "gpu-7"})
    assert [line.state for line in lines] == ["concluded", "blocked", "running", "waiting"]
    assert lines[2].node == "gpu-7"
    assert (lines[0].attempts, lines[0].minutes, lines[0].speedup_lower, lines[0].dollars) == (2, 2.0, 1.9, None)
