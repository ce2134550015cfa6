"""Our own git obeys settings that we wrote, and keys are not to be read where the kernel shows a process to others."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ridgeline.sandbox.workspace.git import restore_settings
from tests.rooms import open_room, script_contract

KERNEL = "#!/bin/sh\necho right\n"
FILES = {"kernel.sh": KERNEL, "test.sh": "#!/bin/sh\n", "bench.sh": "#!/bin/sh\n", ".gitattributes": "* filter=evil\n"}


@pytest.fixture
def here(make_repository, tmp_path):
    return open_room(make_repository(FILES), tmp_path / "campaign", script_contract())


def plant_filter(campaign: Path, deed: str) -> None:
    """As a command does that could reach the campaign."""
    mirror = campaign / "mirror.git"
    with (mirror / "config").open("a") as file:
        file.write(f'[filter "evil"]\n\tsmudge = "{deed}; cat"\n\tclean = "{deed}; cat"\n')
        file.write(f'[core]\n\tfsmonitor = "{deed}"\n\thooksPath = {campaign}/hooks\n[include]\n\tpath = more\n')
    (mirror / "more").write_text(f'[alias]\n\tx = "!{deed}"\n[filter "evil"]\n\tprocess = "{deed}"\n')
    (mirror / "info").mkdir(exist_ok=True)
    (mirror / "info" / "attributes").write_text("* filter=evil\n")
    (mirror / "objects" / "info").mkdir(parents=True, exist_ok=True)
    (mirror / "objects" / "info" / "alternates").write_text("/somewhere/else\n")
    (campaign / "hooks").mkdir()
    for name in ("post-checkout", "reference-transaction", "post-index-change"):
        (campaign / "hooks" / name).write_text(f"#!/bin/sh\n{deed}\n")
        (campaign / "hooks" / name).chmod(0o755)


def test_settings_that_a_candidate_planted_are_not_obeyed(here, tmp_path):
    first = here.candidate({"kernel.sh": f"{KERNEL}# 1\n"})
    here.trees.at(first)
    plant_filter(tmp_path / "campaign", f"touch {tmp_path}/ran")
    for number in range(2, 6):  # more than there are slots: new checkouts, and old ones that are used again
        commit = here.candidate({"kernel.sh": f"{KERNEL}# {number}\n"})
        assert (here.trees.at(commit) / "kernel.sh").read_text() == f"{KERNEL}# {number}\n"
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "campaign" / "mirror.git" / "objects" / "info" / "alternates").exists()


def test_a_worktree_that_names_another_repository_as_its_own_is_checked_out_from_ours(here, tmp_path):
    commits = [here.candidate({"kernel.sh": f"{KERNEL}# {number}\n"}) for number in range(4)]
    for commit in commits[:3]:
        here.trees.at(commit)
    evil = tmp_path / "evil"
    subprocess.run(["git", "init", "-q", "--bare", str(evil)], check=True)
    (evil / "config").write_text(f'[core]\n\tbare = false\n\tfsmonitor = "touch {tmp_path}/ran"\n')
    for slot in (tmp_path / "campaign" / "mirror.git" / "worktrees").iterdir():
        (slot / "commondir").write_text(f"{evil}\n")
    assert (here.trees.at(commits[3]) / "kernel.sh").read_text() == f"{KERNEL}# 3\n"
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("kind", ["sha1", "sha256"])
def test_settings_are_those_that_git_itself_writes(tmp_path, kind):
    words = ("init", "-q", "--bare", "--template=", f"--object-format={kind}")
    subprocess.run(["git", *words, str(tmp_path / "r.git")], check=True)
    before = (tmp_path / "r.git" / "config").read_bytes()
    restore_settings(tmp_path / "r.git", sha256=kind == "sha256")
    assert (tmp_path / "r.git" / "config").read_bytes() == before


CONCEAL = """
import os, subprocess
from pathlib import Path
from ridgeline.sandbox.isolation.environment import conceal_secrets
conceal_secrets()
shown = Path("/proc/self/environ").read_bytes()
assert b"s3cret" not in shown and b"OPENAI_API_KEY=xxx" in shown and b"PLAIN=word" in shown, shown
assert os.environ["OPENAI_API_KEY"] == "s3cret"
assert subprocess.run(["sh", "-c", "echo $OPENAI_API_KEY"], capture_output=True).stdout == b"s3cret\\n"
conceal_secrets()
assert os.environ["OPENAI_API_KEY"] == "s3cret"
"""


def test_keys_are_not_shown_by_the_kernel_and_stay_known_here():
    environment = {**os.environ, "OPENAI_API_KEY": "s3cret", "PLAIN": "word"}
    done = subprocess.run([sys.executable, "-c", CONCEAL], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
