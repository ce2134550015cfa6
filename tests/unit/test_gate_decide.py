"""Idle, busy or unknown: the thresholds, and every signal that is known to lie."""

import pytest

from ridgeline.sandbox.devices.idle import BadSetting, decide, gate_settings
from ridgeline.sandbox.devices.values import MIB, CardSample, Floor, GateSettings, GpuProcess

SETTINGS = GateSettings()
IDLE = CardSample(
    vendor="amd",
    index="0",
    utilization_pct=0,
    memory_used_bytes=285 * MIB,
    memory_total_bytes=196_288 * MIB,
    power_w=158,
    power_limit_w=750,
    processes=(),
)


def card(**fields):
    return IDLE.model_copy(update=fields)


def used_by(size, *, name="python3", pid=7, **fields):
    return (GpuProcess(pid=pid, name=name, bytes=size, **fields),)


def verdict(*samples, **words):
    return decide(samples, settings=SETTINGS, **words)


@pytest.mark.parametrize(
    ("sample", "state", "why"),
    [
        (card(), "idle", "no process of others"),
        # utilization
        (card(utilization_pct=5), "idle", "at most 5 %"),
        (card(utilization_pct=5.1, power_w=300), "busy", "utilization 5.1 %"),
        (card(utilization_pct=42, power_w=None, power_limit_w=None), "busy", "utilization 42 %"),
        (card(utilization_pct=None), "unknown", "utilization is not told"),
        (card(utilization_pct=10, power_w=100), "unknown", "disagree"),
        # processes
        (card(processes=used_by(64 * MIB)), "idle", "no user"),
        (card(processes=used_by(64 * MIB + 1)), "busy", "python3 (pid 7) holds 64 MiB"),
        (card(processes=used_by(None)), "unknown", "memory is not told"),
        (card(vendor="nvidia", processes=used_by(None)), "busy", "computes on it"),
        # memory
        (card(memory_used_bytes=1536 * MIB), "idle", "1,536 MiB"),
        (card(memory_used_bytes=1536 * MIB + 1), "busy", "more than the 1,536 MiB"),
        (card(memory_used_bytes=None, memory_share_pct=1), "idle", "1 %"),
        (card(memory_used_bytes=None, memory_share_pct=3), "unknown", "3 %"),
        (card(memory_used_bytes=None, memory_share_pct=6), "busy", "6 %"),
        # how it is divided
        (card(partition="SPX"), "idle", ""),
        (card(mig=True), "unknown", "MIG"),
        (card(compute_mode="Prohibited"), "busy", "Prohibited"),
        # one signal alone is not believed
        (CardSample(vendor="amd", utilization_pct=0), "unknown", "one signal alone"),
        (CardSample(vendor="amd", utilization_pct=0, memory_activity_pct=0), "idle", ""),
        (CardSample(vendor="amd", utilization_pct=0, memory_activity_pct=3), "unknown", "one signal alone"),
        (CardSample(vendor="amd", memory_used_bytes=0, processes=()), "unknown", "utilization is not told"),
        (CardSample(vendor="amd"), "unknown", "utilization is not told"),
    ],
)
def test_one_sample(sample, state, why):
    found = verdict(sample)
    assert found.state == state, found.reasons
    assert any(why in reason for reason in found.reasons), found.reasons


@pytest.mark.parametrize(
    ("samples", "state", "why"),
    [
        # an idle card reads 100 (firmware), at rest by its power
        ([card(utilization_pct=100, power_w=17, power_limit_w=175)] * 2, "idle", "stuck"),
        ([card(utilization_pct=100, power_w=60, power_limit_w=175)] * 2, "busy", "100 %"),
        ([card(utilization_pct=100, power_w=None)] * 2, "unknown", "power is not told"),
        (
            [card(utilization_pct=100, power_w=17, power_limit_w=175), card(power_w=17, power_limit_w=175)],
            "unknown",
            "",
        ),
        # a busy card reads 0 once
        ([card(utilization_pct=use, power_w=300) for use in (99, 0, 98)], "busy", "0 to 99 %"),
        ([card(power_w=600)], "unknown", "takes 600 W of 750 W"),
        # compute-bound: the memory controller rests
        ([card(utilization_pct=100, memory_activity_pct=0, power_w=592)], "busy", "592 W"),
        # the clock is low all the same
        ([card(utilization_pct=99, clock_mhz=173, power_w=266)], "busy", "99 %"),
        # lists that name processes of other cards, or of none
        ([card(processes=used_by(40_000 * MIB))], "idle", "on another card"),
        ([card(processes=used_by(0))], "idle", "no user"),
        ([card(vendor="nvidia", processes=used_by(400 * MIB))], "busy", "holds 400 MiB"),
        ([card(processes=used_by(200 * MIB)), card()], "busy", "holds 200 MiB"),
        ([card(processes=used_by(0, name="gpuagent"))], "idle", "no process of others"),
        ([card(processes=used_by(200 * MIB, certain=False))], "unknown", "does not say of which"),
        ([card(processes=used_by(40_000 * MIB, certain=False))], "idle", "on another card"),
        # totals of divided cards
        ([card(partition="CPX")], "unknown", "divided as CPX"),
        # somebody allocates between the samples
        (
            [card(memory_used_bytes=0, memory_total_bytes=8192 * MIB), card(memory_total_bytes=8192 * MIB)],
            "busy",
            "moves",
        ),
        # a tool that fails now and then
        ([card(), card(utilization_pct=None)], "unknown", "1 of 2 samples"),
        ([], "unknown", "no sample"),
    ],
)
def test_signals_that_lie(samples, state, why):
    found = verdict(*samples)
    assert found.state == state, found.reasons
    assert any(why in reason for reason in found.reasons), found.reasons


def test_own_processes_and_daemons_do_not_count():
    sample = card(processes=used_by(200 * MIB))
    assert verdict(sample).state == "busy"
    assert verdict(sample, own_pids={7}).state == "idle"
    assert verdict(sample, allowed=("python3",)).state == "idle"


def test_what_was_seen_of_a_card_is_its_rest():
    assert verdict(card(memory_used_bytes=900 * MIB), floor=Floor(memory_bytes=285 * MIB)).state == "busy"
    assert verdict(card(memory_used_bytes=797 * MIB), floor=Floor(memory_bytes=285 * MIB)).state == "idle"
    huge = Floor(memory_bytes=50_000 * MIB)
    assert verdict(card(memory_used_bytes=50_000 * MIB), floor=huge).state == "busy", (
        "a busy first sight teaches nothing"
    )
    stuck = card(utilization_pct=100, power_w=112, power_limit_w=1000)
    assert verdict(stuck, floor=Floor(power_w=90)).state == "idle"
    assert verdict(stuck, floor=Floor(power_w=89)).state == "busy"


def test_thresholds_are_a_persons_to_set():
    assert gate_settings({}) == SETTINGS
    found = gate_settings({"RIDGELINE_GATE": "samples=3, utilization_pct=10 allowed=Xorg+sway"})
    assert (found.samples, found.utilization_pct) == (3, 10)
    assert {"gpuagent", "Xorg", "sway"} <= {*found.allowed}
    for words in ("samples", "sample=3", "samples=0", "samples=many"):
        with pytest.raises(BadSetting, match="RIDGELINE_GATE"):
            gate_settings({"RIDGELINE_GATE": words})
