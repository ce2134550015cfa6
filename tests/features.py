"""Which tests prove which feature of the design documents: `make features` prints it and writes docs/features.md.

`tests/features.toml` has a line for each feature, and says what is missing; `@pytest.mark.feature` in the tests says the
rest. Sources are parsed, nothing is imported: a second for the whole suite.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict

TESTS = Path(__file__).parent
ROOT = TESTS.parent
PAGE = ROOT / "docs" / "features.md"
BEGIN, END = "<!-- from the tests: `make features` writes this -->", "<!-- end -->"


class Feature(BaseModel):
    """A row of `features.toml`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    what: str
    """What a user can rely on, in one sentence."""
    missing: str = ""
    """What is not built of it."""
    recorded: tuple[str, ...] = ()
    """Evidence from hardware that is not here: paths of the repository."""

    def status(self, tests: tuple[str, ...]) -> str:
        """proven, recorded, in part, or not built."""
        if self.missing:
            return "in part" if tests or self.recorded else "not built"
        return "recorded" if self.recorded else "proven"


def read_features() -> dict[str, Feature]:
    """By id, in order."""
    table = tomllib.loads((TESTS / "features.toml").read_text(encoding="utf-8"))
    return {name: Feature.model_validate(row) for name, row in table.items()}


def collect_tests(folder: Path = TESTS) -> dict[str, tuple[str, ...]]:
    """Ids of features -> `file.py::test` of each that is marked with it, sorted. A mark of a module stands for all its tests."""
    proofs: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if "mark.feature(" not in text:
            continue
        for name, test in _list_marks(ast.parse(text)):
            proofs.setdefault(name, []).append(f"{path.relative_to(folder)}::{test}")
    return {name: tuple(sorted(set(tests))) for name, tests in proofs.items()}


ABSENT = re.compile(
    r"""importorskip\(\s*["'](?:torch|triton)|find_spec\(["'](?:torch|triton)|\bsample\(|\bgolden\(|SAMPLES\b"""
)
"""In a test that is skipped in continuous integration: there is neither torch nor Triton there, nor the collection of
recordings beside a checkout."""


def list_skipped(folder: Path = TESTS) -> tuple[str, ...]:
    """Marked tests that continuous integration skips, as `file.py::test`: they prove nothing there."""
    marked = {test for tests in collect_tests(folder).values() for test in tests}
    skipped = []
    for file in sorted({test.partition("::")[0] for test in marked}):
        text = (folder / file).read_text(encoding="utf-8")
        if not ABSENT.search(text):
            continue
        lines, nodes = text.splitlines(), ast.parse(text).body
        shared = (ast.Expr, ast.Assign)
        whole = any(_needs_absent(lines, node) for node in nodes if isinstance(node, shared) and _decides(node))
        for node in nodes:
            if isinstance(node, ast.FunctionDef) and f"{file}::{node.name}" in marked:
                skipped += [f"{file}::{node.name}"] if whole or _needs_absent(lines, node) else []
    return tuple(skipped)


def _needs_absent(lines: list[str], node: ast.stmt) -> bool:
    """Whether its own lines, decorators included, name what is not there."""
    above = node.decorator_list[0].lineno if isinstance(node, ast.FunctionDef) and node.decorator_list else node.lineno
    return bool(ABSENT.search("\n".join(lines[above - 1 : node.end_lineno])))


def _decides(node: ast.stmt) -> bool:
    """Whether a statement of a module can skip all its tests."""
    return isinstance(node, ast.Expr) or _assigns(node, "pytestmark") or _assigns(node, "torch")


def _assigns(node: ast.stmt, name: str) -> bool:
    """Whether this is `name = ...`."""
    return isinstance(node, ast.Assign) and any(isinstance(at, ast.Name) and at.id == name for at in node.targets)


def _list_marks(module: ast.Module) -> Iterator[tuple[str, str]]:
    """(feature, test) pairs of one file."""
    shared = [name for node in module.body if _assigns(node, "pytestmark") for name in _list_ids(node.value)]
    for node in module.body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            for name in (*shared, *(name for mark in node.decorator_list for name in _list_ids(mark))):
                yield name, node.name


def _list_ids(expression: ast.expr) -> Iterator[str]:
    """Arguments of every `mark.feature(...)` inside."""
    for node in ast.walk(expression):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "feature":
            yield from (str(ast.literal_eval(argument)) for argument in node.args)


def render_page(features: Mapping[str, Feature], tests: Mapping[str, tuple[str, ...]]) -> str:
    """The generated part of docs/features.md."""
    counts: dict[str, int] = {}
    rows = []
    for name, feature in features.items():
        proofs = tests.get(name, ())
        status = feature.status(proofs)
        counts[status] = counts.get(status, 0) + 1
        rows.append(f"| {name} | {feature.what} | {status} | {_render_evidence(feature, proofs)} |")
    summed = ", ".join(f"{counts[status]} {status}" for status in STATUSES if status in counts)
    head = [f"{len(features)} features: {summed}.", "", "| | feature | | evidence |", "|---|---|---|---|"]
    return "\n".join([*head, *rows])


STATUSES = ("proven", "recorded", "in part", "not built")


def _render_evidence(feature: Feature, tests: tuple[str, ...]) -> str:
    """What is missing, then recordings, then tests by file, in one cell."""
    files: dict[str, list[str]] = {}
    for test in tests:
        file, _, function = test.partition("::")
        files.setdefault(file.removesuffix(".py"), []).append(function.removeprefix("test_"))
    parts = [f"Missing: {feature.missing}"] if feature.missing else []
    parts += [f"`{path}`" for path in feature.recorded]
    parts += [f"`{file}`: {', '.join(functions)}" for file, functions in files.items()]
    return "<br>".join(parts)


def insert_table(page: str, table: str) -> str:
    """The page with this table between its marks. Raises ValueError where they are not."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    if BEGIN not in page or END not in rest:
        raise ValueError(f"docs/features.md has not the two marks {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{table}\n\n{END}{after}"


def main() -> None:
    """Write the page and print each feature with its evidence."""
    features, tests = read_features(), collect_tests()
    PAGE.write_text(insert_table(PAGE.read_text(encoding="utf-8"), render_page(features, tests)), encoding="utf-8")
    lines = []
    for name, feature in features.items():
        proofs = tests.get(name, ())
        lines.append(f"{name} {feature.status(proofs):<9} {feature.what}")
        lines += [f"     missing: {feature.missing}"] if feature.missing else []
        lines += [f"     {place}" for place in (*feature.recorded, *(f"tests/{test}" for test in proofs))]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
