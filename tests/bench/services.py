"""The files for CI systems, run here as the services run them: fresh clones, their shells and variables, a planted loss of 3 %."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import yaml

ROOT = Path(__file__).parents[2]
FILES = {"github": ".github/workflows/ridgeline-bench.yml", "gitlab": ".gitlab/ridgeline-bench.yml"}
MARGIN = "1.5%"
"""Half of the loss that is planted, as docs/compare.md advises."""
BLUR = """void blur(const float *x, float *y, int rows, int cols)
{
    for (int r = 0; r < rows; r++) {
        const float *row = x + (long)r * cols;
        for (int c = 0; c < cols; c++) {
            float left = row[c > 0 ? c - 1 : 0], right = row[c + 1 < cols ? c + 1 : c];
            y[(long)r * cols + c] = 0.25f * left + 0.5f * row[c] + 0.25f * right;
        }
    }
}
"""
LOSS = """        for (int c = 0; c < cols * 3 / 100; c++) {
            float left = row[c > 0 ? c - 1 : 0], right = row[c + 1 < cols ? c + 1 : c];
            ((volatile float *)y)[(long)r * cols + c] = 0.25f * left + 0.5f * row[c] + 0.25f * right;
        }
"""
IDENTITY = ("-c", "user.name=Bench", "-c", "user.email=bench@localhost")
PASSED = (
    "PATH",
    "HOME",
    "LANG",
    "TMPDIR",
    "PIP_INDEX_URL",
    "PIP_CONFIG_FILE",
    "SSL_CERT_FILE",
    "HTTPS_PROXY",
    "NO_PROXY",
)
BRANCHES = {"planted": 1, "same": 0}
"""Branches with the exit code that docs/compare.md says for them."""


@dataclass(frozen=True)
class JobRun:
    """What a job left."""

    code: int
    output: str
    workspace: Path


def run() -> Iterator[dict[str, Any]]:
    """A row for each service and branch: the job's exit code, and whether reports and annotations say the same."""
    with tempfile.TemporaryDirectory(prefix="ridgeline-services-") as scratch:
        place = Path(scratch)
        origin = _make_repository(place / "work")
        subprocess.run((sys.executable, "-m", "venv", place / "python"), check=True)
        for service, make_job in (("github", _run_github), ("gitlab", _run_gitlab)):
            for branch, expected in BRANCHES.items():
                done = make_job(origin, place / service / branch / "repository", branch, place / "python/bin")
                wrong = _find_faults(service, done, expected)
                for line in wrong:
                    sys.stderr.write(f"{service}, {branch}: {line}\n{done.output[-2000:]}\n")
                yield {"what": f"{service}, {branch}: exit code", "value": done.code, "unit": "", "ok": not wrong}


def _find_faults(service: str, done: JobRun, expected: int) -> list[str]:
    """What is not as docs/compare.md says."""
    faults = [] if done.code == expected else [f"exit code {done.code}, not {expected}"]
    report, raw = (done.workspace / f"ridgeline-bench.{kind}" for kind in ("xml", "json"))
    if not report.is_file() or not raw.is_file():
        return [*faults, "no report to upload"]
    failures = len(list(ElementTree.parse(report).iter("failure")))
    if bool(failures) != bool(expected):  # of the mean, and of each size that is slower for sure
        faults.append(f"{failures} failures in the JUnit report with exit code {expected}")
    notes = re.findall(r"^::error file=blur\.c,", done.output, re.MULTILINE)
    if service == "github" and len(notes) != expected:
        faults.append(f"{len(notes)} annotations at blur.c, not {expected}")
    return faults


def _git(folder: Path, *words: str) -> str:
    return subprocess.run(("git", *IDENTITY, "-C", folder, *words), check=True, capture_output=True, text=True).stdout


def _make_repository(root: Path) -> Path:
    """`main` with a row filter, its harness and both files for CI systems; `planted` computes 3 % of each row twice."""
    root.mkdir()
    (root / "blur.c").write_text(BLUR)
    _git(root, "init", "-q", "-b", "main")
    _git(root, "add", "-A")
    _git(root, "commit", "-qm", "a row filter")
    ridgeline = (sys.executable, "-m", "ridgeline", "init", ".")
    for more in (("--function", "blur"), ("--ci", "github"), ("--ci", "gitlab")):
        subprocess.run((*ridgeline, *more), cwd=root, check=True, capture_output=True)
    _git(root, "add", "-A")
    _git(root, "commit", "-qm", "its harness")
    head = "        const float *row = x + (long)r * cols;\n"
    for branch, text in {
        "planted": BLUR.replace(head, head + LOSS),
        "same": BLUR.replace("{\n", "{  /* by rows */\n", 1),
    }.items():
        _git(root, "checkout", "-qb", branch, "main")
        (root / "blur.c").write_text(text)
        _git(root, "commit", "-qam", branch)
    return root


def _clone(origin: Path, workspace: Path, branch: str) -> dict[str, str]:
    """The whole history with the branch's last commit checked out, on no branch; its and its base's hashes."""
    subprocess.run(("git", "clone", "-q", origin, workspace), check=True)
    _git(workspace, "checkout", "-q", "--detach", f"origin/{branch}")
    return {
        "head": _git(workspace, "rev-parse", "HEAD").strip(),
        "base": _git(workspace, "rev-parse", "origin/main").strip(),
    }


def _evaluate(text: object, values: Mapping[str, str]) -> str:
    """GitHub's expressions as the workflow has them: names with `||` between; the first that is not empty."""

    def pick(match: re.Match[str]) -> str:
        return next((value for name in match[1].split("||") if (value := values.get(name.strip(), ""))), "")

    return re.sub(r"\$\{\{(.*?)\}\}", pick, str(text))


def _run_github(origin: Path, workspace: Path, branch: str, programs: Path) -> JobRun:
    """The steps of the called workflow with a shell each, `bash -e FILE`, until one fails; `always()` is no step of ours."""
    commits = _clone(origin, workspace, branch)
    document = yaml.safe_load((workspace / FILES["github"]).read_text())
    call = document.get("on", document.get(True))["workflow_call"]
    given = {"install": str(ROOT), "margin": MARGIN, "options": "--max-minutes 3"}
    values = {
        f"inputs.{name}": str(given.get(name, field.get("default", ""))) for name, field in call["inputs"].items()
    }
    values["github.event.pull_request.base.sha"] = commits["base"]
    runner = {"CI": "true", "GITHUB_ACTIONS": "true", "GITHUB_WORKSPACE": str(workspace), "GITHUB_SHA": commits["head"]}
    output = ""
    for number, step in enumerate(step for step in document["jobs"]["bench"]["steps"] if "run" in step):
        script = workspace.parent / f"step{number}.sh"
        script.write_text(step["run"])
        stated = {name: _evaluate(value, values) for name, value in step.get("env", {}).items()}
        code, said = _run_shell(("bash", "-e", str(script)), workspace, programs, runner | stated)
        output += said
        if code:
            return JobRun(code, output, workspace)
    return JobRun(0, output, workspace)


def _run_gitlab(origin: Path, workspace: Path, branch: str, programs: Path) -> JobRun:
    """The template's script in one shell, `set -eo pipefail`, with its variables and those of a merge request."""
    commits = _clone(origin, workspace, branch)
    job = yaml.safe_load((workspace / FILES["gitlab"]).read_text())[".ridgeline-bench"]
    runner = {"CI": "true", "GITLAB_CI": "true", "CI_PROJECT_DIR": str(workspace), "CI_COMMIT_SHA": commits["head"]}
    runner |= {"CI_PIPELINE_SOURCE": "merge_request_event", "CI_MERGE_REQUEST_DIFF_BASE_SHA": commits["base"]}
    stated = {**job["variables"], "INSTALL": str(ROOT), "MARGIN": MARGIN, "OPTIONS": "--max-minutes 3"}
    expanded = {
        name: re.sub(r"\$(\w+)", lambda match: runner.get(match[1], ""), str(value)) for name, value in stated.items()
    }
    script = "\n".join(("set -eo pipefail", "set +o noclobber", *job["script"]))
    code, said = _run_shell(("bash", "-c", script), workspace, programs, runner | expanded)
    return JobRun(code, said, workspace)


def _run_shell(words: Sequence[str], folder: Path, programs: Path, more: Mapping[str, str]) -> tuple[int, str]:
    """With nothing of this environment but what finds programs and packages."""
    environment = {name: os.environ[name] for name in PASSED if name in os.environ} | dict(more)
    environment["PATH"] = f"{programs}:{environment['PATH']}"
    done = subprocess.run(
        words, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return done.returncode, done.stdout
