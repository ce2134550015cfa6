"""Which wheels go to a GPU machine: what is loaded there, nothing else, and never more than it may carry."""

import pytest

from tests.gpu_wheels import LEFT_OUT, MOST_BYTES, main, needed, pinned, weigh

VERSIONS = ("3.11", "3.12", "3.13")


@pytest.mark.parametrize("version", VERSIONS)
def test_what_the_loop_is_made_of_is_there_and_what_is_heavy_is_not(version):
    found = set(needed(version))
    assert {"langgraph", "langgraph-checkpoint-sqlite", "pydantic", "pydantic-core", "typer", "rich", "jinja2"} <= found
    assert {"pyyaml", "psutil", "langchain-core", "ormsgpack"} <= found
    assert not found & {*LEFT_OUT, "numpy", "scipy", "pillow", "litellm", "openai", "tiktoken", "torch", "triton"}


@pytest.mark.parametrize("version", VERSIONS)
def test_every_name_has_a_version(version):
    assert set(needed(version)) <= set(pinned())


def test_what_is_left_out_is_something_that_would_have_come():
    assert set(LEFT_OUT) <= set(needed("3.12", ()))


@pytest.mark.parametrize(("size", "code"), [(MOST_BYTES - 2, 0), (MOST_BYTES - 1, 1), (3 * MOST_BYTES, 1)])
def test_too_heavy_is_a_failure(tmp_path, capsys, size, code):
    for name, length in (("big", size), ("two", 2)):
        with (tmp_path / f"{name}.whl").open("wb") as file:
            file.truncate(length)
    (tmp_path / "notes.txt").write_text("not a wheel")
    assert weigh(tmp_path) == code
    said = capsys.readouterr()
    assert "wheels: 2 files" in said.out + said.err
    assert ("LEFT_OUT" in said.err) == bool(code)


def test_what_is_no_version_is_refused_before_anything_is_fetched(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["gpu_wheels", "three"])
    assert main() == 2
    assert "no version of Python" in capsys.readouterr().err
