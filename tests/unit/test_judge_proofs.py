"""Sums of outputs that stay on a card."""

import random

import numpy as np
import pytest

from ridgeline.sandbox.judge.session import (
    OutputSums,
    ProofRequest,
    are_sums_near,
    draw_signs,
    element_bits,
    is_proof_true,
    read_proof,
    signed_sums,
)
from ridgeline.sandbox.judge.worker import WorkerLost

COUNT = 10_000


def summed(raw: np.ndarray, row: np.ndarray, asked: ProofRequest, *, same: bool = True) -> OutputSums:
    return OutputSums(sums=signed_sums(raw, "float32", row, asked), same=same, bits=(element_bits(raw, asked),) * 2)


@pytest.fixture
def drawn() -> tuple[np.ndarray, np.ndarray, ProofRequest]:
    rng = np.random.default_rng()
    raw = rng.standard_normal(COUNT).astype(np.float32)
    return raw, draw_signs(COUNT, rng), ProofRequest.draw(random.Random(), all_outputs=True)


def test_outputs_that_differ_by_rounding_are_near(drawn: tuple[np.ndarray, np.ndarray, ProofRequest]) -> None:
    raw, row, asked = drawn
    other = np.nextafter(raw, np.float32(9))
    assert are_sums_near(summed(raw, row, asked), summed(other, row, asked), count=COUNT, tolerance=1e-6)


@pytest.mark.parametrize("place", [0, 4095, 4096, COUNT - 1])
def test_one_element_that_was_left_out_is_seen(drawn: tuple[np.ndarray, np.ndarray, ProofRequest], place: int) -> None:
    raw, row, asked = drawn
    other = raw.copy()
    other[place] += 1
    assert not are_sums_near(summed(raw, row, asked), summed(other, row, asked), count=COUNT, tolerance=1e-6)


def test_what_changes_after_the_call_and_what_is_no_number_is_not_near(
    drawn: tuple[np.ndarray, np.ndarray, ProofRequest],
) -> None:
    raw, row, asked = drawn
    good, late = summed(raw, row, asked), summed(raw, row, asked, same=False)
    assert not are_sums_near(good, late, count=COUNT, tolerance=1.0)
    raw[5] = np.nan
    assert not are_sums_near(good, summed(raw, row, asked), count=COUNT, tolerance=1e30)


def test_sums_of_other_outputs_are_not_told_truly(drawn: tuple[np.ndarray, np.ndarray, ProofRequest]) -> None:
    raw, row, asked = drawn
    said = summed(raw, row, asked)
    assert is_proof_true(said, raw, "float32", row, asked)
    raw[7] += 1e-3
    assert not is_proof_true(said, raw, "float32", row, asked)


@pytest.mark.parametrize(
    "words",
    [b"", b"{", b"[]", b'{"outputs": 3}', b'{"outputs": {"y": {}}}', b'{"outputs": {"y": {"sums": [], "bits": []}}}'],
)
def test_words_that_are_none_are_a_broken_protocol(words: bytes) -> None:
    with pytest.raises(WorkerLost, match="words"):
        read_proof(words)
