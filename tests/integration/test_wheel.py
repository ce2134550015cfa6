"""The wheel that is published: what it holds, and that it works beside foreign packages and folders of our names."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import textwrap
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST_BYTES = 2_300_000
"""2.22 MB on 2026-11-27 (`make wheels` says it): a third of it is `sandbox`. Research and campaigns would show."""
FOLDERS = {"agent", "evals", "graph", "knowledge", "prompts", "sandbox"}
FOREIGN = "raise RuntimeError('a foreign package was imported in place of our own')\n"

pytestmark = pytest.mark.slow


def run(*argv: object, cwd: Path, timeout_s: float = 300.0) -> subprocess.CompletedProcess[str]:
    """Without this checkout on any path; raises with what was printed when it fails."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    words = [str(word) for word in argv]
    done = subprocess.run(
        words, cwd=cwd, capture_output=True, text=True, timeout=timeout_s, env=environment, check=False
    )
    assert done.returncode == 0, f"{words}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of the files that git knows or would take, without a network."""
    copy, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).exists():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name, follow_symlinks=False)
    run(
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "-w",
        out,
        copy,
        cwd=out,
    )
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel and a package `evals`; the dependencies are those of this environment.

    PyPI's own `evals` pulls in gigabytes, so a package of its name stands in, which fails when it is imported.
    """
    home = tmp_path_factory.mktemp("fresh") / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", home, cwd=ROOT)
    packages = Path(
        run(
            home / "bin/python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=home
        ).stdout.strip()
    )
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    foreign = tmp_path_factory.mktemp("foreign")
    (foreign / "evals").mkdir()
    (foreign / "evals" / "__init__.py").write_text(FOREIGN)
    (foreign / "pyproject.toml").write_text(
        textwrap.dedent("""
            [build-system]
            requires = ["setuptools>=77"]
            build-backend = "setuptools.build_meta"
            [project]
            name = "evals"
            version = "3.0.1"
            [tool.setuptools]
            packages = ["evals"]
        """)
    )
    pip = (sys.executable, "-m", "pip", "--python", home / "bin/python", "install", "-q", "--no-deps", "--no-index")
    run(*pip, "--no-build-isolation", foreign, cwd=foreign)
    run(*pip, "--force-reinstall", wheel, cwd=home)
    return home / "bin/python"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A user's own project, with folders of our names in the working directory."""
    for name in FOLDERS:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(FOREIGN)
    return tmp_path


def test_the_wheel_holds_one_package_and_nothing_that_serves_research(wheel):
    with zipfile.ZipFile(wheel) as file:
        names = [name for name in file.namelist() if ".dist-info/" not in name]
    assert {name.split("/")[0] for name in names} == {"ridgeline"}
    assert {name.split("/")[1] for name in names} == {"__init__.py", "__main__.py", "py.typed", *FOLDERS, "api.py"}
    research = (
        "/research/",
        "/campaigns/",
        "/answers/",
        "/recorded_tasks/",
        "/proof/",
        "/tests/",
        "agent/workspace/",
        ".pyc",
    )
    assert [name for name in names if any(word in name for word in research)] == []
    assert "ridgeline/agent/skills/ridgeline/SKILL.md" in names
    assert wheel.stat().st_size < MOST_BYTES


def test_the_files_of_a_written_harness_are_in_the_wheel(wheel):
    folder = ROOT / "agent" / "scaffold" / "harness"
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
    listed = {path.name for path in folder.iterdir() if path.is_file()}
    assert {"harness.h", "Makefile", "harness.py", "device.h"} <= listed
    assert listed <= {name.rpartition("/")[2] for name in names if "/agent/scaffold/harness/" in name}


def test_what_a_checkout_links_to_is_in_the_wheel(wheel):
    """Every module of the folders, but for what the test above forbids, so that nothing is missing after an install."""
    with zipfile.ZipFile(wheel) as file:
        held = {name for name in file.namelist() if name.endswith(".py")}
    apart = (
        "evals/research/",
        "evals/campaigns/",
        "evals/answers/",
        "evals/recorded_tasks/",
        "evals/proof/",
        "agent/workspace/",
    )
    listed = run(
        "git", "ls-files", "--cached", "--others", "--exclude-standard", *FOLDERS, cwd=ROOT
    ).stdout.splitlines()
    wanted = {f"ridgeline/{n}" for n in listed if n.endswith(".py") and not n.startswith(apart) and (ROOT / n).exists()}
    assert wanted - held == set()


def test_the_package_is_imported_beside_foreign_ones(python, here):
    code = "import ridgeline, ridgeline.evals; print(ridgeline.__file__); print(ridgeline.compare, ridgeline.optimize)"
    said = run(python, "-c", code, cwd=here).stdout
    assert str(python.parents[1]) in said


def test_the_demo_runs_beside_foreign_packages_and_folders(python, here):
    quick = ("looks=1,2,3", "calibration_pairs=2", "blocks=2", "final_pairs=3")
    sets = [word for limit in quick for word in ("--set", limit)]
    done = run(
        python.with_name("ridgeline"), "demo", "--task", "layernorm_c", "--max-rounds", "1", *sets, "--json", cwd=here
    )
    answer = json.loads(done.stdout)
    assert answer["status"] == "concluded"
    assert Path(answer["dir"]).is_relative_to(here)
