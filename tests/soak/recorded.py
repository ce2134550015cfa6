"""Campaigns of the shipped tasks for a processor, recorded once: few rounds, few pairs, the judge and the compiler real."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
TASKS = ("softmax_c", "layernorm_c", "matmul_c", "conv3x3_c", "attention_c")
FEW = (
    "looks=1,2",
    "calibration_pairs=2",
    "calibration_minutes=0.2",
    "final_pairs=3",
    "screen_pairs=1",
    "canary_every=2",
)
"""Limits under which a campaign of four rounds takes a minute or two; nobody reads its gains."""


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """A campaign that has ended."""

    task: str
    before: Path
    """The repository as it was when the campaign began."""
    campaign: Path
    ledger: bytes
    branch: str
    tip: str
    """Commit of the branch at its end."""


def record(task: str, recordings: Path) -> Recorded:
    """The campaign of a task in that folder; it is run where it is missing. Raises subprocess.CalledProcessError."""
    folder = recordings / task
    done = folder / "recorded" / "done"
    if not done.exists():
        shutil.rmtree(folder, ignore_errors=True)
        before = lay_out(task, folder / "before" / "kernels")
        shutil.copytree(before, folder / "recorded" / "kernels")
        run_campaign(folder / "recorded" / "kernels", folder / "recorded", rounds=4)
        done.touch()
    campaign = next((folder / "recorded" / "kernels" / "agent" / "workspace").glob("*/ledger.jsonl")).parent
    branch = ask_git(folder / "recorded" / "kernels", "branch", "--list", "optimize/*", "--format=%(refname:short)")
    return Recorded(
        task=task,
        before=folder / "before" / "kernels",
        campaign=campaign,
        ledger=(campaign / "ledger.jsonl").read_bytes(),
        branch=branch,
        tip=ask_git(folder / "recorded" / "kernels", "rev-parse", branch),
    )


def lay_out(task: str, repository: Path) -> Path:
    """A repository that holds the task's files, committed."""
    shutil.copytree(ROOT / "evals" / "tasks" / task, repository)
    identity = ("-c", "user.name=Somebody", "-c", "user.email=somebody@localhost")
    for words in (("init", "-q", "-b", "main"), ("add", "-A"), (*identity, "commit", "-q", "-m", "start")):
        subprocess.run(("git", *words), cwd=repository, check=True)
    return repository


def campaign_words(repository: Path, rounds: int) -> tuple[str, ...]:
    """The command line of a short campaign without a model."""
    limits = (word for limit in FEW for word in ("--set", limit))
    return ("run", str(repository), "--planner", "catalog", "--max-rounds", str(rounds), *limits)


def campaign_environment(place: Path) -> dict[str, str]:
    """Variables under which it holds no device of another, and leaves what it leaves below `place`."""
    for name in ("tmp", "run", "home"):
        (place / name).mkdir(parents=True, exist_ok=True, mode=0o700)
    private = {"TMPDIR": str(place / "tmp"), "XDG_RUNTIME_DIR": str(place / "run"), "HOME": str(place / "home")}
    return {**os.environ, **private, "RIDGELINE_QUIET_S": "0"}


def run_campaign(repository: Path, place: Path, *, rounds: int) -> None:
    """Run it to its end. Raises subprocess.CalledProcessError."""
    words = (sys.executable, "-m", "ridgeline.agent", *campaign_words(repository, rounds))
    environment = campaign_environment(place)
    environment.pop("LD_PRELOAD", None)
    with (place / "said").open("wb") as said:
        subprocess.run(words, cwd=ROOT, env=environment, stdout=said, stderr=said, check=True)


def ask_git(repository: Path, *words: str) -> str:
    """What git prints. Raises subprocess.CalledProcessError."""
    return subprocess.run(("git", "-C", repository, *words), capture_output=True, text=True, check=True).stdout.strip()
