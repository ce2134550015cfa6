"""What the vendors' tools print, read: every shape, and garbage named by file and line."""

import json
import random

import pytest

from ridgeline.sandbox.devices.quantity import memory, number, pci, percent, text
from ridgeline.sandbox.devices.tools import parse, series
from ridgeline.sandbox.devices.values import MIB, Unreadable
from tests.standins_smi import apps, cards, h100

LIST = '[{"gpu": 0, "bdf": "0000:05:00.0"}, {"gpu": 1, "bdf": "0000:06:00.0"}]'
METRIC = """{"gpu_data": [
  {"gpu": 0, "usage": {"gfx_activity": {"value": 0, "unit": "%"}},
   "power": {"socket_power": {"value": 158, "unit": "W"}},
   "mem_usage": {"used_vram": {"value": 283, "unit": "MB"}, "total_vram": {"value": 196288, "unit": "MB"}}},
  {"gpu": 1, "usage": {"gfx_activity": {"value": 97, "unit": "%"}}, "power": "N/A", "mem_usage": "N/A"}]}"""
PROCESS = """[{"gpu": 0, "process_list": [{"process_info": "No running processes detected"}]},
  {"gpu": 1, "process_list": [
    {"process_info": {"name": "N/A", "pid": 7, "mem_usage": {"value": 9437184, "unit": "B"}}}]}]"""


def read(*texts):
    return series([one for text in texts for one in parse(text, "f")])


@pytest.mark.parametrize(
    ("cell", "found"),
    [
        ("592.74 W", 592.74),
        ("(173Mhz)", 173),
        ({"value": 0, "unit": "%"}, 0),
        (0, 0),
        ("0", 0),
        ("[N/A]", None),
        ("[Not Supported]", None),
        ("ERR!", None),
        ("N/A", None),
        ("", None),
        (None, None),
        (True, None),
        ("45,5", None),
        ("1e400", None),
        ({"value": "N/A", "unit": "W"}, None),
        ("nan", None),
    ],
)
def test_numbers_are_read_or_missing_and_never_zero_instead(cell, found):
    assert number(cell) == found


def test_kinds_of_numbers():
    assert percent(65535) is None, "the mark of a meter that is not there"
    assert (percent("100"), percent("100.5"), percent("-1")) == (100, None, None)
    assert (memory("283 MiB"), memory({"value": 283, "unit": "MB"}), memory("5", unit="GB")) == (
        283 * MIB,
        283 * MIB,
        5 * 1024 * MIB,
    )
    assert (memory("-1"), memory("3 parsecs")) == (None, None)
    assert pci("00000000:1B:00.0") == pci("0000:1b:00.0") == "0000:1b:00.0"
    assert (pci("N/A"), pci("1B:00.0"), text("[N/A]"), text(" x ")) == (None, None, None, "x")


@pytest.mark.parametrize("header", [True, False])
def test_nvidia_units_in_cells_or_in_the_header_only(header):
    line = h100(use="7 %", used="512 MiB", watts="[N/A]")
    if header:  # --format=csv,nounits
        for unit in (" %", " MiB", " W", " MHz"):
            line = line.replace(unit, "")
    ((card,),) = read(cards(line))
    assert (card.utilization_pct, card.memory_used_bytes, card.power_w) == (7, 512 * MIB, None)
    assert (card.pci, card.mig, card.compute_mode) == ("0000:06:00.0", False, "Default")


def test_nvidia_without_any_header():
    """The usual question, asked with noheader and nounits."""
    uuid = "GPU-4aea7c7e-adbb-0f01-ec57-000dea5c0ec3"
    line = f"0, {uuid}, 00000000:1B:00.0, NVIDIA H100, 3, 512, 81559, 71.13, 700.00, 345, Default, [N/A]\n"
    ((card,),) = read(line, f"{uuid}, 42, python, 900\n")
    assert (card.utilization_pct, card.memory_used_bytes, card.power_w, card.mig) == (3, 512 * MIB, 71.13, None)
    assert [(one.pid, one.bytes) for one in card.processes or ()] == [(42, 900 * MIB)]
    with pytest.raises(Unreadable, match="line 2: 4 cells under 12 names"):
        parse(line + line[:72], "f")


def test_nvidia_cells_that_say_nothing():
    text = "index, utilization.gpu [%], memory.used [MiB], power.draw [W]\n0, [Not Supported], ERR!, [N/A]\n"
    ((card,),) = read(text)
    assert (card.utilization_pct, card.memory_used_bytes, card.power_w) == (None, None, None)


def test_processes_are_joined_by_uuid_and_may_have_commas_in_their_names():
    uuid = "GPU-00000001-0000-0000-0000-000000000000"
    first, second = read(cards(h100(0), h100(1)), apps(f"{uuid}, 42, /usr/bin/a, b, 900 MiB", f"{uuid}, 43, x, [N/A]"))
    assert first[0].processes == ()
    assert [(one.pid, one.name, one.bytes) for one in second[0].processes or ()] == [
        (42, "/usr/bin/a, b", 900 * MIB),
        (43, "x", None),
    ]


def test_several_answers_are_one_moment_or_several():
    assert [len(card) for card in read(cards(h100(0), h100(1)), apps())] == [1, 1]
    assert [len(card) for card in read(cards(h100(0)), apps(), cards(h100(0)), apps())] == [2]
    assert [len(card) for card in read(apps(), apps(), cards(h100(0)), cards(h100(0)))] == [2], "in any order"
    assert [len(card) for card in read(apps(), apps(), cards(h100(0)))] == [2]
    assert [len(card) for card in read(cards(h100(0), h100(0), h100(0)))] == [3]
    named = "timestamp, name, utilization.gpu [%]\nt1, A, 1 %\nt1, B, 2 %\nt2, A, 3 %\nt2, B, 4 %\n"
    assert [[one.utilization_pct for one in card] for card in read(named)] == [[1, 3], [2, 4]]


def test_amd_answers_are_joined_by_the_number_of_the_card():
    first, second = read(METRIC, PROCESS, LIST)
    assert (first[0].pci, first[0].memory_used_bytes, first[0].power_w) == ("0000:05:00.0", 283 * MIB, 158)
    assert first[0].processes == ()
    assert (second[0].utilization_pct, second[0].memory_used_bytes, second[0].power_w) == (97, None, None)
    assert [(one.pid, one.name, one.bytes) for one in second[0].processes or ()] == [(7, "", 9 * MIB)]
    assert len(first) == len(second) == 1


def test_amd_shapes_of_rocm_6_and_7_are_the_same_cards():
    bare = json.dumps(json.loads(METRIC)["gpu_data"])
    assert read(bare) == read(METRIC)
    warned = f"WARNING: low power\n[WARN] [nonsense]\n{METRIC}"
    assert read(warned) == read(METRIC)
    assert read(f"{METRIC}\n{METRIC}\n") == read(METRIC), "printed twice is once"


def test_amd_limits_moved():
    for limit in (
        {"max_power": {"value": 1400, "unit": "W"}},
        {"ppt0": {"max_power_limit": {"value": 1400, "unit": "W"}}},
    ):
        ((card,),) = read(json.dumps([{"gpu": 0, "limit": limit}]))
        assert card.power_limit_w == 1400


def test_rocm_spellings_and_processes_of_no_known_card():
    old = {
        "GPU use (%)": "3",
        "GPU memory use (%)": "0",
        "Average Graphics Package Power (W)": "89.0",
        "Card series": "A",
    }
    new = {"GPU use (%)": "3", "GPU Memory Allocated (VRAM%)": "0", "Current Socket Graphics Package Power (W)": "89.0"}
    system = {"PID7": "python3, 1, 1000000000, 0, 4", "Driver version": "6"}
    document = {"system": system, "card0": old, "card1": new}
    found = read(json.dumps(document))
    assert [(card[0].utilization_pct, card[0].memory_share_pct, card[0].power_w) for card in found] == [(3, 0, 89)] * 2
    assert [one.certain for card in found for one in card[0].processes or ()] == [False, False]
    ((alone,),) = read(json.dumps({"card0": old, "system": system}))
    assert [(one.certain, one.cards) for one in alone.processes or ()] == [(True, 1)]


def test_rocm_single_questions_in_text():
    said = "===== ROCm System Management Interface =====\nGPU[0]\t\t: GPU use (%): 12\nGPU[1]\t\t: GPU use (%): 0\n"
    assert [card[0].utilization_pct for card in read(said)] == [12, 0]
    table = (
        "GPU  Temp   AvgPwr  SCLK    MCLK    Fan   Perf  PwrCap  VRAM%  GPU%\n"
        "==== ROCm System Management Interface ====\n"
        "0    33.0c  36.0W   500Mhz  96Mhz   0%    auto  300.0W   4%   7%\n"
    )
    ((card,),) = read(table)
    assert (card.utilization_pct, card.memory_share_pct, card.power_w, card.power_limit_w) == (7, 4, 36, 300)


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("", 1, "is empty"),
        ("  \n\n", 1, "is empty"),
        ("bash: nvidia-smi: command not found\n", 1, "is not the output"),
        ("No devices were found\n", 1, "is not the output"),
        (METRIC[:-30], 5, "cut off"),
        (METRIC.replace('"unit": "W"', '"unit" "W"'), 3, "broken"),
        ('{"some": "thing"}', 1, "is not the output"),
        ('[{"gpu": "zero"}]', 1, "card's number"),
        ('{"card0": "N/A"}', 1, "holds no values"),
        ('{"card0": {"GPU use (%)": NaN}}', 1, "broken"),
        (cards(h100(), "Unable to determine the device handle"), 3, "no row"),
        (cards(h100()[: len(h100()) // 2]), 2, "cells under"),
        ("<?xml version='1.0'?><nvidia_smi_log><gpu id='0'>", 1, "cut off"),
        ("<?xml version='1.0'?><nvidia_smi_log/>", 1, "no card"),
        ("device,GPU use (%)\ncard0\n", 2, "cells under"),
        ("GPU  POWER  GFX%\n  0  305 W\n", 2, "values under"),
        ("[" * 100_000, 1, "is not the output"),
        ('{"card0": ' + "[" * 100_000, 1, "JSON is"),
    ],
)
def test_garbage_is_named_by_file_and_line(text, line, why):
    with pytest.raises(Unreadable, match=why) as caught:
        parse(text, "dump.txt")
    assert str(caught.value).startswith(f"dump.txt: line {line}: ")
    assert (caught.value.exit_code, caught.value.line) == (2, line)


def test_fuzzed_text_gives_cards_or_a_named_error():
    """Cut, with characters changed, and with lines left out or doubled: never another kind of error."""
    draw = random.Random(7)
    whole = [cards(h100(0), h100(1)), apps("GPU-1, 4, python, 3 MiB"), METRIC, PROCESS, LIST]
    read_well = named = 0
    for _ in range(1500):
        text = list(draw.choice(whole))
        for _ in range(draw.randrange(1, 6)):
            at = draw.randrange(len(text))
            match draw.randrange(4):
                case 0:
                    text[at] = chr(draw.randrange(1, 0x3000))
                case 1:
                    del text[at:]
                case 2:
                    del text[at : at + draw.randrange(40)]
                case 3:
                    text[at:at] = text[max(0, at - 30) : at]
            text = text or ["x"]
        try:
            read_well += read("".join(text)) is not None
        except Unreadable as error:
            named += str(error).startswith(f"f: line {error.line}: ") and error.line >= 1
    assert read_well + named == 1500
    assert min(read_well, named) > 50
