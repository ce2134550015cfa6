"""One small campaign rendered byte for byte; `tests/document_golden.py` says how to refresh it."""

import pytest

from tests.document_golden import FOLDER, documents


@pytest.mark.parametrize("name", sorted(documents()))
def test_rendering_is_byte_for_byte_the_golden_one(name: str) -> None:
    golden = FOLDER / name
    assert golden.read_bytes() == documents()[name].encode(), "python -m tests.document_golden refreshes it"


def test_no_golden_file_is_left_over() -> None:
    assert {path.name for path in FOLDER.glob("*.golden")} == set(documents())


@pytest.mark.parametrize("name", sorted(documents()))
def test_documents_end_in_one_newline_and_have_no_trailing_blanks(name: str) -> None:
    text = documents()[name]
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    assert "\n\n\n" not in text or name.startswith("quick_test_bench")
    assert not any(line != line.rstrip() for line in text.splitlines())
