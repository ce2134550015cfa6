"""The wheels that a GPU machine without a network needs for campaigns by mailbox, tape or catalog.

`python -m tests.gpu_wheels [PYTHON]`, by `make wheels`: downloads them for CPython PYTHON (3.12) on x86-64 Linux into
dist/gpu, builds Ridgeline's own beside them and says what they weigh. Exit code 1 when that is too much.
"""

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ridgeline.agent.console import complain, note, say

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "dist" / "gpu"
MOST_BYTES = 15_000_000
"""56 files weigh 13.8 MB, the server of pages among them; the rest is room for newer versions."""
PYTHON = "3.12"
LINUX = ("2_28", "2_17", "2_12", "2_5")
"""glibc versions whose wheels run on a machine of glibc 2.28 or later."""
OLD_NAMES = ("manylinux2014", "manylinux2010", "manylinux1")
LEFT_OUT: Mapping[str, str] = {
    "aiosqlite": "checkpoints of asynchronous programs",
    "duckdb": "counters and API calls of rocprofv3; imported only where such a file is read",
    "httpcore": "connections, which nothing opens here",
    "httpcore2": "connections, which nothing opens here",
    "markdown-it-py": "Markdown on a terminal",
    "mcp": "a coding agent's protocol, with 5 MB of cryptography; the agent runs beside a person, not there",
    "matplotlib": "the pictures of --plot; imported only there",
    "numpy": "recorded traces of kernels; imported only there",
    "pygments": "colours of source code on a terminal",
    "sqlite-vec": "a store of vectors beside the checkpoints",
    "zstandard": "compression of uploads to LangSmith",
}
"""What our dependencies ask for and no campaign imports, with what alone it serves."""


def main() -> int:
    """Fetch, build, weigh; the process's exit code."""
    version = sys.argv[1] if len(sys.argv) > 1 else PYTHON
    if not re.fullmatch(r"3\.\d+", version):
        complain(f"{version!r} is no version of Python; write for example {PYTHON}")
        return 2
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    pins = pinned()
    fetch([f"{name}=={pins[name]}" for name in needed(version)], version)
    shutil.rmtree(ROOT / "build" / "lib", ignore_errors=True)  # else files deleted since the last build travel along
    pip("wheel", "--no-deps", "--wheel-dir", str(FOLDER), str(ROOT))
    return weigh(FOLDER)


def needed(version: str, left_out: Iterable[str] = tuple(LEFT_OUT)) -> list[str]:
    """Names of what the dependencies of pyproject.toml come to under that Python, without those left out.

    Follows the metadata of what is installed here, so it needs the environment that `make install` makes.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    platform = {"python_version": version, "python_full_version": f"{version}.0"}
    dropped, found = set(left_out), set[str]()
    waiting = [Requirement(text) for text in project["dependencies"]]
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        if name in dropped or name in found:
            continue
        found.add(name)
        for text in metadata.requires(name) or ():
            deeper = Requirement(text)
            marker = deeper.marker
            if marker is None or any(marker.evaluate({**platform, "extra": each}) for each in ("", *wanted.extras)):
                waiting.append(deeper)
    return sorted(found)


def pinned() -> dict[str, str]:
    """Version by name, of constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    return {canonicalize_name(name): version for name, _, version in (line.partition("==") for line in lines)}


def fetch(names: list[str], version: str) -> None:
    """Exactly these, as wheels for CPython `version`. Raises CalledProcessError where one does not exist."""
    platforms = [*(f"manylinux_{glibc}_x86_64" for glibc in LINUX), *(f"{old}_x86_64" for old in OLD_NAMES)]
    asked = [word for platform in platforms for word in ("--platform", platform)]
    only = ("--no-deps", "--only-binary=:all:", "--implementation", "cp", "--python-version", version)
    pip("download", *only, *asked, "--dest", str(FOLDER), *names)


def pip(*words: str) -> None:
    """Raises CalledProcessError when it fails."""
    subprocess.run((sys.executable, "-m", "pip", words[0], "-q", "--disable-pip-version-check", *words[1:]), check=True)


def weigh(folder: Path) -> int:
    """Say what each wheel weighs and all together; 1 when that is more than MOST_BYTES."""
    sizes = {path.name: path.stat().st_size for path in folder.glob("*.whl")}
    for name, size in sorted(sizes.items(), key=lambda item: -item[1]):
        note(f"{size / 1e6:7.3f} MB  {name}")
    total = sum(sizes.values())
    said = f"wheels: {len(sizes)} files, {total / 1e6:.1f} MB of at most {MOST_BYTES / 1e6:.0f} MB, in {folder}"
    if total > MOST_BYTES:
        complain(f"{said}; name what a campaign does not need in LEFT_OUT of {Path(__file__).name}")
        return 1
    say(f"{said}\nthere: python3 -m pip install --no-index --no-deps *.whl, then ridgeline run ... --model mailbox")
    return 0


if __name__ == "__main__":
    sys.exit(main())
