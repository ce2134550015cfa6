"""The house rules that a tool can check: sizes, imports, prints, paths, and documents that agree with the program."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import typer.main

from ridgeline.agent.cli.application import application

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("agent", "graph", "prompts", "knowledge", "sandbox", "evals")
PAGES = ("README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")))
MACHINE_PATH = re.compile(r"(?<![\w.$-])/(home/\w+|Users/\w+|root)/")
UNFINISHED = re.compile(r"\b(todo|fixme|xxx|notimplemented\w*|for now(?!:)|stub)\b", re.IGNORECASE)


def sources() -> list[Path]:
    """Python files of the product."""
    ours = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    return [path for path in ours if path.relative_to(ROOT).parts[1] not in ("workspace", "historical_experience")]


def names(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


def lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def functions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in ast.walk(tree(path)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


@pytest.mark.slow
def test_only_the_console_prints():
    printing = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sources()
        if not {"harness", "tasks", "recorded_tasks", "proof"} & set(path.parts) and path.name != "console.py"
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert printing == []


def test_no_handler_hides_what_it_caught():
    broad = []
    for path in sources():
        for node in ast.walk(tree(path)):
            if not isinstance(node, ast.ExceptHandler):
                continue
            whole = node.type is None or (
                isinstance(node.type, ast.Name) and node.type.id in ("Exception", "BaseException")
            )
            raises = any(isinstance(inner, ast.Raise) for inner in ast.walk(node))
            if whole and not raises:
                broad.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert broad == []


def test_nothing_is_left_unfinished():
    found = [
        f"{path.relative_to(ROOT)}:{number}: {text.strip()}"
        for path in sources()
        for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if UNFINISHED.search(text)
    ]
    assert found == []


@pytest.mark.slow
def test_no_file_names_a_developers_machine():
    listed = subprocess.run(
        ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"),
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    found = []
    for name in filter(None, listed):
        path = ROOT / name
        if not path.is_file() or path == Path(__file__).resolve():
            continue
        for number, text in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
            if MACHINE_PATH.search(text):
                found.append(f"{name}:{number}: {text.strip()[:100]}")
    assert found == []


@pytest.mark.slow
def test_imports_point_inward():
    # in a process of its own: the linter configures logging for everybody in its process
    code = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    done = subprocess.run((sys.executable, "-c", code), cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_names_of_test_files_are_unique():
    found = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(found) == sorted(set(found))


def commands() -> dict[str, set[str]]:
    """Every command of the program, with its options."""
    group = typer.main.get_command(application())
    known: dict[str, set[str]] = {}
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        for label, found in [
            (name, command),
            *((f"{name} {sub}", c) for sub, c in getattr(command, "commands", {}).items()),
        ]:
            known[label] = {option for parameter in found.params for option in parameter.opts} | {"--help"}
    return known


def documented(text: str) -> set[str]:
    """Command lines that a document shows: in code spans and in code blocks."""
    spans = re.findall(r"`ridgeline ([^`\n]+)`", text)
    blocks = [line.strip() for block in re.findall(r"```\w*\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
    runs = [found[1] for line in blocks if (found := re.match(r"(?:\$ )?(?:\.venv/bin/)?ridgeline ([^#]+)", line))]
    lines = {part.strip() for line in (*spans, *runs) for part in re.split(r"&& (?:ridgeline )?", line)}
    return {line for line in lines if line}


@pytest.mark.parametrize("name", [*PAGES, "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_documents_show_only_commands_that_exist(name):
    known = commands()
    for line in documented((ROOT / name).read_text(encoding="utf-8")):
        words = line.split()
        command = next((" ".join(words[:n]) for n in (2, 1) if " ".join(words[:n]) in known), None)
        if words[0].startswith("-"):
            assert words[0] in ("--help", "--install-completion"), line
            continue
        assert command is not None, f"{name}: ridgeline {line}"
        options = {word.strip("[]").split("=")[0] for word in words if word.strip("[]").startswith("-")}
        assert options <= known[command], f"{name}: ridgeline {line}"


def test_the_page_of_commands_names_every_command():
    text = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    groups = {name.split()[0] for name in commands()}
    assert {name for name in groups if f"`ridgeline {name}" not in text} == set()


def test_make_targets_of_the_documents_exist():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for name in (*PAGES, "CONTRIBUTING.md", "ARCHITECTURE.md"):
        shown = set(re.findall(r"(?:`|^|\s)make ([a-z]+)`?", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE))
        assert {
            word for word in shown if word in ("install", "demo", "test", "check", "bench", "clean", "dev")
        } <= targets


def test_every_import_of_the_command_line_is_light():
    code = "import sys, ridgeline.agent.cli.application; ridgeline.agent.cli.application.application(); print(*sorted(sys.modules))"
    done = subprocess.run((sys.executable, "-c", code), cwd=ROOT, check=True, capture_output=True, text=True)
    heavy = {"langgraph", "pydantic", "scipy", "numpy", "rich", "yaml", "jinja2", "torch"}
    assert heavy & set(done.stdout.split()) == set()
