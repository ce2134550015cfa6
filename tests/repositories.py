"""Real git repositories with a small kernel in them."""

import hashlib
import subprocess
from pathlib import Path, PurePosixPath

from ridgeline.graph.ports import CandidateCommit
from ridgeline.graph.values import FileEdit
from ridgeline.sandbox.store.campaign_folder import ArtifactStore
from ridgeline.sandbox.workspace.worktree import GitWorkspace
from tests.builders import make_contract

FILES = {
    "ops/gemm/kernel.c": "int tile = 8;\n",
    "ops/gemm/kernel.flags": "-O2\n",
    "ops/gemm/bench.c": "the benchmark\n",
    "ops/gemm/tests/check.c": "the check\n",
    "README": "kernels\n",
}
FOLDER = "ops/gemm"
AT = "2026-11-21T10:00:00.125+00:00"
BRANCH = "optimize/c1"
CONTRACT = make_contract(kernel_source=("kernel.c",), flags_file="kernel.flags", protected=("tests/**",))


def git(root: Path, *words: str) -> str:
    """Output of a git command with an identity of its own and none of the machine's settings."""
    env = {"PATH": "/usr/bin:/bin:/usr/local/bin", "HOME": str(root), "GIT_CONFIG_GLOBAL": "/dev/null"}
    person = ("-c", "user.name=Person", "-c", "user.email=person@localhost")
    return subprocess.run(
        ("git", *person, *words), cwd=root, env=env, check=True, capture_output=True, text=True
    ).stdout.strip()


def make_repository(root: Path, files: dict[str, str] | None = None, *, object_format: str = "sha1") -> Path:
    """A repository with two commits on `main`, the files in the second."""
    root.mkdir(parents=True)
    git(root, "init", "-q", "-b", "main", f"--object-format={object_format}")
    git(root, "commit", "-q", "--allow-empty", "-m", "begin")
    for name, text in (files or FILES).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "kernels")
    return root


def fingerprint(root: Path) -> dict[str, str]:
    """Everything a user would miss if it changed: files outside .git, HEAD, index, settings, status, other branches."""
    found = {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file() and not {".git", "agent"} & set(path.relative_to(root).parts)
    }
    for name in ("HEAD", "index", "config"):
        found[f".git/{name}"] = hashlib.sha256((root / ".git" / name).read_bytes()).hexdigest()
    found["status"] = git(root, "--no-optional-locks", "status", "--porcelain")
    found["main"] = git(root, "rev-parse", "main")
    return found


def workspace(root: Path, campaign: Path | None = None, **fields) -> GitWorkspace:
    place = campaign or root / "agent/workspace/c1"
    contract = CONTRACT.model_copy(update=fields)
    return GitWorkspace(root, PurePosixPath(FOLDER), place, contract, ArtifactStore(place))


def applied(made: GitWorkspace, parent: str, text: str = "int tile = 16;\n", round: int = 2) -> CandidateCommit:
    done = made.apply(round=round, parent=parent, edits=(FileEdit(path="kernel.c", text=text),), at=AT)
    assert isinstance(done, CandidateCommit)
    return done


def accepted(made: GitWorkspace, parent: str, text: str = "int tile = 16;\n", round: int = 2) -> str:
    tree = applied(made, parent, text, round).tree
    return made.accept(parent=parent, tree=tree, message=f"[optimize] gemm C round-{round}: wider\n", at=AT)
