"""Which idle card is taken, which are visible at all, and how a program is bound to one."""

import pytest

from ridgeline.sandbox.devices.idle import binding, matching_cards, rank_idle, share_idle, unbound, visible_cards
from ridgeline.sandbox.devices.values import CardSample, CardVerdict


def card(index, vendor="nvidia", **fields):
    return CardSample(vendor=vendor, index=str(index), **fields)


def test_least_memory_then_least_power():
    found = rank_idle(
        [
            CardVerdict(card=card(index, memory_used_bytes=used, power_w=watts), state=state, reasons=())
            for index, used, watts, state in [
                (0, 500, 50, "idle"),
                (1, 300, 90, "idle"),
                (2, 300, 80, "idle"),
                (3, 0, 10, "busy"),
                (4, 0, 10, "unknown"),
                (5, None, 10, "idle"),
            ]
        ]
    )
    assert [one.card.index for one in found] == ["2", "1", "0", "5"]


@pytest.mark.parametrize(
    ("vendor", "environment", "left"),
    [
        ("nvidia", {}, "0123"),
        ("nvidia", {"CUDA_VISIBLE_DEVICES": "3,1"}, "31"),
        ("nvidia", {"CUDA_VISIBLE_DEVICES": "GPU-b"}, "1"),
        ("nvidia", {"CUDA_VISIBLE_DEVICES": ""}, ""),
        ("nvidia", {"CUDA_VISIBLE_DEVICES": "-1"}, ""),
        ("nvidia", {"CUDA_VISIBLE_DEVICES": "0,9,1"}, "0"),
        ("nvidia", {"HIP_VISIBLE_DEVICES": "1"}, "0123"),
        ("amd", {"HIP_VISIBLE_DEVICES": "2"}, "2"),
        ("amd", {"ROCR_VISIBLE_DEVICES": "1,3", "HIP_VISIBLE_DEVICES": "1"}, "3"),
        ("amd", {"ROCR_VISIBLE_DEVICES": "GPU-c"}, "2"),
        ("amd", {"CUDA_VISIBLE_DEVICES": "1"}, "1"),
        ("amd", {"CUDA_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "2"}, "2"),
    ],
)
def test_variables_leave_only_some_cards(vendor, environment, left):
    cards = [card(index, vendor, uuid=f"GPU-{letter}00") for index, letter in enumerate("abcd")]
    assert "".join(one.index for one in visible_cards(cards, environment)) == left


@pytest.mark.parametrize(
    ("wanted", "left"),
    [(None, "01"), ("A100", "0"), ("h100", "1"), ("gfx942", "01"), ("NVIDIA A100", "0"), ("sm_90", "01")],
)
def test_the_contract_names_a_product(wanted, left):
    cards = [card(0, name="NVIDIA A100-SXM4-80GB"), card(1, name="NVIDIA H100 80GB HBM3")]
    assert "".join(one.index for one in matching_cards(cards, wanted)) == left


def test_an_architecture_is_one_too():
    cards = [card(0, "amd", arch="gfx90a"), card(1, "amd", arch="gfx942")]
    assert [one.index for one in matching_cards(cards, "gfx942")] == ["1"]


@pytest.mark.feature("F097")
@pytest.mark.parametrize(
    ("chosen", "environment"),
    [
        (card(1, uuid="GPU-1f"), {"CUDA_VISIBLE_DEVICES": "GPU-1f", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}),
        (card(1), {"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}),
        (card(1, "amd", uuid="GPU-71"), {"ROCR_VISIBLE_DEVICES": "GPU-71", "HIP_VISIBLE_DEVICES": "0"}),
        (card(1, "amd"), {"HIP_VISIBLE_DEVICES": "1"}),
    ],
)
def test_a_program_is_bound_to_one_card(chosen, environment):
    assert binding(chosen) == environment


@pytest.mark.parametrize(
    ("chosen", "environment"),
    [
        ("nvidia", {"CUDA_VISIBLE_DEVICES": "GPU-b,GPU-a", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}),
        ("amd", {"ROCR_VISIBLE_DEVICES": "GPU-b,GPU-a", "HIP_VISIBLE_DEVICES": "0,1"}),
    ],
)
def test_a_program_is_bound_to_several_cards(chosen, environment):
    assert binding(card(1, chosen, uuid="GPU-b"), card(0, chosen, uuid="GPU-a")) == environment


@pytest.mark.parametrize(
    ("states", "environment", "count", "shares"),
    [
        ("iiii", {}, 2, ["GPU-0,GPU-2", "GPU-1,GPU-3"]),
        ("ibii", {}, 3, ["GPU-0", "GPU-2", "GPU-3"]),
        ("ibbi", {}, 3, []),
        ("iiii", {"CUDA_VISIBLE_DEVICES": "3,1"}, 2, ["GPU-1", "GPU-3"]),
        ("iiii", {"CUDA_VISIBLE_DEVICES": "3"}, 2, []),
    ],
)
def test_programs_beside_each_other_have_idle_cards_of_their_own(states, environment, count, shares):
    words = {"i": "idle", "b": "busy"}
    cards = [
        CardVerdict(card=card(index, uuid=f"GPU-{index}"), state=words[state], reasons=())
        for index, state in enumerate(states)
    ]
    made = share_idle(cards, count, {**environment, "HOME": "/h"})
    assert [each["CUDA_VISIBLE_DEVICES"] for each in made] == shares
    assert all(each["HOME"] == "/h" for each in made)


def test_what_said_another_card_is_taken_away():
    assert unbound({"ROCR_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "x", "LD_LIBRARY_PATH": "y"}) == {
        "LD_LIBRARY_PATH": "y"
    }


def test_one_name_per_card():
    assert card(0, pci="0000:06:00.0", uuid="GPU-1").key == "gpu-0000:06:00.0"
    assert (card(0, uuid="GPU-1").key, card(3).key) == ("gpu-GPU-1", "gpu-nvidia-3")
