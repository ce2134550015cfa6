"""Output of nvidia-smi, amd-smi and rocm-smi, recorded and in the shapes their versions have."""

import json
import os
from pathlib import Path

import pytest

from ridgeline.sandbox.devices import amd, nvidia
from ridgeline.sandbox.devices.values import Reading

RECORDED = Path(__file__).parents[1] / "data" / "conditions" / "h100_matmul_poll.csv"
FIELDS = nvidia.FIELDS[1]
SAMPLES = Path(os.environ.get("KERNEL_TOOL_SAMPLES", "none"))
"""A collection of recordings that may not be copied into the project; its tests are skipped without it."""
LINE = "2026/11/21 17:56:49.546, 1425, 2619, 56, 240.48, 0x{mask:016x}\n"


def test_a_recorded_run_of_matrix_products_on_an_h100():
    found = nvidia.parse_readings(RECORDED.read_text(encoding="ascii"), FIELDS, monotonic_s=0)
    assert len(found) == 41
    assert {one.sm_mhz for one in found if one.idle} == {345}
    assert {one.sm_mhz for one in found if not one.idle} == {1980}
    assert max(one.watts for one in found) == 659.65
    assert all(one.slowdowns == () for one in found)
    times = [one.at_us for one in found]
    assert times == sorted(times)
    assert 7.9e6 < times[-1] - times[0] < 8.1e6


@pytest.mark.parametrize(
    ("mask", "slowdowns", "idle"),
    [
        (0x0, (), False),
        (0x1, (), True),
        (0x2, (), False),  # a person's clock setting
        (0x4, ("power cap",), False),
        (0x8, ("hardware slowdown",), False),
        (0x10, (), False),
        (0x20, ("software thermal slowdown",), False),
        (0x48, ("hardware slowdown", "hardware thermal slowdown"), False),
        (0x88, ("hardware slowdown", "hardware power brake"), False),
        (0x100, (), False),
    ],
)
def test_why_a_clock_is_low(mask, slowdowns, idle):
    (one,) = nvidia.parse_readings(LINE.format(mask=mask), FIELDS, monotonic_s=0)
    assert (one.slowdowns, one.idle) == (slowdowns, idle)


def test_times_are_moved_to_the_monotonic_clock():
    (one,) = nvidia.parse_readings(LINE.format(mask=0), FIELDS, monotonic_s=-1795283800)
    assert one.at_us == pytest.approx(9.546e6, abs=1)


def test_what_a_card_does_not_tell_is_none_and_never_zero():
    line = "2026/11/21 17:56:49.546, [N/A], [Not Supported], ERR!, [Unknown Error], [N/A]\n"
    (one,) = nvidia.parse_readings(line, FIELDS, monotonic_s=0)
    assert one == Reading(at_us=one.at_us)


def test_the_line_that_was_being_written_is_left_out():
    text = LINE.format(mask=0) + "2026/11/21 17:56:49.746, 1425, 2619, 56, 240.48, 0x00"
    assert len(nvidia.parse_readings(text, FIELDS, monotonic_s=0)) == 1
    assert nvidia.parse_readings("No devices were found\n", FIELDS, monotonic_s=0) == ()


def test_counters_of_slowdowns():
    (one,) = nvidia.parse_readings(
        "2026/11/21 18:15:35.765, 465, 2619, 34, 103.68, 0x1, 0, 12, [N/A]\n", nvidia.FIELDS[0], monotonic_s=0
    )
    assert [(count.name, count.value) for count in one.counts] == [
        ("software thermal slowdown", 0),
        ("hardware thermal slowdown", 12),
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ()),
        ("420, /opt/torch/.venv/bin/python3, 650\n", ("/opt/torch/.venv/bin/python3 (420)",)),
        ("7, [Not Found], [N/A]\n9, b, 1\n", ("[Not Found] (7)", "b (9)")),
        ("No running processes found\n", ()),
    ],
)
def test_processes_on_an_nvidia_card(text, found):
    assert nvidia.parse_processes(text) == found


@pytest.mark.parametrize(
    ("cell", "value"), [("1980", 1980), ("592.74 W", 592.74), ("0 %", 0), ("[N/A]", None), ("", None), ("ERR!", None)]
)
def test_numbers(cell, value):
    assert nvidia.number(cell) == value


def card(**groups):
    return {
        "gpu": 0,
        "clock": {"gfx_0": {"clk": {"value": 2100, "unit": "MHz"}}, "mem_0": {"clk": {"value": 1300, "unit": "MHz"}}},
        "temperature": {"edge": "N/A", "hotspot": {"value": 45, "unit": "C"}},
        "power": {"socket_power": {"value": 158, "unit": "W"}},
        **groups,
    }


VIOLATIONS = {
    "accumulation_counter": 11240028,
    "prochot_accumulated": 0,
    "ppt_accumulated": 812,
    "socket_thermal_accumulated": {"value": 3, "unit": ""},
    "vr_thermal_accumulated": "N/A",
    "hbm_thermal_accumulated": 0,
    "prochot_violation_status": "NOT ACTIVE",
    "ppt_violation_status": "ACTIVE",
    "socket_thermal_violation_status": "ACTIVE",
    "vr_thermal_violation_status": "N/A",
    "hbm_thermal_violation_status": "NOT ACTIVE",
}


@pytest.mark.parametrize("wrap", [lambda cards: cards, lambda cards: {"gpu_data": cards}], ids=["6.x", "7.x"])
def test_a_card_of_amd_smi(wrap):
    found = amd.parse_metric("WARNING: [drm] old firmware\n" + json.dumps(wrap([card(throttle=VIOLATIONS)])), at_us=5.0)
    assert found is not None
    assert (found.sm_mhz, found.memory_mhz, found.celsius, found.watts, found.at_us) == (2100, 1300, 45, 158, 5)
    assert found.slowdowns == ("power cap", "socket too hot")
    counts = {count.name: count.value for count in found.counts}
    assert counts == {"processor hot": 0, "power cap": 812, "socket too hot": 3, "memory too hot": 0}


@pytest.mark.parametrize("throttle", ["N/A", {}, {"ppt_violation_status": "N/A"}])
def test_a_card_that_tells_no_slowdowns(throttle):
    found = amd.parse_metric(json.dumps({"gpu_data": [card(throttle=throttle, clock="N/A", power="N/A")]}))
    assert found is not None
    assert (found.slowdowns, found.counts, found.sm_mhz, found.watts) == (None, (), None, None)


@pytest.mark.parametrize("text", ["", "no JSON", "[]", '{"gpu_data": "N/A"}', "[1, 2]", '{"gpu_data": [{"gpu"'])
def test_no_card(text):
    assert amd.parse_metric(text) is None
    assert amd.parse_processes(text) is None


def listed(*entries):
    return json.dumps([{"gpu": 0, "process_list": [{"process_info": entry} for entry in entries]}])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            listed({"name": "server", "pid": 28389, "mem_usage": {"value": 2353860608, "unit": "B"}}),
            ("server (28389)",),
        ),
        (listed({"pid": 42, "memory_usage": {"vram_mem": {"value": 0, "unit": "B"}}}), ()),  # a monitor
        (listed({"pid": 7, "memory_usage": {"vram_mem": {"value": 9, "unit": "B"}}}), ("N/A (7)",)),
        (listed("No running processes detected"), ()),
        (json.dumps([{"gpu": 0, "process_list": []}]), ()),
    ],
)
def test_processes_on_an_amd_card(text, found):
    assert amd.parse_processes(text) == found


ROCM = {
    "card0": {
        "Temperature (Sensor junction) (C)": "60.0",
        "Current Socket Graphics Package Power (W)": "266.0",
        "sclk clock speed:": "(173Mhz)",
        "mclk clock speed:": "(2000Mhz)",
        "GPU use (%)": "100",
    },
    "system": {"PID710898": "sglang::schedul, 1, 200145596416, 27, 88", "PID721888": "python3, 0, 0, 0, 0"},
}


def test_a_card_of_rocm_smi():
    found = amd.parse_rocm_smi(f"WARNING: low power\n{json.dumps(ROCM)}\n{json.dumps(ROCM)}", card="card0")
    assert found is not None
    assert (found.sm_mhz, found.memory_mhz, found.celsius, found.watts) == (173, 2000, 60, 266)
    assert (found.slowdowns, found.idle) == (None, None)
    assert amd.parse_rocm_smi(json.dumps(ROCM), card="card1") is None
    old = amd.parse_rocm_smi(
        '{"card0": {"Average Graphics Package Power (W)": "89.0", "sclk clock speed:": "N/A"}}', card="card0"
    )
    assert old is not None
    assert (old.watts, old.sm_mhz, old.celsius) == (89, None, None)


def test_rocm_smi_does_not_say_on_which_of_several_cards_a_process_is():
    assert amd.parse_rocm_smi_processes(json.dumps(ROCM)) == ("sglang::schedul (710898)",)
    assert amd.parse_rocm_smi_processes(json.dumps({**ROCM, "card1": {}})) is None
    assert amd.parse_rocm_smi_processes(json.dumps({"card0": {}, "system": {}})) == ()
    assert amd.parse_rocm_smi_processes("nothing") is None


def recorded(name: str) -> str:
    path = SAMPLES / name
    if not path.is_file():
        pytest.skip("KERNEL_TOOL_SAMPLES names no folder with this recording")
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "watts", "celsius"),
    [
        ("amd_smi/mi355x_26.2.1_idle_metric.json", 239, 36),
        ("amd_smi/rocm7.0.2_mi300x_idle_metric.json", 158, 45),
        ("amd_smi/rocm6_w7700_metric_usage_SUBSET.json", None, None),
        ("amd_smi/watch_mode_prefix_and_string_usage.txt", None, None),
    ],
)
def test_recordings_of_amd_smi(name, watts, celsius):
    found = amd.parse_metric(recorded(name))
    assert found == Reading(at_us=None, watts=watts, celsius=celsius)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("rocm_smi/mi250_rocm5_all.json", (800, 1600, 35, 89)),
        ("rocm_smi/mi250_rocm6_all_idle.json", (800, 1600, 44, 91)),
        ("rocm_smi/mi350_busy_with_pids.json", (173, 2000, 60, 266)),
        ("rocm_smi/mi300x_idle_showuse_power_temp_meminfo.json", (None, None, 45, 159)),
        ("rocm_smi/rx7900xt_idle.json", (None, None, None, None)),
    ],
)
def test_recordings_of_rocm_smi(name, expected):
    found = amd.parse_rocm_smi(recorded(name), card="card0")
    assert found is not None
    assert (found.sm_mhz, found.memory_mhz, found.celsius, found.watts) == expected


def test_an_idle_card_that_reads_full_use_is_no_cause_of_anything():
    """Use is not asked for at all: some firmware reports 100 % of an idle card."""
    assert amd.parse_metric(recorded("amd_smi/rocm7.2_r9700_idle_but_gfx100_TRUNCATED.txt")) is None
    assert not {"--usage", "--showuse"} & {*amd.METRIC, *amd.OLD_METRIC, *amd.ROCM_QUERY}


def test_recorded_process_lists():
    assert amd.parse_processes(recorded("amd_smi/mi355x_26.2.1_process_no_vram.json")) == ()
    assert amd.parse_processes(recorded("amd_smi/rocm7_mi300x_llama_server_process.json")) == ("llama-server (28389)",)
    assert amd.parse_rocm_smi_processes(recorded("rocm_smi/mi300x_llama_server_showpids.json")) == (
        "llama-server (28389)",
    )
