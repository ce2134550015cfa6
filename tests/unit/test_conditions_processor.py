"""What /proc and /sys say of a core, parsed."""

import pytest

from ridgeline.sandbox.timing.observation import Ticks, mhz, parse_list, parse_mhz, parse_own, parse_stat, siblings

STAT = """cpu  1073692 27762 143549 1038106 14750 0 6052 26261 0 0
cpu0 405003 18852 67131 652757 6412 0 300 14442 0 0
cpu1 668689 8910 76418 385348 8338 7 5751 11818 100 0
intr 7830543 0
"""
CPUINFO = (
    "processor\t: 0\ncpu MHz\t\t: 2445.426\n\nprocessor\t: 1\ncpu MHz\t\t: 3100.5\n\nprocessor\t: 10\nbogomips\t: 1\n"
)


@pytest.mark.parametrize(
    ("cores", "expected"),
    [
        ({0}, Ticks(busy=405003 + 18852 + 67131 + 300, steal=14442)),
        ({1}, Ticks(busy=668689 + 8910 + 76418 + 7 + 5751, steal=11818)),  # guests are in user already
        ({0, 1}, Ticks(busy=491286 + 759775, steal=26260)),
        ({2}, None),
        ({0, 2}, None),
        (set(), None),
    ],
)
def test_busy_and_steal_of_the_cores_that_are_asked_for(cores, expected):
    assert parse_stat(STAT, cores) == expected


def test_a_kernel_without_a_steal_column_has_no_steal_and_a_torn_line_says_nothing():
    assert parse_stat("cpu0 1 2 3 4 5 6 7\n", {0}) == Ticks(busy=19, steal=0)
    assert parse_stat("cpu0 1 2 3\n", {0}) is None


def test_own_ticks_are_those_of_the_process_and_of_children_it_waited_for():
    line = "4242 (a) b (c) R 1 4242 4242 0 -1 4194304 100 0 0 0 11 22 33 44 20 0 1 0 1000 0 0\n"
    assert parse_own(line) == 11 + 22 + 33 + 44
    assert parse_own("4242 (a) R 1") is None


@pytest.mark.parametrize(
    ("text", "found"), [("0\n", {0}), ("0,64", {0, 64}), ("2-3\n", {2, 3}), ("0-1,8-9", {0, 1, 8, 9})]
)
def test_lists_of_cores(text, found):
    assert parse_list(text) == found


def test_a_list_that_is_none():
    with pytest.raises(ValueError, match="invalid literal"):
        parse_list("all")


@pytest.mark.parametrize(("core", "clock"), [(0, 2445.426), (1, 3100.5), (10, None), (2, None)])
def test_clock_of_cpuinfo(core, clock):
    assert parse_mhz(CPUINFO, core) == clock


def test_cpufreq_comes_before_cpuinfo_and_nothing_is_none(tmp_path):
    (tmp_path / "cpuinfo").write_text(CPUINFO, encoding="utf-8")
    assert mhz(0, root=tmp_path, proc=tmp_path) == 2445.426
    current = tmp_path / "cpu0" / "cpufreq" / "scaling_cur_freq"
    current.parent.mkdir(parents=True)
    current.write_text("3300000\n", encoding="ascii")
    assert mhz(0, root=tmp_path, proc=tmp_path) == 3300
    current.write_text("<unknown>\n", encoding="ascii")
    assert mhz(0, root=tmp_path, proc=tmp_path) is None
    assert mhz(3, root=tmp_path, proc=tmp_path / "nowhere") is None


def test_siblings_are_the_other_threads_of_the_core(tmp_path):
    told = tmp_path / "cpu5" / "topology" / "thread_siblings_list"
    assert siblings(5, root=tmp_path) == frozenset()
    told.parent.mkdir(parents=True)
    told.write_text("5,37\n", encoding="ascii")
    assert siblings(5, root=tmp_path) == {37}
