"""A scripted outside world for whole campaigns: planner, commands and clock are fake, everything else may be real.

A kernel is text. Its speed stands in it (`speed 120`), and so do its faults: `no build`, `wrong`, `hangs`, `crashes`.
Answers depend on the question alone, as a recorded tape's do.
"""

import random
import re
from collections.abc import Callable
from hashlib import sha256
from math import log

from ridgeline.graph.approval import Steering
from ridgeline.graph.briefing import Briefing, Draft, Proposal, Review
from ridgeline.graph.evidence import BuildResult, Comparison, Exit, Profiled, ShapePairs, TestResult
from ridgeline.graph.finding import Simulation
from ridgeline.graph.ports import Formatting
from ridgeline.graph.record import Reflection
from ridgeline.graph.rules.audit import simulate_symbols
from ridgeline.graph.trial import Broken, Built, Judged
from ridgeline.graph.values import FileEdit, Named
from tests.builders import MACHINE, VALUES, make_artifact, make_benchmark, make_hypothesis, make_machine

KERNEL = "kernel.c"
Read = Callable[[str], str]
"""Commit -> text of the kernel."""


class ScriptedPlanner:
    """Round N gets the N-th script: the kernel's new text, or a list: first draft, then repairs."""

    def __init__(self, *scripts: str | list[str] | None, categories: tuple[str, ...] = ("tile", "layout", "algorithm")):
        self._scripts = scripts
        self._categories = categories

    def _script(self, round: int) -> list[str] | None:
        script = self._scripts[round - 2] if round - 2 < len(self._scripts) else None
        return [script] if isinstance(script, str) else script

    def write_baseline(self, briefing: Briefing, about, edits, evidence: str) -> Draft:
        return Draft(edits=(), refusal="the script writes no first kernel")

    def propose(self, briefing: Briefing) -> Proposal:
        if self._script(briefing.round) is None:
            return Proposal(hypothesis=None, exhausted="the script is at its end")
        category = self._categories[briefing.round % len(self._categories)]
        return Proposal(hypothesis=make_hypothesis(id=f"h{briefing.round}", category=category))

    def draft(self, briefing: Briefing, proposal: Proposal) -> Draft:
        text = (self._script(briefing.round) or [""])[0]
        if text == "no idea":
            return Draft(edits=(), refusal="no idea")
        path = "bench.c" if text == "touch the benchmark" else KERNEL
        return Draft(edits=(FileEdit(path=path, text=text + "\n"),), explanation="because the script says so")

    def repair(self, briefing: Briefing, broken: Broken | Built, attempt: int) -> Draft:
        script = self._script(briefing.round) or []
        if attempt >= len(script):
            return Draft(edits=(), refusal="no weaker edit")
        return Draft(edits=(FileEdit(path=KERNEL, text=script[attempt] + "\n"),))

    def split(self, briefing: Briefing, judged: Judged) -> Draft:
        return Draft(edits=(), refusal="cannot split")

    def review(self, briefing: Briefing, trigger: str) -> Review:
        return Review(directions=("tile more", "change the layout", "another algorithm"))

    def reflect(self, briefing: Briefing, judged: Judged) -> Reflection:
        kept = judged.verdict.accepted
        return Reflection(attribution=judged.verdict.sentence, lesson="tiles of 64 help" if kept else None)


class SideBySide(ScriptedPlanner):
    """Proposes as many of its scripts at once as the round has room for."""

    def propose(self, briefing):
        numbers = range(briefing.round, briefing.round + briefing.candidates)
        chosen = [number for number in numbers if self._script(number) is not None]
        if not chosen:
            return Proposal(hypothesis=None, exhausted="the script is at its end")
        best, *others = (
            Proposal(
                hypothesis=make_hypothesis(
                    id=f"h{number}", change=f"step {number}", category=self._categories[number % len(self._categories)]
                )
            )
            for number in chosen
        )
        return best.model_copy(update={"others": tuple(others)})


class TextBuilder:
    def __init__(self, read: Read) -> None:
        self._read = read

    def build(self, commit: str) -> BuildResult:
        ok = "no build" not in self._read(commit)
        output = "" if ok else "kernel.c:1: error: expected ';'"
        code = 0 if ok else 1
        ended = Exit(argv=("make",), returncode=code, seconds=0.5, output=output)
        return BuildResult(ok=ok, commit=commit, exit=ended)

    def format(self, commit: str, changed: tuple[str, ...]) -> Formatting:
        text = self._read(commit)
        if "unformatted" not in text:
            return Formatting(edits=())
        return Formatting(edits=(FileEdit(path=KERNEL, text=text.replace("unformatted", "formatted")),))


class TextChecker:
    def __init__(self, read: Read) -> None:
        self._read = read

    def check(self, commit: str, *, purpose: str) -> TestResult:
        text = self._read(commit)
        kinds = {"wrong": "incorrect", "hangs": "timeout", "crashes": "crash"}
        kind = next((kind for word, kind in kinds.items() if word in text), "pass")
        detail = "" if kind == "pass" else f"MISMATCH in {kind}"
        return TestResult(passed=kind == "pass", kind=kind, commit=commit, detail=detail, seconds=0.2)

    def suite(self, commit: str) -> TestResult | None:
        return None

    def simulate_cache(self, commit: str, key) -> Simulation:
        if "cannot be simulated" in self._read(commit):
            return Simulation(method="unavailable", detail="no torch here")
        return simulate_symbols(key)


class TextTimer:
    """Throughput is the text's speed; every process pair adds its own, repeatable noise."""

    def __init__(self, read: Read, noise: float = 0.002) -> None:
        self._read = read
        self.noise = noise

    def speed(self, commit: str) -> float:
        text = self._read(commit)
        found = re.search(r"speed ([\d.]+)", text)
        slow = 0.8 if text.startswith("formatted slow") else 1.0
        return slow * float(found[1]) / 100 if found else 1.0

    def benchmark(self, commit, *, level, source, shapes, repeat, purpose):
        factor = self.speed(commit) * (1 + self._draw(commit, level, source, repeat, purpose))
        labels = shapes or tuple(VALUES)
        values = {label: VALUES[label] * factor for label in labels}
        return make_benchmark(values, commit=commit, level=level, source=source, repeat=repeat)

    def compare(self, *, best, candidate, shapes, first_pair, pairs, blocks, purpose):
        theta = log(self.speed(candidate) / self.speed(best))
        found = tuple(
            tuple(theta + self._draw(best, candidate, pair, block, purpose) for block in range(blocks))
            for pair in range(first_pair, first_pair + pairs)
        )
        times = {"best_us": 100 / self.speed(best), "candidate_us": 100 / self.speed(candidate)}
        return Comparison(
            best=best,
            candidate=candidate,
            machine=MACHINE,
            engine="wall",
            shapes=tuple(ShapePairs(label=label, pairs=found, **times) for label in shapes),
            taken_blocks=len(shapes) * pairs * blocks,
            raw=make_artifact("pairs.json", f"{best}{candidate}{first_pair}"),
            seconds=1.0,
        )

    def calibrate(self, commit, *, shapes, pairs, blocks, budget_s, fresh, purpose, known=None):
        return self.compare(
            best=commit,
            candidate=commit,
            shapes=shapes,
            first_pair=0,
            pairs=pairs,
            blocks=blocks,
            purpose=f"{purpose}/fresh" if fresh else purpose,
        )

    def _draw(self, *question) -> float:
        seed = int.from_bytes(sha256(repr(question).encode()).digest()[:8])
        return random.Random(seed).gauss(0, self.noise)


class DividedTimer(TextTimer):
    """A kernel that says so wins on one class of shapes and loses on the other."""

    def compare(self, *, best, candidate, **asked):
        found = super().compare(best=best, candidate=candidate, **asked)
        if "divides" not in self._read(candidate):
            return found
        factor = {"small": 1.3, "medium": 1.3, "large": 0.8}
        shapes = tuple(
            shape.model_copy(
                update={
                    "config_class": "thin" if factor[shape.label] < 1 else "wide",
                    "pairs": tuple(tuple(x + log(factor[shape.label]) for x in pair) for pair in shape.pairs),
                }
            )
            for shape in found.shapes
        )
        return found.model_copy(update={"shapes": shapes})


class TextProfiler:
    def __init__(self, timer: TextTimer) -> None:
        self._timer = timer

    def profile(self, commit: str, *, purpose: str) -> Profiled | None:
        counters = (Named(name="instructions", value=1e9 / self._timer.speed(commit)),)
        return Profiled(commit=commit, machine=MACHINE, rung="cachegrind", counters=counters, seconds=0.1)

    def inspect(self, commit: str, *, purpose: str) -> Profiled | None:
        counters = (Named(name="vectorized_loops", value=2.0),)
        return Profiled(commit=commit, machine=MACHINE, rung="compiler_report", counters=counters, seconds=0.1)


class TestDevice:
    __test__ = False

    def machine(self):
        return make_machine()

    def ceilings(self, dtype: str):
        return None


class StepClock:
    """Every named instant is fixed by its name: a minute for each round."""

    def now(self, moment: str) -> str:
        numbers = [int(n) for n in re.findall(r"\d+", moment)]
        minute = numbers[0] if numbers else 59
        second = 30 if "closed" in moment else 0
        return f"2026-11-21T{10 + minute // 60:02d}:{minute % 60:02d}:{second:02d}+00:00"

    def worked_s(self, moment: str) -> float:
        return 0.0


class Quiet:
    """Nobody asks to stop, unless told after which round."""

    def __init__(self, stop_after: int | None = None) -> None:
        self._stop_after = stop_after

    def stop_requested(self, after_round: int, later_events: int = 0) -> bool:
        return self._stop_after is not None and after_round >= self._stop_after

    def steering(self, after_round: int, later_events: int = 0) -> Steering:
        return Steering()
