"""The pages of docs/ and the README: no dead link or anchor, reference parts as the program has them, a short README."""

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reference_pages import BEGIN, render_pages, replace_part

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md")])
LINK = re.compile(r"(?<!`)!?\[[^\]]*\]\(([^)\s]+)\)")
README_WORDS = 900
ARCHITECTURE_LINES = 70
GLOSSARY_WORDS = 60


def prose(page: Path) -> str:
    """Without blocks and spans of code."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", "", text)


def anchors(page: Path) -> set[str]:
    """Of its headings, as GitHub and the site make them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def dead_links(page: Path) -> Iterator[str]:
    for target in LINK.findall(prose(page)):
        if "://" in target or target.startswith("mailto:"):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name) if name else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            yield f"{page.name}: {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_link_is_dead(page):
    assert list(dead_links(page)) == []


def test_a_dead_link_and_a_dead_anchor_are_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# One thing\n[a](#one-thing) [b](#other) [c](gone.md) [d](page.md#one-thing) `[e](gone.md)`\n")
    assert list(dead_links(page)) == ["page.md: #other", "page.md: gone.md"]


@pytest.mark.parametrize("name", ["contract.md", "task.md", "api.md"])
def test_reference_pages_say_what_the_program_says(name):
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert BEGIN in page
    assert page == replace_part(page, render_pages()[name]), "run `make docs`"


def test_every_page_is_in_the_sites_list():
    listed = (ROOT / "zensical.toml").read_text(encoding="utf-8")
    nav = set(re.findall(r'"(\w+\.md)"', listed))
    assert tomllib.loads(listed)["project"]["docs_dir"] == "docs"
    assert nav == {page.name for page in (ROOT / "docs").glob("*.md")}


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= README_WORDS


def test_the_architecture_is_one_screen_and_the_glossaries_have_sixty_words_of_one_meaning():
    text, separator, glossary = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").partition("## Glossary")
    assert separator
    assert len(text.splitlines()) <= ARCHITECTURE_LINES
    pages = (glossary, (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"))
    words = [row[1] for page in pages for row in re.finditer(r"^\| ([^|]+) \|", page, re.MULTILINE)]
    words = [word for word in words if word != "word"]
    assert len(words) <= GLOSSARY_WORDS
    assert sorted(words) == sorted(set(words))


@pytest.mark.slow
def test_the_site_builds_strictly(tmp_path):
    """Built apart, so that the checkout stays as it is."""
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copy(ROOT / "zensical.toml", tmp_path)
    program = Path(sys.executable).with_name("zensical")
    argv = (str(program), "build", "--strict")
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "dist" / "site" / "index.html").is_file()
