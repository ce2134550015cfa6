"""From a command line to an answer: understand the words, make a lab of them, measure, say and keep what came out."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ridgeline.agent import console
from ridgeline.agent.bench.ci import Judge, annotations, read_annotate, read_fail_on, write_junit
from ridgeline.agent.bench.comparison import Answer, Course, CourseOutcome, answer
from ridgeline.agent.bench.display import watcher
from ridgeline.agent.bench.laboratory import Lab
from ridgeline.agent.bench.request import (
    MOST_PAIRS,
    PLOTS,
    BenchSettings,
    Request,
    Side,
    limits_of,
    metric,
    output_file,
    positive,
    read_sides,
    require_at_least,
)
from ridgeline.agent.campaign import settings
from ridgeline.agent.errors import UserError
from ridgeline.graph.errors import DiskFull
from ridgeline.graph.evidence import MixedEvidence
from ridgeline.graph.stats.paired import PairedError
from ridgeline.graph.values import SCHEMA
from ridgeline.sandbox.store.durable import UNWRITABLE, name_full_disk, write_whole
from ridgeline.sandbox.timing.comparator import CommandFailed

INTERRUPTED = 130
LAST_LINES = 10
"""Of a failed command's output, shown before the line that says what failed."""
COMMAND_BLOCKS = 1
"""Every run of a command is a fresh process already, so a pair need not average over several blocks."""


def compare_versions(request: Request, here: Path) -> Answer:
    """The whole of `ridgeline bench`. Raises UserError and the errors of the adapters, each one line with its mend."""
    check_request(request)
    sides = read_sides(request.a, request.b, here, request.contract)
    plot_path = find_picture_path(request)
    watch = watcher(quiet=request.quiet)
    try:
        with _lab(request, sides, here) as (lab, bench_settings):
            judge = Judge(request, bench_settings)
            judge.check(lab.about)
            outcome = Course(
                lab, bench_settings, watch, is_settled=lambda estimate: judge.is_settled(estimate, lab.about)
            ).run()
            about = lab.about
            result = answer(outcome, about, bench_settings).model_copy(update={"gate": judge.judge(outcome, about)})
            if request.raw:
                result = _store_raw_timings(request.raw, outcome, result, bench_settings, lab)
    except KeyboardInterrupt:
        raise UserError("interrupted before anything was timed", INTERRUPTED) from None
    except (MixedEvidence, PairedError) as error:
        raise UserError(f"{error}") from None
    except CommandFailed as error:
        watch.close()
        for line in [line for line in error.output.splitlines() if line.strip()][-LAST_LINES:]:
            console.note(f"  {line}")
        raise
    finally:
        watch.close()
    result = _with_plot(plot_path, outcome, result)
    return _with_ci_files(request, judge, result, changed=about.changed)


def _with_ci_files(request: Request, judge: Judge, result: Answer, *, changed: tuple[str, ...]) -> Answer:
    """The answer of `bench`, with its files for CI written: JUnit, the expectation, annotations on standard error or output."""
    gate = result.gate
    if gate and request.junit:
        try:
            write_junit(request.junit, result, gate)
        except (DiskFull, OSError) as error:
            result = _without_file(result, "--junit", request.junit, error)
    if request.update:
        path, content = judge.store(result)
        try:
            write_whole(path, content)
        except (DiskFull, OSError) as error:
            result = _without_file(result, "--update", path, error)
    if gate and (file := read_annotate(request.annotate)) is not None:
        for line in annotations(result, gate, file, changed):
            (console.note if request.as_json else console.say)(line)
    return result


def check_request(request: Request) -> None:
    """Raises UserError for everything in a request for `bench` that can be known to be wrong before anything runs."""
    positive({"--max-minutes": request.max_minutes, "--timeout": request.timeout})
    require_at_least("--max-pairs", request.max_pairs, least=2)
    if request.max_pairs > MOST_PAIRS:
        raise UserError(f"--max-pairs: is {request.max_pairs}; give {MOST_PAIRS} or fewer")
    require_at_least("--blocks", request.blocks, least=1)
    require_at_least("--threads", request.threads, least=1)
    output_file("--plot", request.plot, endings=PLOTS)
    output_file("--raw", request.raw)
    output_file("--junit", request.junit)
    read_annotate(request.annotate)
    gates = request.fail_on is not None or (request.expect is not None and not request.update)
    if unfit := [name for name in ("junit", "annotate") if getattr(request, name) is not None and not gates]:
        raise UserError(f"--{unfit[0]}: tells whether something failed; add --fail-on slower or --expect FILE")
    if request.update and request.expect is None:
        raise UserError("--update: writes the file of --expect, which is not given")
    if request.update:
        output_file("--expect", request.expect)


def find_picture_path(request: Request) -> Path | None:
    """Where the picture of a comparison goes; None without one, and where nothing can draw it, which is said now."""
    from ridgeline.agent.bench.display import MISSING, available

    if request.plot is not None and not available():
        console.note(MISSING)
        return None
    return request.plot


@contextmanager
def _lab(request: Request, sides: tuple[Side, Side], here: Path) -> Iterator[tuple[Lab, BenchSettings]]:
    """The laboratory for the kind of sides A and B, and how long and how strictly it compares. Raises UserError for options that do not
    fit.
    """
    if sides[0].kind == "command":
        yield _commands(request, sides)
        return
    from ridgeline.agent.bench.laboratory import VersionLab, gather_sides

    options = {"--metric-regex": request.metric_regex, "--csv": request.csv, "--threads": request.threads}
    options |= {"--engine": request.engine, "--label": request.label, "--gpu": request.gpu or None}
    if request.cpu_time:
        raise UserError(
            "--cpu-time: is for commands; a contract whose benchmark reports processor time says scoring.engine: cpu"
        )
    if unfit := [option for option, value in options.items() if value is not None]:
        raise UserError(f"{unfit[0]}: is for commands; of commits and folders, the contract says it")
    with gather_sides(sides, here, request.contract) as (pairing, gathering, folder):
        contract = settings.from_contract(pairing.loaded.contract, pairing.loaded.path.name)
        bench_settings = make_bench_settings(request, (contract,), blocks=request.blocks)
        yield VersionLab(pairing, gathering, folder, blocks=bench_settings.blocks), bench_settings


def _commands(request: Request, sides: tuple[Side, Side]) -> tuple[Lab, BenchSettings]:
    """The laboratory that compares two commands."""
    from ridgeline.agent.bench.laboratory import CommandLab, conduct

    what = metric(
        regex=request.metric_regex,
        column=request.csv,
        label=request.label,
        higher=request.higher_is_better,
        engine=request.engine,
        cpu_time=request.cpu_time,
        gpu=request.gpu,
    )
    bench_settings = make_bench_settings(request, (), blocks=None).model_copy(
        update={"blocks": request.blocks or COMMAND_BLOCKS}
    )
    how = conduct(threads=request.threads, timeout_s=request.timeout, gpu=request.gpu)
    return CommandLab(sides, what, how, bench_settings), bench_settings


def make_bench_settings(request: Request, contract: tuple[settings.Layer, ...], *, blocks: int | None) -> BenchSettings:
    flags: dict[str, settings.Raw] = {
        "alpha": request.alpha,
        "margin": request.margin,
        "calibration_pairs": request.calibration_pairs,
        "blocks": blocks,
    }
    layers = (*contract, settings.from_environment(os.environ), settings.from_flags(flags))
    limits = limits_of(layers, max_pairs=request.max_pairs)
    slower_margin = read_fail_on(request.fail_on, limits.margin)
    if slower_margin is not None:
        limits = limits.model_copy(update={"shape_guard": slower_margin})
    if limits.calibration_pairs == 1:
        raise UserError("--calibration-pairs: is 1; give 0 for none, or 2 or more: one pair shows no scatter")
    return BenchSettings(
        limits=limits,
        blocks=limits.blocks,
        max_pairs=request.max_pairs,
        max_seconds=60 * request.max_minutes,
        calibration_pairs=limits.calibration_pairs,
        seed=request.seed,
        slower_margin=slower_margin,
    )


def _store_raw_timings(path: Path, outcome: CourseOutcome, result: Answer, request: BenchSettings, lab: Lab) -> Answer:
    """The comparison's answer with the path of its raw timings, to judge again from, or with why they could not be written."""
    written = result.model_copy(update={"raw": str(path)})
    document = {
        "schema_version": SCHEMA,
        "answer": written.model_dump(mode="json"),
        "limits": request.limits.model_dump(mode="json"),
        "calibration": outcome.calibration.model_dump(mode="json") if outcome.calibration else None,
        "comparisons": [pair.model_dump(mode="json") for pair in outcome.pairs],
        "timings": lab.raw(),
    }
    try:
        write_whole(path, json.dumps(document, separators=(",", ":")).encode() + b"\n")
    except (DiskFull, OSError) as error:
        return _without_file(result, "--raw", path, error)
    return written


def _without_file(result: Answer, option: str, path: Path, error: DiskFull | OSError) -> Answer:
    """The answer of `bench`, which says that the file of an option is not there: numbers are never lost with a file."""
    if isinstance(error, OSError) and error.errno in UNWRITABLE:
        error = name_full_disk(path, error.errno)
    why = f"{option}: not written: {error}"
    return result.model_copy(update={"unwritten": (*result.unwritten, why)})


def _with_plot(path: Path | None, outcome: CourseOutcome, result: Answer) -> Answer:
    """The answer of `bench` with the path of its picture, which is written; the same where none was asked for."""
    if path is None:
        return result
    from ridgeline.agent.bench.display import draw

    try:
        draw(path, outcome, result)
    except OSError as error:
        return _without_file(result, "--plot", path, error)
    return result.model_copy(update={"plot": str(path)})
