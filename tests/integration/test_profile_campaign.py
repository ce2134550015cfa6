"""Whole campaigns whose profiles come from stand-ins for ncu, rocprofv3 and the SMI tools, which replay recordings."""

import json
import re
from pathlib import Path

import pytest

from ridgeline.agent.campaign import wiring
from tests import standins_campaign
from tests.drive import TextPlanner
from tests.rooms import OUTSIDE
from tests.standins_profilers import counted, trace
from tests.standins_smi import cards, h100, stand_in

pytestmark = pytest.mark.slow
DATA = Path(__file__).resolve().parents[1] / "data" / "ncu"
FAST = "samples=1 interval_s=0 repeat_samples=1 repeat_interval_s=0.01 settle_s=0"
QUICK = [
    word for pair in ("calibration_pairs=4", "blocks=3", "final_pairs=3", "max_restarts=0") for word in ("--set", pair)
]
ROCM_IDLE = json.dumps(
    {
        "card0": {
            "GPU use (%)": "0", "VRAM Total Memory (B)": "206141652992", "VRAM Total Used Memory (B)": "297795584",
            "Current Socket Graphics Package Power (W)": "158.0", "PCI Bus": "0000:0C:00.0",
            "Card Series": "AMD Instinct MI300X",
        },
        "system": {},
    }
)  # fmt: skip
MI300X = {"counters": "SQ_WAVES SQ_WAVE_CYCLES GRBM_GUI_ACTIVE MfmaUtil\n"}


def calls(name="my_kernel(float*)", *, ns=100_000, gap=2_000, count=9):
    return [(name, 1_000_000 + n * (ns + gap), 1_000_000 + n * (ns + gap) + ns) for n in range(count)]


def spilling(text, scratch):
    """The same trace of a kernel with so many bytes of scratch per work-item."""
    return text.replace(",0,0,64,0,32,", f",0,{scratch},64,0,32,")


@pytest.fixture
def campaign(cli, make_repository, monkeypatch, tmp_path):
    """`campaign(script, recordings, *candidates)` -> what `run --json` said, the folder, and the stand-in's calls."""

    def run(script, recordings, *candidates, gpu="H100", **contract):
        smi, moment = ("nvidia-smi", cards(h100())) if script.startswith("ncu") else ("rocm-smi", ROCM_IDLE)
        tools = stand_in(tmp_path / "tools", smi, [moment])
        called = standins_campaign.install(tools, script, recordings)
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
        monkeypatch.setenv("RIDGELINE_GATE", FAST)
        monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
        monkeypatch.setenv(OUTSIDE, str(tools))
        monkeypatch.setitem(wiring.PLANNERS, "scripted", lambda _: TextPlanner(*candidates))
        root = make_repository(standins_campaign.project(gpu, pass_environment=[OUTSIDE], **contract))
        rounds = ("--max-rounds", str(len(candidates)))
        said = cli("run", root, "--planner", "scripted", *rounds, *QUICK, "--dir", tmp_path / "campaign", "--json")
        assert said.code == 0, said.err
        return said, tmp_path / "campaign", called

    return run


def rounds_of(folder):
    lines = [json.loads(line)["body"] for line in (folder / "ledger.jsonl").read_text().splitlines()]
    return [body for body in lines if body.get("kind") == "round"]


def told(value, name):
    """The first value of that key anywhere below."""
    if isinstance(value, dict):
        if name in value:
            return value[name]
        value = list(value.values())
    if isinstance(value, list):
        return next((found for item in value if (found := told(item, name)) is not None), None)
    return None


def analysed(closed):
    return closed["bottleneck"], closed["bottleneck_evidence"]


@pytest.mark.feature("F062", "F075")
def test_counters_of_ncu_name_the_bottleneck_and_stand_in_the_summary(campaign):
    raw = (DATA / "h100_raw.csv").read_text().replace("softmax_kernel", "my_kernel")
    said, folder, called = campaign("ncu", {"plain.csv": raw}, "speed 120", "speed 110")
    first, second = rounds_of(folder)
    for closed in (first, second):
        label, chain = analysed(closed)
        assert label == "memory"
        assert chain.startswith("mem.pct_of_peak 0.861 (high from 0.6, 0.1 ahead of the other) [ncu: ")
        assert " -> memory_bound/hbm" in chain
        assert chain.endswith("(ncu)")
    assert (said.json["accepted"], told(first, "reason")) == (1, "faster")
    assert len(called.read_text().splitlines()) == 3, "the original, and each candidate once; none twice"
    seen = told(first, "profile")
    assert seen["rung"] == "ncu"
    counters = {one["name"]: one["value"] for one in seen["counters"]}
    assert (counters["registers"], counters["occupancy"]) == (38, 75)
    assert counters["dram_pct"] == pytest.approx(86.1, abs=0.05)
    assert counters["kernel_time_us"] == pytest.approx(1000 / 120), "the program's own, not ncu's"
    stands = {one["name"]: one["rung"] for one in seen["origins"]}
    assert set(stands) == set(counters)
    assert (stands["registers"], stands["kernel_time_us"]) == ("counters", "events")
    assert seen["seconds"] > 0
    summary = (folder / "rounds" / "round-2" / "summary.md").read_text()
    assert "| registers | 38 | 38 | +0.00% | counters |" in summary
    assert re.search(r"Profiler: ncu in [0-9.]+ s\.", summary)
    kept = folder / "artifacts" / seen["report"]["sha256"][:2] / seen["report"]["sha256"]
    assert json.loads(kept.read_text())["kernel"]["display"] == "my_kernel"


@pytest.mark.feature("F081")
@pytest.mark.parametrize(("preset", "scratch"), [("evidence", 0), ("evidence", 48), ("router", 48)])
def test_a_faster_kernel_that_spills_is_kept_where_pairs_proved_it(campaign, preset, scratch):
    clean, matrix = trace(*calls()), counted("my_kernel(float*)", MfmaUtil=90.0)
    files = {
        "plain-trace.csv": clean,
        "spilled-trace.csv": spilling(clean, scratch),
        "plain-counted.csv": matrix,
        "spilled-counted.csv": matrix,
    }
    limits = {"limits": {"preset": preset}}
    said, folder, called = campaign("rocprofv3", files | MI300X, "speed 108 replay spilled", gpu="MI300X", **limits)
    (closed,) = rounds_of(folder)
    verdict = closed["judged"]["verdict"]
    assert said.json["accepted"] == (preset == "evidence")
    assert verdict["reason"] == ("faster" if preset == "evidence" else "isa_regression")
    if preset == "evidence":
        assert any("register spills rose from 0 to 48" in note for note in verdict["notes"]) == bool(scratch)
        assert verdict["lower"] > 0.06
    else:
        assert "register spills rose from 0 to 48" in verdict["sentence"]
        assert "by the rule of preset `router` (design document 002)" in verdict["sentence"]
    goals = {
        goal["metric"]: goal for goal in json.loads((folder / "memory/v1.json").read_text())["isa_metric_progress"]
    }
    assert (goals["scratch_bytes"]["target"], goals["scratch_bytes"]["met"]) == ("scratch_bytes == 0", not scratch)
    assert (goals["mfma_util"]["current"], goals["mfma_util"]["met"]) == (90.0, True)
    assert ("| scratch_bytes == 0 | 48 | no |" in (folder / "rounds/round-2/iteration_report.md").read_text()) == bool(
        scratch
    )
    label, chain = analysed(closed)
    assert label == "compute"
    assert "comp.matrix_busy 0.9" in chain
    stands = {one["name"]: one["rung"] for one in told(closed, "profile")["origins"]}
    assert (stands["scratch_bytes"], stands["kernel_time_us"], stands["mfma_util"]) == ("trace", "trace", "counters")
    seen = {one["name"]: one["value"] for one in told(closed, "profile")["counters"]}
    assert (seen["MfmaUtil"], stands["MfmaUtil"], seen["mfma_util"]) == (90, "counters", 90)
    assert "--kernel-trace" in called.read_text()
    assert "--pmc" in called.read_text()


@pytest.mark.parametrize(
    ("ns", "gap", "label", "named"),
    [(3_000, 9_000, "launch", "launch_bound/short"), (3_000, 2_000, "unknown", "mixed")],
)
def test_a_trace_without_counters_names_launches_and_nothing_more(campaign, ns, gap, label, named):
    files = {"plain-trace.csv": trace(*calls(ns=ns, gap=gap)), "plain-counted.csv": "", "counters": "SQ_WAVES\n"}
    _, folder, _ = campaign("rocprofv3", files, "speed 90", gpu="MI300X")
    (closed,) = rounds_of(folder)
    found, chain = analysed(closed)
    assert found == label
    assert named in chain
    seen = told(closed, "profile")
    assert {one["rung"] for one in seen["origins"]} <= {"trace", "analytic"}
    assert any("counters left out" in note for note in seen["notes"])


@pytest.mark.feature("F087")
def test_forbidden_counters_fall_down_the_ladder_and_say_so(campaign):
    _, folder, called = campaign("ncu-forbidden", {}, "speed 120")
    (closed,) = rounds_of(folder)
    seen = told(closed, "profile")
    assert (seen["rung"], seen.get("kernel"), seen["report"]) == ("timing_only", None, None)
    assert {one["name"]: one["rung"] for one in seen["origins"]} == {"kernel_time_us": "events", "calls": "events"}
    assert any("ERR_NVGPUCTRPERM" in note for note in seen["notes"])
    assert any(note.startswith("compiler report: ") for note in seen["notes"])
    assert "rests on timing alone" in analysed(closed)[1]
    assert len(called.read_text().splitlines()) == 2, "one try for each version: permission does not come by itself"
    summary = (folder / "rounds" / "round-2" / "summary.md").read_text()
    assert "ERR_NVGPUCTRPERM" in summary


def test_a_profiler_that_hangs_costs_its_limit_and_no_more(campaign):
    said, folder, _ = campaign("ncu-hangs", {}, "speed 120", timeouts={"profile_s": 0.5})
    assert said.json["status"] == "concluded"
    (closed,) = rounds_of(folder)
    seen = told(closed, "profile")
    assert any("0.5 s for profiling one version (timeouts.profile_s) were used up" in note for note in seen["notes"])
    assert [one["name"] for one in seen["counters"]] == ["kernel_time_us", "calls"], "the plain run came first"
    assert 0.4 < seen["seconds"] < 5
