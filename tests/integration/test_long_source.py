"""A campaign over one function of a file of 5,638 lines: built, tested, timed, and asked about within a minute."""

import shutil
import time

import pytest

from tests.long_projects import LINES, TIMED, files

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("gcc") is None or shutil.which("make") is None, reason="needs gcc and make"),
]


def test_the_first_question_comes_within_a_minute_and_shows_what_is_timed(cli, make_repository):
    project = make_repository(files())
    start = time.monotonic()
    asked = cli("run", project, "--model", "mailbox", "--max-rounds", "1", "--set", "calibration_pairs=4")
    seconds = time.monotonic() - start
    assert asked.code == 3, asked.err
    assert seconds < 60
    page = next(project.glob("agent/workspace/*/mailbox/001.request.md")).read_text(encoding="utf-8")
    assert f"void {TIMED}(const float * x, block_q4_K * y, int64_t k) {{" in page
    assert f"-{LINES} left out]" in page
    assert "} block_q4_K;" in page
    assert "def timed_call(folder, size):" in page
    assert "near_enough(x + i * QK_K, y + i)" in page
