"""A worker on a card as timing uses it: values lie there already, each call names secret places, sums come back."""

import contextlib
import json
import math
import mmap
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ridgeline.sandbox.harness.judge_frames import (
    CALL,
    CAPTURE,
    CAPTURED,
    DONE,
    NONCE_BYTES,
    PROVE,
    PROVED,
    STOCK,
    STOCKED,
    Frame,
)
from ridgeline.sandbox.judge.card_arena import CardArena
from ridgeline.sandbox.judge.lost import Lost
from ridgeline.sandbox.judge.pool import Place
from ridgeline.sandbox.judge.proofs import Asked, Proof, read
from ridgeline.sandbox.judge.session import Broken, Sealed, Session

Array = NDArray[np.generic]
ALIGNED = 512
FETCH_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Draw:
    """What one timed call is given, by places in what lies on the card; the same for both sides."""

    inputs: Mapping[str, Place]
    const: Sequence[str]
    rings: Mapping[str, tuple[int, int]]
    """Of whole numbers: the least, and the first that is too large."""
    poison: Mapping[str, tuple[str, int]]
    decoy: int
    """Version of the decoys."""
    cold: bool
    graph: bool


@dataclass(frozen=True, kw_only=True)
class Timed:
    """One timed call."""

    claimed_us: float
    """By the events of the worker."""
    called_us: float
    """The judge's clock over the call."""
    wall_us: float
    """The judge's clock over the call and the sums of its outputs."""
    proof: Proof


@dataclass(kw_only=True)
class Stocked:
    """Memory with long rows, shared with the worker, which copied it to its card."""

    memory: mmap.mmap
    layout: dict[str, tuple[int, int]]
    descriptor: int

    def write(self, key: str, array: Array) -> None:
        """Put other values in the place of that name. Raises ValueError when they are not as many bytes."""
        start, end = self.layout[key]
        if array.nbytes != end - start:
            raise ValueError(f"{key}: {array.nbytes} bytes where {end - start} have room")
        into = np.frombuffer(self.memory, np.uint8, end - start, start)
        into[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)

    def close(self) -> None:
        """Give this end of the memory back; the worker has its own."""
        os.close(self.descriptor)


def stocked(arrays: Mapping[str, Array]) -> Stocked:
    """Shared memory with these arrays in it."""
    layout: dict[str, tuple[int, int]] = {}
    cursor = 0
    for key, array in arrays.items():
        layout[key] = (cursor, cursor + array.nbytes)
        cursor = -(-(cursor + array.nbytes) // ALIGNED) * ALIGNED
    descriptor = os.memfd_create("stock", os.MFD_CLOEXEC)
    os.ftruncate(descriptor, max(cursor, 1))
    made = Stocked(memory=mmap.mmap(descriptor, max(cursor, 1)), layout=layout, descriptor=descriptor)
    for key, array in arrays.items():
        if array.nbytes:
            made.write(key, array)
    return made


class CardSession(Session):
    """A session whose arrays lie on a card. `call` goes over the bus with everything; `timed` leaves it there."""

    def stock(self, dims: Mapping[str, int], given: Stocked) -> Broken | None:
        """Have the worker keep these rows for calls of that size."""
        try:
            slot, _ = self._bound(dims)
            with _words(json.dumps(given.layout).encode()) as words:
                frame = Frame(STOCK, os.urandom(NONCE_BYTES), slot)
                self._running.tell(frame, (given.descriptor, words), STOCKED)
        except Lost as lost:
            return self._break(lost)
        return None

    def capture(self, dims: Mapping[str, int]) -> str | Broken:
        """Have one call at each placement made into a graph: `graph` and its nodes, or `eager` and why not."""
        said = "eager"
        try:
            slot, _ = self._bound(dims)
            for placement in (0, 1):
                frame = Frame(CAPTURE, os.urandom(NONCE_BYTES), slot, placement)
                said = self._running.tell(frame, (), CAPTURED).text
                if not said.startswith("graph"):
                    break
        except Lost as lost:
            return self._break(lost)
        return said

    def timed(
        self, dims: Mapping[str, int], draw: Draw, asked: Asked, *, placement: int = 0, timeout_s: float = 60
    ) -> Timed | Broken:
        """One judged call. What is asked of its outputs is told when it has ended, and is in the judge's time."""
        try:
            slot, arena, answer, called_us = self._drawn(dims, draw, placement, timeout_s=timeout_s)
            proof, proved_us = self._proved(asked, (slot, placement), arena, timeout_s=timeout_s)
        except Lost as lost:
            return self._break(lost)
        wall_us = called_us + proved_us
        return Timed(claimed_us=answer.claim_ns / 1e3, called_us=called_us, wall_us=wall_us, proof=proof)

    def unproved(self, dims: Mapping[str, int], draw: Draw, *, placement: int = 0) -> float | Broken:
        """The same call with nothing held against it, to see what judging costs: what its events claim, in us."""
        try:
            return self._drawn(dims, draw, placement, timeout_s=FETCH_S)[2].claim_ns / 1e3
        except Lost as lost:
            return self._break(lost)

    def sealed(
        self, dims: Mapping[str, int], inputs: Mapping[str, Array], placement: int, *, fetch: bool
    ) -> Sealed | Broken:
        """All that the last call at that placement left, inputs and bands included; its times are not known here.

        `fetch`: have the worker bring it; else it has, having been asked for the whole when the call had ended.
        """
        try:
            slot, arena = self._card(dims)
            if fetch:
                self._proved(Asked.nothing(), (slot, placement), arena, timeout_s=FETCH_S)
            return Sealed(
                outputs=arena.outputs(placement),
                late=arena.seconds(),
                wall_us=math.nan,
                inputs_changed=arena.changed(inputs, placement),
                guards_broken=arena.broken(placement),
            )
        except Lost as lost:
            return self._break(lost)

    def _drawn(
        self, dims: Mapping[str, int], draw: Draw, placement: int, *, timeout_s: float
    ) -> tuple[int, CardArena, Frame, float]:
        slot, arena = self._card(dims)
        arena.say(_draw_words(draw))
        frame = Frame(CALL, os.urandom(NONCE_BYTES), slot, placement, text="drawn")
        answer, called_us = self._running.exchange(frame, DONE, timeout_s=timeout_s)
        self._running.held.settled()
        return slot, arena, answer, called_us

    def _card(self, dims: Mapping[str, int]) -> tuple[int, CardArena]:
        slot, arena = self._bound(dims)
        if not isinstance(arena, CardArena):
            raise TypeError("a session of a card without its memory")
        return slot, arena

    def _proved(
        self, asked: Asked, place: tuple[int, int], arena: CardArena, *, timeout_s: float
    ) -> tuple[Proof, float]:
        arena.say(asked.words())
        frame = Frame(PROVE, os.urandom(NONCE_BYTES), *place)
        _, wall_us = self._running.exchange(frame, PROVED, timeout_s=timeout_s)
        self._running.held.settled()
        return read(arena.said()), wall_us


def _draw_words(draw: Draw) -> bytes:
    return json.dumps(
        {
            "inputs": draw.inputs,
            "const": list(draw.const),
            "rings": draw.rings,
            "poison": draw.poison,
            "decoy": draw.decoy,
            "cold": draw.cold,
            "graph": draw.graph,
        }
    ).encode()


@contextlib.contextmanager
def _words(data: bytes) -> Iterator[int]:
    """Shared memory with these bytes."""
    descriptor = os.memfd_create("words", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, data)
        yield descriptor
    finally:
        os.close(descriptor)
