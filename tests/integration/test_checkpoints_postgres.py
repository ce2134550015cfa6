"""Checkpoints in a real PostgreSQL, begun for the test; skipped, with the reason, where there is none."""

import os
import pwd
import shutil
import subprocess
from pathlib import Path

import pytest

from ridgeline.agent.campaign.approvals import ApprovalFiles
from ridgeline.agent.campaign.checkpoints import VARIABLE, name_thread, open_checkpoints
from ridgeline.agent.campaign.progress import NoView
from ridgeline.agent.campaign.runner import drive
from ridgeline.agent.campaign.state_files import Manifest, write_manifest
from ridgeline.agent.errors import UserError, Waiting
from ridgeline.graph.approval import Decision
from ridgeline.graph.values import SCHEMA
from tests.builders import make_limits
from tests.campaigns import make_campaign

PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))


@pytest.fixture
def database(tmp_path_factory):
    """Address of an empty database, on a socket in a folder of its own."""
    pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")
    found = shutil.which("initdb") or (str(PROGRAMS[-1]) if PROGRAMS else None)
    if found is None:
        pytest.skip("PostgreSQL's server is not installed here")
    programs = Path(found).resolve().parent
    folder = tmp_path_factory.mktemp("pg")
    user: dict[str, object] = {}
    if os.geteuid() == 0:  # the server refuses to run as root
        owner = next((entry for entry in pwd.getpwall() if entry.pw_name in ("postgres", "nobody")), None)
        if owner is None:
            pytest.skip("there is no other user to run PostgreSQL as")
        user = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": ()}
        for place in (folder, *folder.parents[:3]):  # beside others there is one more
            place.chmod(0o755)
        os.chown(folder, owner.pw_uid, owner.pw_gid)
    data, words = folder / "data", {"cwd": folder, "check": True, "capture_output": True, **user}
    subprocess.run((programs / "initdb", "-D", data, "-U", "r", "-A", "trust", "--no-sync"), **words)
    options = f"-k {folder} -c listen_addresses= -c fsync=off"
    subprocess.run(
        (programs / "pg_ctl", "-D", data, "-w", "-t", "300", "-l", folder / "log", "-o", options, "start"),
        **{**words, "capture_output": False, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL},
    )
    yield f"postgresql://r@/postgres?host={folder}"
    subprocess.run((programs / "pg_ctl", "-D", data, "-m", "immediate", "stop"), **{**words, "check": False})


def make_waiting(folder: Path):
    """A campaign that asks a person once, with what a folder says of it."""
    limits = make_limits(target_peak_fraction=None, approve="change", max_rounds=1)
    made = make_campaign(folder, "speed 120", None, limits=limits)
    write_manifest(
        folder,
        Manifest(
            schema=SCHEMA, repository="/r", contract_dir=".", contract_file="/r/ridgeline.yaml", request=made.request
        ),
    )
    return made


@pytest.mark.slow
def test_a_campaign_goes_on_from_a_database_wherever_its_folder_lies(database, tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, database)
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    made = make_waiting(here)
    with open_checkpoints(here) as saved, pytest.raises(Waiting):
        drive(saved, made.request, made.ports, NoView())
    assert not (here / "checkpoints.sqlite").exists()

    shutil.copytree(here, there)
    with open_checkpoints(there) as saved:
        assert saved.thread == name_thread(here)
        stood = saved.saver.get_tuple({"configurable": {"thread_id": saved.thread}})
        assert stood is not None
        assert stood.checkpoint["channel_values"]["trial"] is not None, "the round that waits is open there"
        (question,) = ApprovalFiles(here).waiting()
        ApprovalFiles(here).decide(
            Decision(key=question.request.key, choice="approve", by="Ada", at="2026-11-22T09:00:00+00:00")
        )
        drive(saved, made.request, made.ports, NoView())
        saved.delete()
        assert saved.saver.get_tuple({"configurable": {"thread_id": saved.thread}}) is None
    assert made.verdicts() == ["faster"]
    assert made.history().concluded is not None


def test_a_database_that_does_not_answer_is_one_line(tmp_path, monkeypatch):
    pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")
    monkeypatch.setenv(VARIABLE, f"postgresql://r:secret@/x?host={tmp_path}")
    make_waiting(tmp_path)
    with pytest.raises(UserError, match="RIDGELINE_CHECKPOINTS") as refused, open_checkpoints(tmp_path):
        pass
    assert "secret" not in str(refused.value)
