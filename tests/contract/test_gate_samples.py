"""The recordings beside the specification, decided as they are described; read in place, absent elsewhere."""

from pathlib import Path

import pytest

from ridgeline.agent.machine import decide_from_files
from ridgeline.sandbox.devices.values import Unreadable

ROOTS = [Path(__file__).parents[level] / "shared" / "samples" for level in (2, 3)]
ROOT = next((root for root in ROOTS if root.is_dir()), ROOTS[0])
pytestmark = pytest.mark.skipif(not ROOT.is_dir(), reason="the recordings are not here")

DECIDED = [
    ("amd_smi/mi355x_26.2.1_idle_metric.json", "idle"),
    ("amd_smi/mi355x_26.2.1_list.json", "unknown"),
    ("amd_smi/mi355x_26.2.1_process_no_vram.json", "unknown"),
    ("amd_smi/mi355x_26.2.1_static.json", "unknown"),
    ("amd_smi/rocm6.4_mi300x_busy_monitor.txt", "busy"),
    ("amd_smi/rocm6_w7700_metric_usage_SUBSET.json", "busy"),
    ("amd_smi/rocm7.0.2_mi300x_idle_metric.json", "idle"),
    ("amd_smi/rocm7_mi300x_llama_server_mem_usage.json", "busy"),
    ("amd_smi/rocm7_mi300x_llama_server_process.json", "busy"),
    ("amd_smi/watch_mode_prefix_and_string_usage.txt", "unknown"),
    ("nvidia_smi/h100_busy_query_gpu.csv", "busy"),
    ("nvidia_smi/h100_idle_q.xml", "idle"),
    ("nvidia_smi/h100_idle_query_gpu.csv", "idle"),
    ("nvidia_smi/h100_idle_query_recorded.csv", "idle"),
    ("nvidia_smi/h100_idle_table.txt", "idle"),
    ("nvidia_smi/rtx3070_query_gpu.csv", "idle"),
    ("nvidia_smi/v100_busy_training_5s_samples.csv", "busy"),
    ("rocm_smi/mi250_rocm5_all.json", "unknown"),  # its authors edited the utilization to 10 and 20 % at idle power
    ("rocm_smi/mi250_rocm6_all_idle.json", "idle"),
    ("rocm_smi/mi300a_idle_text.txt", "idle"),
    ("rocm_smi/mi300x_idle_showuse_power_temp_meminfo.json", "idle"),
    ("rocm_smi/mi300x_llama_server_meminfo.json", "busy"),
    ("rocm_smi/mi300x_llama_server_showpids.json", "busy"),
    ("rocm_smi/mi350_busy_with_pids.json", "busy"),
    ("rocm_smi/r9700_x2_meminfo_vram.json", "busy"),
    ("rocm_smi/rx7900xt_idle.csv", "idle"),
    ("rocm_smi/rx7900xt_idle.json", "idle"),
]


@pytest.mark.parametrize(("name", "state"), DECIDED)
def test_each_recording(name, state):
    found = decide_from_files([ROOT / name])
    assert found.decision == state
    assert all(card.state == state and card.reasons for card in found.cards)


def test_a_recording_that_was_cut_is_refused():
    with pytest.raises(Unreadable, match="line 1: the JSON is cut off"):
        decide_from_files([ROOT / "amd_smi/rocm7.2_r9700_idle_but_gfx100_TRUNCATED.txt"])


@pytest.mark.parametrize(
    ("names", "state", "count"),
    [
        (["amd_smi/mi355x_26.2.1_idle_metric.json", "amd_smi/mi355x_26.2.1_process_no_vram.json"], "idle", 1),
        (["rocm_smi/mi300x_llama_server_meminfo.json", "rocm_smi/mi300x_llama_server_showpids.json"], "busy", 1),
        (["rocm_smi/mi300x_idle_showuse_power_temp_meminfo.json", "rocm_smi/mi350_busy_with_pids.json"], "busy", 1),
    ],
)
def test_recordings_together(names, state, count):
    found = decide_from_files([ROOT / name for name in names])
    assert (found.decision, len(found.cards)) == (state, count)


def test_the_numbers_are_those_recorded():
    (card,) = decide_from_files([ROOT / "rocm_smi/mi350_busy_with_pids.json"]).cards
    assert (card.utilization_pct, card.power_w, card.memory_used_mb) == (99, 266, 191502.2)
    assert [one.pid for one in card.processes or ()] == [710898, 721888]
    (card,) = decide_from_files([ROOT / "amd_smi/mi355x_26.2.1_static.json"]).cards
    assert (card.id, card.name, card.utilization_pct, card.processes) == (
        "0000:05:00.0",
        "AMD Instinct MI355X",
        None,
        None,
    )
    assert decide_from_files([ROOT / "rocm_smi/mi300a_idle_text.txt"]).idle == (0, 1, 3, 2), "least power first"
