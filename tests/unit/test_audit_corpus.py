"""The audit against a corpus: every cheat is named in every spelling, nothing honest is convicted, nothing crashes."""

import random

import pytest

from ridgeline.graph.rules.audit import find_refusal, summarize_findings
from ridgeline.sandbox.audit.examine import audit, find_added
from ridgeline.sandbox.audit.rules import CONVICTING, RULES
from tests.audit_cheats import CHEATS, OPTIONS
from tests.audit_honest import HONEST
from tests.builders import make_contract, make_hypothesis

K1 = make_hypothesis(bucket="K1")
SOURCES = tuple(one for one in CHEATS if one not in OPTIONS)
"""Files of options know no comments: their build reads every word."""
W1 = make_hypothesis(bucket="W1", real_gain_bound=0.02)


@pytest.mark.parametrize(("rule", "name", "path", "text"), CHEATS, ids=[f"{r}: {n}" for r, n, _, _ in CHEATS])
def test_a_cheat_is_named_at_its_line(rule, name, path, text):
    found = audit(path, text)
    assert rule in {one.rule for one in found}
    assert all(0 < one.line <= len(text.splitlines()) for one in found)
    assert all(one.meaning and one.closer for one in found)
    assert summarize_findings(found) == ("convicted" if {one.rule for one in found} & CONVICTING else "routes")


def test_the_corpus_is_as_large_as_it_says_and_spells_each_convicting_cheat_twice():
    assert len(CHEATS) >= 30
    assert len(HONEST) >= 40
    for rule in CONVICTING - {"protected-path"}:
        assert len([one for one in CHEATS if one[0] == rule]) >= 2, rule
    assert {rule for rule, *_ in CHEATS} <= set(RULES)


@pytest.mark.parametrize(("name", "path", "text"), HONEST, ids=[name for name, _, _ in HONEST])
def test_nothing_honest_is_convicted_or_rolled_back(name, path, text):
    found = audit(path, text, dtype="fp16" if name == "half data" else "fp32")
    assert summarize_findings(found) != "convicted"
    assert find_refusal(found, W1 if "weight cache" in name else K1, make_contract()) is None


@pytest.mark.parametrize(("name", "path", "text"), HONEST, ids=[name for name, _, _ in HONEST])
def test_most_of_what_is_honest_is_clean(name, path, text):
    looked_at = {"settings of a compiler", "generated source"}
    found = audit(path, text, dtype="fp16" if name == "half data" else "fp32")
    assert summarize_findings(found) == ("routes" if name in looked_at | {"prefetch assembly"} else "clean")


@pytest.mark.parametrize(("rule", "name", "path", "text"), SOURCES, ids=[f"{r}: {n}" for r, n, _, _ in SOURCES])
def test_the_same_words_in_comments_and_strings_never_convict(rule, name, path, text):
    python = path.endswith(".py")
    commented = "".join(f"{'#' if python else '//'} {line}\n" for line in text.replace("\\\n", "\n").splitlines())
    assert audit(path, commented) == ()
    quoted = f"doc = {text!r}\n" if python else f'const char *doc = R"x({text})x";\n'
    assert summarize_findings(audit(path, quoted)) != "convicted"
    if not python:
        assert audit(path, "/* " + text.replace("*/", "") + " */\n") == ()


@pytest.mark.parametrize(("rule", "name", "path", "text"), CHEATS, ids=[f"{r}: {n}" for r, n, _, _ in CHEATS])
def test_what_was_there_before_is_not_the_candidates(rule, name, path, text):
    moved = "\n\n" + text
    assert find_added({path: text}, {path: moved}) == ()
    assert find_added({}, {path: text}) == audit(path, text)
    assert find_added({path: text}, {path: None}) == ()


@pytest.mark.parametrize("seed", range(12))
def test_damaged_sources_get_an_answer(seed):
    draw = random.Random(seed)
    for _, _, path, text in draw.sample(CHEATS, 25):
        letters = list(text)
        for _ in range(draw.randint(1, 12)):
            at = draw.randrange(len(letters))
            letters[at : at + draw.randint(0, 6)] = draw.choice(
                ["", "\0", "{", "}", "(", '"', "'", "\\", "/*", "é", "#", 'R"(']
            )
        found = audit(path, "".join(letters))
        assert all(one.rule in RULES for one in found)


@pytest.mark.parametrize("path", ["a.py", "a.cu"])
@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "\0",
        "(" * 5000,
        "x=" + "-" * 20000 + "1",
        "a." * 5000 + "b",
        '"',
        "'",
        "/*",
        'R"(',
        "#define",
        "x = [" * 500,
        "\ufeffx = 1",
        "é" * 99,
    ],
    ids=lambda text: repr(text[:12]),
)
def test_absurd_texts_get_an_answer(path, text):
    assert all(one.rule in RULES for one in audit(path, text))


def test_what_cannot_be_read_is_said_and_never_clean():
    assert [one.rule for one in audit("k.py", "def f(:\n")] == ["unreadable"]
    assert [one.rule for one in audit("k.py", "x = 1\n" * 200_000)] == ["unreadable"]


def test_a_piece_that_is_no_python_is_looked_at_line_by_line_and_not_convicted():
    text = "        y = g(x)\n    return y\nimport os\n  os._exit(0)\n"
    found = audit("k.py", text)
    assert {"unreadable", "ends-process"} <= {one.rule for one in found}
    assert summarize_findings(found) == "routes"
    assert next(one.line for one in found if one.rule == "ends-process") == 4


def test_a_stream_whose_join_is_taken_away_is_a_new_finding():
    joined = next(text for name, path, text in HONEST if name == "joined streams" and path.endswith(".py"))
    alone = "".join(line for line in joined.splitlines(True) if "wait_stream" not in line)
    assert [one.rule for one in find_added({"k.py": joined}, {"k.py": alone})] == ["side-stream"]


def test_a_cheat_inside_an_embedded_source_is_routed_at_its_own_line():
    text = "import torch\nSRC = '''\n#include <x.h>\nvoid f() { _exit(0); }\n'''\n"
    found = audit("k.py", text)
    assert [(one.rule, one.line, one.severity) for one in found] == [("ends-process", 4, "routes")]


@pytest.mark.feature("F047")
def test_the_four_cases_of_the_specification():
    rules = {one[1]: {f.rule for f in audit(one[2], one[3])} for one in CHEATS}
    assert "identity-cache" in rules["id dict"]
    assert "tensor-weakref" in rules["weakref of a gradient"]
    honest = {name: audit(path, text) for name, path, text in HONEST}
    assert summarize_findings(honest["weight cache with version"]) == "clean"
    assert [one.severity for one in honest["weight cache with version"]] == ["notes"]
    assert honest["autotune"] == ()
