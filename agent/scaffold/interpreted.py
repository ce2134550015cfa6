"""The harness of a Python function, one that works on PyTorch tensors or launches Triton kernels too."""

import math
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ridgeline.agent.contract_file import MARK
from ridgeline.agent.scaffold.native import EARLY_US, GROWN, OWN_IGNORE, TEMPLATES, TEST_S, Plan, ShapePlan, Trial
from ridgeline.agent.scaffold.signature import Parameter
from ridgeline.sandbox.isolation.process import run

FILES = ("harness.py", "test.py", "bench.py")
MIXES = ("ordinary", "zeros", "extremes", "nan", "infinity", "subnormal")
SLOWEST_US = 100_000.0
INTERPRETER = "TRITON_INTERPRET"
"""The variable that has Triton's kernels run on the processor, one program after the other."""
REAL = frozenset({"reals", "array", "tensor"})
"""Kinds of values that may hold a NaN."""
FORMS = {
    "text": "harness.text(rng, {count}, mix)",
    "texts": "[harness.text(rng, 12, mix) for _ in range({count})]",
    "octets": "harness.octets(rng, {count}, mix)",
    "reals": "harness.reals(rng, {count}, mix)",
    "wholes": "harness.wholes(rng, {count}, mix{bounds})",
    "array": 'harness.array(rng, ({extents},), mix, "float64")',
    "tensor": 'harness.tensor(rng, ({extents},), mix, "float32")',
}
"""How values of each kind are made, in problem.py."""


def write_files(plan: Plan, *, mutates: bool = False) -> None:
    """Write the harness of a Python function, over what an earlier try wrote."""
    plan.home.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        shutil.copy(TEMPLATES / name, plan.home / name)
    shutil.copy(plan.signature.file, plan.home / "original.py")
    (plan.home / ".gitignore").write_text(OWN_IGNORE, encoding="utf-8")
    (plan.home / "problem.py").write_text(_problem(plan, mutates), encoding="utf-8")


def _problem(plan: Plan, mutates: bool) -> str:
    signature = plan.signature
    shapes = [
        f'    harness.Shape("{shape.label}", "{shape.config_class}", {shape.timed}, {dict(shape.sizes)}),'
        for shape in plan.shapes
    ]
    marks = [f"    # {MARK}: {gap}" for gap in signature.gaps]
    values = [f"        {_value(parameter, plan)},  # {parameter.name}" for parameter in signature.parameters]
    names = ", ".join(f'"{name}"' for name in signature.sizes)
    return "\n".join(
        [
            f'"""What {signature.name} takes: its sizes and values. Written by `ridgeline init`; yours to edit."""',
            "",
            "import random",
            "from collections.abc import Mapping",
            "from typing import Any",
            "",
            "import harness",
            "",
            f'SOURCE = "{os.path.relpath(signature.file, plan.root)}"',
            f'FUNCTION = "{signature.name}"',
            f"SIZE_NAMES = ({names},)",
            f"NAMES = ({''.join(f'{parameter.name!r}, ' for parameter in signature.parameters).rstrip()})  # of the arguments",
            f"MUTATES = {mutates}  # whether a call changes its arguments: then each call gets new ones",
            f"TOLERANCE = {'1e-5' if any(part.kind == 'tensor' for part in signature.parameters) else '1e-9'}"
            "  # of floats: reordered sums are allowed, other results are not",
            "# kinds of values that the test tries; `ordinary` ones are timed",
            f"MIXES = ({', '.join(repr(mix) for mix in plan.mixes)},)",
            "# label, class (shapes that take the same path), timed (else only tested), sizes",
            "SHAPES = (",
            *shapes,
            ")",
            "",
            "",
            "def arguments(rng: random.Random, sizes: Mapping[str, int], mix: str) -> tuple[Any, ...]:",
            '    """New arguments of one call."""',
            *marks,
            "    return (",
            *values,
            "    )",
            "",
        ]
    )


def _value(parameter: Parameter, plan: Plan) -> str:
    if parameter.role in ("scalar", "unread"):
        return plan.values.get(parameter.name) or parameter.literal or "None"
    extents = ", ".join(f'sizes["{name}"]' for name in parameter.extents)
    low, _, high = plan.values.get(parameter.name, "").partition(":")
    bounds = f", {low}, {high}" if high else ""
    return FORMS[parameter.kind].format(count=extents.split(",")[0], extents=extents, bounds=bounds)


def default_mixes(parameters: Sequence[Parameter]) -> tuple[str, ...]:
    """Kinds of values worth a try in a harness: special numbers only where there are floats."""
    return MIXES if any(parameter.kind in REAL for parameter in parameters) else MIXES[:3]


def try_out(plan: Plan, python: str) -> Trial:
    """Let the original of a harness run on every shape and kind of values, and leave out what it does not take."""
    write_files(plan)
    if plan.signature.gaps:
        return Trial(plan=plan)
    test = (python, "-P", "-B", f"{plan.folder}/test.py")
    interpreter = {name: os.environ[name] for name in (INTERPRETER,) if os.environ.get(name)}
    survey = run((*test, "--survey"), cwd=plan.root, timeout_s=TEST_S, env=interpreter)
    rows = [line.split(maxsplit=5) for line in survey.output.splitlines()]
    rows = [row for row in rows if row and row[0] in ("OK", "RAISES", "DIFFERS")]
    at = shutil.which(python) or python
    whose = f"runs with {at}; another Python: its environment as .venv in {plan.root}, or its python3 first in PATH"
    if not survey.ok:
        end = (survey.output.strip().splitlines() or ["took too long"])[-1][:300]
        return Trial(plan=plan, notes=(whose,), problem=_explain_import(plan, at, survey.output) or end)
    is_interpreted = interpreter and plan.signature.language == "triton"
    notes = [whose]
    notes += (
        [f"{INTERPRETER}: results were seen to be right in Triton's interpreter; nothing is timed without a GPU"]
        if (is_interpreted)
        else []
    )
    raised = [row for row in rows if row[0] == "RAISES"]
    refused = {row[1] for row in raised}
    if all(shape.label in refused for shape in plan.shapes if shape.timed):
        mend = f"give other values in {plan.folder}/problem.py"
        if plan.signature.language == "triton" and not interpreter:
            mend += f"; Triton needs a GPU, or {INTERPRETER}=1 for results without times"
        return Trial(plan=plan, problem=f"raises {raised[0][5]} on {raised[0][1]}: {mend}")
    if any(row[0] == "DIFFERS" and row[2] == "ordinary" for row in rows):
        return Trial(plan=plan, problem="two calls on the same values differ; what else does it read?")
    if refused:
        notes.append(f"the original raises {raised[0][5]} on {', '.join(sorted(refused))}: left out")
        plan = plan.model_copy(update={"shapes": tuple(shape for shape in plan.shapes if shape.label not in refused)})
    left = sorted({row[2] for row in rows if row[0] == "DIFFERS"})
    notes += [f"differs from itself on values `{name}`: left out of the test" for name in left]
    times = {row[1]: float(row[3]) for row in rows if row[2] == "ordinary"}
    slowest_us = math.inf if is_interpreted else SLOWEST_US
    timed = [shape.label for shape in plan.shapes if shape.timed and times[shape.label] <= slowest_us]
    timed = timed or [min(times, key=lambda label: times[label])]
    slow = [shape.label for shape in plan.shapes if shape.timed and shape.label not in timed]
    notes += [f"a call takes over {SLOWEST_US / 1000:.0f} ms on {', '.join(slow)}: left out"] if slow else []
    notes += _say_early(plan, times) if not is_interpreted else []
    mutates = any(row[4] == "1" for row in rows)
    notes += ["a call changes its arguments: each timed call gets new ones"] if mutates else []
    shapes = tuple(
        shape.model_copy(update={"timed": shape.label in timed}) for shape in plan.shapes if shape.label not in slow
    )
    plan = plan.model_copy(update={"shapes": shapes, "mixes": tuple(mix for mix in plan.mixes if mix not in left)})
    write_files(plan, mutates=mutates)
    tested = run(test, cwd=plan.root, timeout_s=TEST_S, env=interpreter)
    notes.append("right is what the original gives")
    problem = "" if tested.ok else (tested.output.strip().splitlines() or ["fails"])[-1][:300]
    return Trial(plan=plan, notes=tuple(notes), problem=problem)


def _explain_import(plan: Plan, python: str, output: str) -> str:
    """Which file of the scaffolded project does not import, and what to do; empty where a traceback ends in something else."""
    lines = output.strip().splitlines()
    error = re.fullmatch(r"(?:ModuleNotFoundError|ImportError): (.*)", lines[-1]) if lines else None
    if error is None:
        return ""
    source, root = plan.signature.file.resolve(), plan.root.resolve()
    top = source.parent
    while (top / "__init__.py").exists():
        top = top.parent
    package = source.relative_to(top).parts[0]
    place = ""
    for name, line in re.findall(r'^ *File "([^"]+)", line (\d+)', output, re.MULTILINE):
        file = source if Path(name) == plan.home.resolve() / "original.py" else Path(name)
        is_own = file.is_relative_to(root) and not {"site-packages", plan.folder} & {*file.parts}
        place = f"{os.path.relpath(file, root)}:{line}" if is_own else place
    is_package = package != source.name and not place.startswith(f"{os.path.relpath(source, root)}:")
    subject = f"the package {package} itself does not import" if is_package else f"{source.name} does not import"
    missing = re.search(r"No module named '([^']+)'", error[1])
    why = f"{python} has no module {missing[1]}" if missing else f"with {python}: {error[1].rstrip('.')[:200]}"
    mend = "install what provides it for that Python, or use another Python"
    if missing and missing[1].partition(".")[0] == package:
        mend = (
            f"build that half in place for this Python (pip install -e, maturin develop) and `git add -f` what it writes"
            f" into {package}, as a checkout needs it too"
        )
    return f"{subject}: {place}: {why}; {mend}"


def _say_early(plan: Plan, times: Mapping[str, float]) -> Iterator[str]:
    """A note on a harness: a call takes no longer on much larger values, so a function that gives up early on them is timed."""
    elements = {shape.label: math.prod(shape.sizes.values()) for shape in plan.shapes if shape.timed}
    small, large = (pick(elements, key=lambda label: elements[label]) for pick in (min, max))
    if elements[large] >= GROWN * max(1, elements[small]) and times[large] < EARLY_US + 2.0 * times[small]:
        yield (
            f"doubtful: a call takes {times[large]:.1f} us on {large} and {times[small]:.1f} us on {small}; "
            f"give values that it works on: arguments() in {plan.folder}/problem.py, or --value NAME=LOW:HIGH"
        )


def default_shapes(names: Sequence[str]) -> tuple[ShapePlan, ...]:
    """Sizes for the harness of a function that is interpreted: a call takes micro- to milliseconds."""
    sizes = {1: (16, 64, 256), 2: (8, 32, 128)}.get(len(names), (4, 8, 16))
    classes = ("small", "medium", "large")
    label = names[0]
    timed = [
        ShapePlan(label=f"{label}{size}", sizes=dict.fromkeys(names, size), config_class=sort)
        for size, sort in zip(sizes, classes, strict=True)
    ]
    tested = [ShapePlan(label=f"{label}{size}", sizes=dict.fromkeys(names, size), timed=False) for size in (0, 1, 7)]
    return (*timed, *tested)


def find_python(root: Path) -> str:
    """The Python for a harness: of the project's own environment, else the one that PATH has."""
    for name in (".venv", "venv"):
        if (root / name / "bin" / "python").is_file():
            return str(root / name / "bin" / "python")
    return "python3"
