"""Runs inside a worker: loads one candidate and calls it when told. Needs the standard library and the candidate's own.

Started by the judge as `python -I -S judge_worker.py DESCRIPTOR`. What this process says is a claim to the judge, which
keeps its own clock and looks into the shared memory itself; checks here only make honest mistakes plain.

What stands between the judge's clock and a call on a processor is kept as short as Python can have it, prepared when an
array is bound: there is little that a candidate could gain by putting its own loop in this one's place. What a call
returned stays where it is: the judge reads it there, when its clock has stopped and this process stands still.
"""

import ctypes
import gc
import importlib.util
import json
import mmap
import os
import socket
import struct
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


def _beside(name: str) -> Any:
    """Inside a worker: the module of that name beside this file, whose folder may not be listed here."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    if spec is None or spec.loader is None:
        raise ImportError(name)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


sys.dont_write_bytecode = True
frames = _beside("judge_frames")

CACHE = "XDG_CACHE_HOME"
"""Variable that names the folder in which the worker's other folders for compiled code lie."""
DRIVERS = {"cpu": (), "cuda": ("judge_card",), "segment": ("judge_card", "judge_segments", "judge_worker_cuda")}
"""Files that a device of that name needs beside its own: `segment` is a card whose arrays lie in the judge's segments."""
_libc = ctypes.CDLL(None, use_errno=True)  # before anybody notes what is loaded here
Finish = Callable[[Any], str]
"""Puts what a call returned into the arena; why it cannot be, or nothing."""
Bound = tuple[Sequence[Any], Finish | None]
"""Arguments of a call at one placement, and what finishes it."""


def finish_all(calls: Sequence[Bound], results: Sequence[Any]) -> str:
    """Inside a worker: put what calls in a row returned where it belongs; why one is no answer, or nothing."""
    for (_, finish), result in zip(calls, results, strict=True):
        if finish is not None and (wrong := finish(result)):
            return wrong
    return ""


class Cpu:
    """Arrays on the processor lie in the shared memory itself, so nothing is moved before or after a call.

    Another device has the same methods: `bind` makes arrays of its own, `run` fills them and brings results.
    """

    move = staticmethod(ctypes.memmove)
    """(target, source, bytes): how a returned array gets to its place, where the judge cannot read it where it is."""

    def __init__(self) -> None:
        self._clock = time.perf_counter_ns  # taken before the candidate could put another in its place
        self._memories: dict[int, mmap.mmap] = {}  # a pointer in C keeps no memory alive

    def open(self, descriptor: int, layout: dict[str, Any]) -> mmap.mmap:
        """Inside a worker: the shared memory that came with a layout."""
        return _map(descriptor)

    def bind(
        self, slot: int, memory: mmap.mmap, layout: dict[str, Any], wrap: Callable[..., Any]
    ) -> list[dict[str, Any]]:
        """Inside a worker: arrays by name, for each placement, as the candidate's language has them. A slot may be given anew."""
        self._memories[slot] = memory
        return [
            {
                array["name"]: wrap(memory, array["dtype"], array["shape"], offsets[array["name"]])
                for array in layout["arrays"]
            }
            for offsets in layout["placements"]
        ]

    def run(self, frame: Any, entry: Callable[..., Any], arguments: Sequence[Any], finish: Finish | None) -> Any:
        """Inside a worker: one call of the candidate: its time in ns, and why its result is no answer. Inputs and outputs are in place."""
        clock = self._clock
        began = clock()
        result = entry(*arguments)
        took = clock() - began
        return took, finish(result) if finish is not None else ""

    def run_chain(
        self, frame: Any, entry: Callable[..., Any], calls: Sequence[Bound], finish: Finish, times: int
    ) -> Any:
        """Inside a worker: calls in a row, each with arguments of its own, so many times: the time of all in ns, and why the last
        results are no answer."""
        clock = self._clock
        results: list[Any] = []
        began = clock()
        for _ in range(times):
            results.clear()
            results.extend(entry(*arguments) for arguments, _ in calls)
        took = clock() - began
        return took, finish(results)


class Worker:
    """The loop: one frame in, one frame out."""

    def __init__(self, wire: socket.socket) -> None:
        self._wire = wire
        self._calls: dict[tuple[int, int], Bound] = {}
        self._prepared: dict[
            bytes, tuple[Callable[..., Any], Sequence[Any], Callable[[Any], bytes] | None, bytearray]
        ] = {}
        """By the head of a frame: what is called with what, what says where its result is, and the answer."""
        self._loop: Any = None
        """Answers prepared calls in C instead, where the candidate is compiled."""
        self._result: Any = None
        self._reads = False
        """Whether the judge reads results where they are."""
        self._language: Any = None
        self._device: Any = None
        self._trace: Any = None

    def run(self) -> None:
        """Inside a worker: answer the judge until it closes the wire."""
        self._wire.send(frames.packed(frames.Frame(frames.HELLO)))
        recv: Callable[[int], bytes] = self._wire.recv
        send, clock, prepared_calls = self._wire.send, time.perf_counter_ns, self._prepared
        head, nonce, claim, text = frames.HEAD, frames.NONCE, frames.CLAIM, frames.TEXT
        size, put = frames.SIZE, struct.Struct("<q").pack_into
        while data := recv(size):
            prepared = prepared_calls.get(data[head])
            if prepared is None:
                self._serve(frames.unpacked(data))
                recv = self._wire.recv if self._loop is None else self._take
                continue
            entry, arguments, place, answer = prepared
            answer[nonce] = data[nonce]
            began = clock()
            if place is None:
                entry(*arguments)
                put(answer, claim, clock() - began)
            else:
                self._result = entry(*arguments)
                put(answer, claim, clock() - began)
                answer[text:] = place(self._result)
            send(answer)

    def _take(self, size: int) -> bytes:
        """Inside a worker: the next frame that is no prepared call of a compiled candidate; those are answered in C."""
        return bytes(self._loop.take(self._wire.fileno()))

    def _serve(self, frame: Any) -> None:
        """Inside a worker: answer one frame that no clock of the judge's runs for, or that was not prepared."""
        if frame.kind in (frames.CALL, frames.PING):
            self._wire.send(self._answer_call(frame))
        elif frame.kind == frames.BIND:
            wrong = self._bind(frame)
            kind = frames.FAILED if wrong else frames.BOUND
            self._wire.send(frames.packed(frames.Frame(kind, frame.nonce, frame.slot, text=wrong)))
        elif frame.kind == frames.LOAD:
            words, compiled = (memory[:] for memory in self._memory())  # no descriptor of theirs is left open
            self._load(json.loads(words), compiled)
            gc.collect()
            gc.freeze()
            self._wire.send(frames.packed(frames.Frame(frames.READY, frame.nonce)))
        elif frame.kind == frames.RELEASE:
            _, finish = self._calls[frame.slot, frame.placement]
            wrong = finish(self._result) if finish is not None else ""
            self._result = None
            kind = frames.FAILED if wrong else frames.RELEASED
            self._wire.send(frames.packed(frames.Frame(kind, frame.nonce, text=wrong)))
        elif frame.kind == frames.LOCK:
            wrong = _hold(json.loads(self._memory()[0][:]))
            kind = frames.FAILED if wrong else frames.LOCKED
            self._wire.send(frames.packed(frames.Frame(kind, frame.nonce, text=wrong)))
        elif frame.kind == frames.REPORT and self._trace is not None:
            self._report(self._trace.report())
            self._wire.send(frames.packed(frames.Frame(frames.REPORTED, frame.nonce)))
        elif frame.kind == frames.PACK:
            self._pack()
            self._wire.send(frames.packed(frames.Frame(frames.PACKED, frame.nonce)))
        elif frame.kind in (frames.STOCK, frames.CAPTURE, frames.PROVE):
            self._wire.send(self._on_card(frame))

    def _answer_call(self, frame: Any) -> bytes:
        if frame.kind == frames.CALL and frame.text.startswith(frames.CHAIN):
            calls, times = self._list_calls(frame), int(frame.text.split()[1])
            took, wrong = self._device.run_chain(
                frame, self._language.entry, calls, lambda results: finish_all(calls, results), times
            )
            kind = frames.FAILED if wrong else frames.DONE
            return bytes(frames.packed(frames.Frame(kind, frame.nonce, claim_ns=took, text=wrong)))
        arguments, finish = self._calls.get((frame.slot, frame.placement), ((), None))
        called = frame.kind == frames.CALL
        entry = self._language.entry if called else _nothing
        took, wrong = self._device.run(frame, entry, arguments, finish if called else None)
        kind = frames.FAILED if wrong else frames.DONE if called else frames.PONG
        return bytes(frames.packed(frames.Frame(kind, frame.nonce, claim_ns=took, text=wrong)))

    def _list_calls(self, frame: Any) -> list[Bound]:
        """Inside a worker: the calls of a slot that a frame wants in a row."""
        return [self._calls[frame.slot, placement] for placement in range(frame.placement)]

    def _on_card(self, frame: Any) -> bytes:
        """Inside a worker: answer what only a card is asked for."""
        if frame.kind == frames.STOCK:
            memory, layout = self._memory()
            self._device.stock(frame.slot, memory, json.loads(layout[:]))
            return bytes(frames.packed(frames.Frame(frames.STOCKED, frame.nonce, frame.slot)))
        if frame.kind == frames.CAPTURE:
            entry = self._language.entry
            if frame.text == frames.CHAIN:
                calls = self._list_calls(frame)
                text = self._device.capture(frame, lambda: [entry(*arguments) for arguments, _ in calls], ())
            else:
                text = self._device.capture(frame, entry, self._calls[frame.slot, frame.placement][0])
            return bytes(frames.packed(frames.Frame(frames.CAPTURED, frame.nonce, frame.slot, text=text)))
        self._device.prove(frame)
        return bytes(frames.packed(frames.Frame(frames.PROVED, frame.nonce, frame.slot)))

    def _bind(self, frame: Any) -> str:
        """Inside a worker: why there are no arrays, or nothing. A failed call of the candidate's to a card's runtime shows in ours."""
        arena, layout = self._receive_descriptors()
        facts = json.loads(_map(layout)[:])
        if self._trace is not None:
            self._trace.forget_tensors(frame.slot)
        try:
            memory = self._device.open(arena, facts)
            bound = self._device.bind(frame.slot, memory, facts, self._language.wrap)
        except RuntimeError as error:
            if "out of memory" in str(error):
                raise  # told apart by what is printed at the end
            why = str(error).partition("\n")[0]
            return f"device state: no arrays can be made after the candidate was loaded: {why}"
        for placement, arrays in enumerate(bound):
            arguments = self._language.arguments(arrays, facts["dims"])
            finish = self._language.finish(arrays, facts) if self._language.returns else None
            self._calls[frame.slot, placement] = (arguments, finish)
            if self._reads:
                place = self._language.place if self._language.returns else None
                self._prepare(frames.CALL, frames.DONE, frame.slot, placement, (self._language.entry, arguments, place))
        if self._loop is not None:
            self._loop.prepare(self._prepared)
        return ""

    def _prepare(self, kind: int, answer: int, slot: int, placement: int, words: tuple[Any, Any, Any]) -> None:
        """Inside a worker: have everything at hand for the frame of that kind, slot and placement, but its nonce."""
        head = frames.packed(frames.Frame(kind, slot=slot, placement=placement))[frames.HEAD]
        self._prepared[head] = (*words, bytearray(frames.packed(frames.Frame(answer))))

    def _memory(self) -> list[mmap.mmap]:
        """Inside a worker: shared memory that the judge sends, mapped."""
        return [_map(descriptor) for descriptor in self._receive_descriptors()]

    def _receive_descriptors(self) -> list[int]:
        """Inside a worker: descriptors that the judge sends."""
        return socket.recv_fds(self._wire, frames.SIZE, 2)[1]

    def _load(self, spec: dict[str, Any], compiled: bytes) -> None:
        if len(compiled) > 1:
            _beside("judge_cache").unpack(compiled, os.environ[CACHE])
        if spec["cpu"] is not None:
            os.sched_setaffinity(0, {spec["cpu"]})
        sys.path += spec["paths"]
        on_card = spec["device"] != "cpu"
        for name in DRIVERS[spec["device"]]:
            _beside(name)
        self._device = _beside(f"judge_worker_{spec['device']}").Device() if on_card else Cpu()
        if spec["mode"] != "plain":
            _beside("judge_launches")
            self._trace = _beside("judge_trace")
            self._trace.install(spec["mode"])
        self._language = _beside(spec["module"]).load(spec)
        self._reads = spec["reads"] and not on_card
        self._language.move = _leave if self._reads else self._device.move
        if self._reads:
            self._language.strided = True
            self._prepare(frames.PING, frames.PONG, 0, 0, (_nothing, (), None))
            self._loop = getattr(self._language, "loop", None)
            if self._loop is not None:
                self._loop.prepare(self._prepared)
        if self._trace is not None:
            self._trace.adopt(self._language, spec["mode"])
            if on_card:
                self._trace.only_calls(self._language)

    def _pack(self) -> None:
        memory = self._memory()[0]
        packed = _beside("judge_cache").pack(os.environ[CACHE], len(memory) - 8)
        memory[: 8 + len(packed)] = len(packed).to_bytes(8, "little") + packed

    def _report(self, text: bytes) -> None:
        memory = self._memory()[0]
        memory[: min(len(text), len(memory))] = text[: len(memory)]


def _map(descriptor: int) -> mmap.mmap:
    """Inside a worker: maps the judge's shared memory behind a descriptor, which is closed."""
    memory = mmap.mmap(descriptor, 0)
    os.close(descriptor)
    return memory


def _nothing(*arguments: Any) -> None:
    """Inside a worker: what an empty call calls."""


def _leave(target: int, source: int, count: int) -> None:
    """Inside a worker: moves no result: the judge reads a returned array where it is."""


def _hold(words: dict[str, Any]) -> str:
    """Inside a worker: add a filter of system calls to this process, all its threads. Why that failed, or nothing."""
    code = ctypes.create_string_buffer(bytes.fromhex(words["code"]))
    filter_head = (words["steps"]).to_bytes(8, "little") + ctypes.addressof(code).to_bytes(8, "little")
    number, mode, flags = (ctypes.c_long(word) for word in words["call"])
    result = _libc.syscall(number, mode, flags, filter_head)
    return f"no filter could be added: {os.strerror(ctypes.get_errno())}" if result else ""


def main() -> None:
    """Inside a worker: its start: serve the wire whose descriptor is the first argument."""
    with socket.socket(fileno=int(sys.argv[1])) as wire:
        Worker(wire).run()


if __name__ == "__main__":
    main()
