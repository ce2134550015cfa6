"""docs/features.md says what the tests say: every feature has its evidence, or what is missing of it."""

from tests.features import PAGE, ROOT, Feature, collect_tests, insert_table, list_skipped, read_features, render_page

FEATURES, TESTS = read_features(), collect_tests()


def test_the_page_is_what_the_tests_say():
    page = PAGE.read_text(encoding="utf-8")
    assert page == insert_table(page, render_page(FEATURES, TESTS)), "run `make features`"


def test_every_feature_has_a_row_and_no_row_is_empty():
    assert list(FEATURES) == [f"F{number:03d}" for number in range(1, 124)]
    assert [name for name, row in FEATURES.items() if not (TESTS.get(name) or row.recorded or row.missing)] == []


def test_a_mark_names_a_feature_and_a_recording_a_folder():
    assert sorted(set(TESTS) - set(FEATURES)) == []
    assert [path for row in FEATURES.values() for path in row.recorded if not (ROOT / path).exists()] == []


def test_a_mark_stands_only_on_what_continuous_integration_runs(tmp_path):
    assert list_skipped() == ()
    marked = '@pytest.mark.feature("F001")\ndef test_a():\n    {body}\n'
    (tmp_path / "test_one.py").write_text(marked.format(body='pytest.importorskip("triton")'))
    (tmp_path / "test_two.py").write_text('torch = pytest.importorskip("torch")\n' + marked.format(body="pass"))
    (tmp_path / "test_three.py").write_text(
        "pytestmark = pytest.mark.skipif(not SAMPLES)\n" + marked.format(body="pass")
    )
    (tmp_path / "test_four.py").write_text(marked.format(body="pass"))
    assert list_skipped(tmp_path) == ("test_one.py::test_a", "test_three.py::test_a", "test_two.py::test_a")


def test_what_lacks_something_is_never_called_proven():
    assert Feature(what="x").status(("a.py::test_a",)) == "proven"
    assert Feature(what="x", missing="y").status(("a.py::test_a",)) == "in part"
    assert Feature(what="x", missing="y").status(()) == "not built"
    assert Feature(what="x", recorded=("evals",)).status(("a.py::test_a",)) == "recorded"


def test_marks_of_functions_and_modules_are_collected(tmp_path):
    marked = 'import pytest\n{shared}\n\n@pytest.mark.feature("F001", "F002")\ndef test_a():\n    pass\n\n\ndef test_b():\n    pass\n'
    (tmp_path / "test_one.py").write_text(marked.format(shared=""))
    (tmp_path / "test_two.py").write_text(marked.format(shared='pytestmark = [pytest.mark.feature("F003")]'))
    assert collect_tests(tmp_path) == {
        "F001": ("test_one.py::test_a", "test_two.py::test_a"),
        "F002": ("test_one.py::test_a", "test_two.py::test_a"),
        "F003": ("test_two.py::test_a", "test_two.py::test_b"),
    }
