"""The house: modules are subjects, imports run one way, functions are verbs, and a citation leads to a file.

What does not obey yet is listed in `exceptions.toml`. The list may only shrink: a test fails when an entry is not needed.
"""

import ast
import re
import tomllib
from collections import defaultdict
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("agent", "graph", "prompts", "knowledge", "sandbox", "evals")
SMALL = 100
"""Lines; a shorter module that one other imports belongs into that one."""
NOT_VERBS = frozenset(
    {
        "known",
        "found",
        "seen",
        "told",
        "one",
        "done",
        "said",
        "given",
        "asked",
        "taken",
        "kept",
        "held",
        "made",
        "drawn",
        "named",
        "heard",
        "shown",
        "noted",
        "wanted",
        "moved",
        "lost",
        "bent",
        "looked",
        "ready",
        "whole",
        "again",
        "apart",
        "near",
        "far",
        "first",
        "last",
        "other",
        "others",
        "own",
        "its",
    }
)
"""Participles and pronouns without the ending `ed`, which is looked for by itself."""
VERBS_IN_ED = frozenset({"need", "feed", "seed", "embed", "exceed", "proceed", "succeed", "shed", "speed"})
CITED_FILE = re.compile(
    r"(?<![\w./<{-])((?:agent|graph|prompts|knowledge|sandbox|evals|docs|tests)/[\w./-]+\.(?:py|md|c|toml))\b"
)
CITED_RULE = re.compile(r"\b(?:rules?|profilers|measurement) R?\d+\.\d+")
EXCEPTIONS = tomllib.loads((Path(__file__).parent / "exceptions.toml").read_text(encoding="utf-8"))


@cache
def modules() -> dict[str, Path]:
    """Dotted name -> file, for the product without its tasks."""
    listed: dict[str, Path] = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            if parts[:2] not in (
                ("agent", "workspace"),
                ("agent", "historical_experience"),
                ("evals", "tasks"),
                ("evals", "recorded_tasks"),
                ("evals", "proof"),
                ("evals", "campaigns"),
            ):
                listed[".".join(("ridgeline", *parts)).removesuffix(".__init__")] = path
    return listed


@cache
def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def imports() -> dict[str, frozenset[str]]:
    """Module -> modules of ours that it imports, wherever in it the import stands."""
    edges: dict[str, frozenset[str]] = {}
    for module, path in modules().items():
        targets: set[str] = set()
        for node in ast.walk(ast.parse(text(path))):
            if isinstance(node, ast.ImportFrom) and node.module:
                named = {f"{node.module}.{alias.name}" for alias in node.names}
                targets |= {name if name in modules() else node.module for name in named}
            elif isinstance(node, ast.Import):
                targets |= {alias.name for alias in node.names}
        edges[module] = frozenset(targets & modules().keys() - {module})
    return edges


def short(module: str) -> str:
    return module.removeprefix("ridgeline.")


def cycles() -> list[list[str]]:
    """Strongly connected modules, sorted: those that reach each other."""

    def reachable(start: str) -> frozenset[str]:
        seen: set[str] = set()
        todo = [start]
        while todo:
            for target in imports()[todo.pop()] - seen:
                seen.add(target)
                todo.append(target)
        return frozenset(seen)

    reach = {module: reachable(module) for module in imports()}
    rings = {
        tuple(sorted(other for other in reached if module in reach[other]))
        for module, reached in reach.items()
        if module in reached
    }
    return sorted([short(module) for module in ring] for ring in rings)


def test_no_imports_run_in_a_circle_local_ones_counted():
    assert cycles() == sorted(sorted(ring) for ring in EXCEPTIONS["cycles"])


def test_no_small_module_serves_a_single_other():
    users: dict[str, set[str]] = defaultdict(set)
    for module, targets in imports().items():
        for target in targets:
            users[target].add(module)
    closets = {
        short(module)
        for module, path in modules().items()
        if len(users[module]) == 1 and path.name != "__init__.py" and text(path).count("\n") < SMALL
        if "harness" not in path.parts  # started by its place, so imports do not count
    }
    listed = set(EXCEPTIONS["closets"])
    assert closets - listed == set(), "merge these into the one module that imports them"
    assert listed - closets == set(), "not needed any more: take these out of exceptions.toml"


def is_verb(name: str) -> bool:
    bare = name.strip("_")
    return bare not in NOT_VERBS and (bare in VERBS_IN_ED or re.fullmatch(r"[a-z]+ed", bare) is None)


def is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """A property is read like a value, so its name is a noun or an adjective."""
    return any(
        ast.unparse(mark).split(".")[-1] in ("property", "cached_property", "setter") for mark in node.decorator_list
    )


def test_no_function_is_named_by_a_bare_participle_or_pronoun():
    bare: dict[str, set[str]] = defaultdict(set)
    for module, path in modules().items():
        for node in ast.walk(ast.parse(text(path))):
            if (
                isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                and not is_verb(node.name)
                and not is_property(node)
            ):
                bare[short(module).split(".")[0]].add(node.name)
    listed = {folder: set(names) for folder, names in EXCEPTIONS["participles"].items()}
    new = {folder: sorted(names - listed.get(folder, set())) for folder, names in bare.items()}
    assert {folder: names for folder, names in new.items() if names} == {}, "name what the function does"
    gone = {folder: sorted(names - bare[folder]) for folder, names in listed.items()}
    assert {folder: names for folder, names in gone.items() if names} == {}, "take these out of exceptions.toml"


def test_a_functions_first_line_tells_its_room():
    """A line that stands in two rooms says nothing of either; one that rests on its neighbour cannot be read alone."""
    rooms: dict[str, set[str]] = defaultdict(set)
    for module, path in modules().items():
        room = module.split(".")[1] if module.count(".") < 3 else ".".join(module.split(".")[1:3])
        for node in ast.walk(ast.parse(text(path))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (words := ast.get_docstring(node)):
                rooms[words.partition("\n")[0]].add(room)
    assert {line: sorted(where) for line, where in rooms.items() if len(where) > 1} == {}
    assert [line for line in rooms if line.startswith(("Likewise", "Ditto", "See above"))] == []


def test_every_citation_leads_to_a_file():
    lost = [
        f"{path.relative_to(ROOT)}: {cited}"
        for path in modules().values()
        for cited in (*CITED_RULE.findall(text(path)), *CITED_FILE.findall(text(path)))
        if not (ROOT / cited).is_file()
    ]
    assert lost == []


def test_the_linter_holds_complexity_to_fifteen():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ruff"]["lint"]
    assert "C90" in settings["select"]
    assert settings["mccabe"]["max-complexity"] <= 15
