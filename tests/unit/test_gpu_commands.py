"""Command lines of the GPU profilers and passes of counters."""

from collections import Counter
from pathlib import Path

import pytest

from ridgeline.sandbox.profiles.profilers.gpu import SLOTS, counting, fitting, halves, ncu, plan, timing, tracing

PROGRAM = ("python3", "bench.py", "--pmc")
OUT = Path("/out")


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950", None])
def test_no_pass_asks_more_of_a_block_than_it_has(arch):
    passes, dropped = plan(arch)
    assert dropped == ()
    for counters in passes:
        used = Counter(name.partition("_")[0] for name in counters)
        assert all(count <= SLOTS[block] for block, count in used.items()), counters
        assert len(set(counters)) == len(counters)


@pytest.mark.parametrize(
    ("arch", "has", "lacks"),
    [
        ("gfx90a", "TCC_EA_RDREQ_sum", "TCC_EA0_RDREQ_sum"),
        ("gfx942", "TCC_BUBBLE_sum", "TCC_EA0_RDREQ_128B_sum"),
        ("gfx950", "TCC_EA0_RDREQ_128B_sum", "TCC_BUBBLE_sum"),
    ],
)
def test_traffic_is_spelled_as_the_architecture_does(arch, has, lacks):
    names = {name for counters in plan(arch)[0] for name in counters}
    assert has in names
    assert lacks not in names


def test_what_the_tool_does_not_list_is_left_out_and_named():
    passes, dropped = plan("gfx942", frozenset({"SQ_WAVES", "TCC_HIT_sum"}))
    assert passes == (("SQ_WAVES",), ("TCC_HIT_sum",))
    assert "GRBM_GUI_ACTIVE" in dropped


def test_passes_are_cut_in_order_and_halved_until_single():
    names = tuple(f"TCC_{number}_sum" for number in range(6))
    assert fitting(names) == (names[:4], names[4:])
    assert fitting(()) == ()
    assert halves(names) == (names[:3], names[3:])
    assert halves(names[:3]) == (names[:1], names[1:3])
    assert halves(names[:1]) == ()


def test_the_program_stands_last():
    """Several options take lists and would swallow it."""
    for argv in (
        ncu(PROGRAM, OUT, kernel="k", skip=5, extra=True),
        timing(PROGRAM, OUT),
        counting(PROGRAM, OUT, counters=("SQ_WAVES",), kernel="k"),
        tracing(PROGRAM, OUT, kernel="k", call=3),
    ):
        assert argv[-len(PROGRAM) :] == PROGRAM
        assert argv[0] == "ncu" or argv[-len(PROGRAM) - 1] == "--", "options of rocprofv3 would swallow the program"


def test_rocprofv3_always_names_its_format():
    assert " ".join(timing(PROGRAM, OUT)[:9]) == "rocprofv3 --kernel-trace --stats --output-format csv -d /out -o run"
    words = " ".join(tracing(PROGRAM, OUT, kernel="k", call=3))
    assert "--att-buffer-size 0x18000000 --kernel-include-regex k --kernel-iteration-range [3-3]" in words
    assert "--output-format json csv -d /out" in words
    assert "--pmc SQ_WAVES SQ_BUSY_CU_CYCLES --kernel-include-regex" in " ".join(
        counting(PROGRAM, OUT, counters=("SQ_WAVES", "SQ_BUSY_CU_CYCLES"), kernel="k")
    )


def test_ncu_takes_base_units_free_clocks_and_few_launches():
    words = " ".join(ncu(PROGRAM, OUT, kernel="my_kernel", skip=5, extra=False))
    assert words.startswith("ncu --csv --page raw --print-units base --log-file /out ")
    assert (
        "--kernel-name regex:my_kernel --launch-skip 5 --launch-count 3 --clock-control none --cache-control all"
        in words
    )
    assert "--metrics" not in words
    unnamed = ncu(PROGRAM, OUT, kernel=None, skip=0, extra=True)
    assert "--kernel-name" not in unnamed
    assert "--metrics" in unnamed
