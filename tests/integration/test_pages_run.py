"""What the pages of docs/ show is run as it stands there: files are written, commands are typed, where their tools exist."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

from ridgeline.sandbox.timing.interleaving import Problem, read_slots

DOCS = Path(__file__).parents[2] / "docs"
PART = re.compile(r"^<!-- (file|needs) ([^\n]+) -->\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BUSY = "the machine did not stay the same"


class Part(NamedTuple):
    """A file to write, or commands to type in a section of a page."""

    section: str
    kind: str
    words: str
    text: str


def parts(page: str) -> Iterator[Part]:
    text = (DOCS / page).read_text(encoding="utf-8")
    for match in PART.finditer(text):
        headings = re.findall(r"^## (.+)$", text[: match.start()], re.MULTILINE)
        yield Part(headings[-1], *match.groups())


def missing(tools: str) -> list[str]:
    """Those of the tools that this machine has not."""
    return [tool for tool in tools.split() if not has(tool)]


def has(tool: str) -> bool:
    if tool == "gpu":
        return bool(shutil.which("nvidia-smi") or shutil.which("rocm-smi"))
    return find_spec(tool) is not None if tool in ("torch", "triton") else shutil.which(tool) is not None


def sections() -> list[str]:
    return list(dict.fromkeys(part.section for part in parts("functions.md")))


def type_in(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """One command line as a reader types it, the `ridgeline` of this environment."""
    programs = str(Path(sys.executable).parent)
    environment = {"PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin", "HOME": str(folder),
                   "GIT_CONFIG_NOSYSTEM": "1", "RIDGELINE_QUIET_S": "0",
                   "RIDGELINE_LOOKS": "1,2,3", "RIDGELINE_BLOCKS": "2", "RIDGELINE_CALIBRATION_PAIRS": "4", "RIDGELINE_FINAL_PAIRS": "3",
                   "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@localhost", "GIT_COMMITTER_NAME": "a",
                   "GIT_COMMITTER_EMAIL": "a@localhost"}  # fmt: skip
    return subprocess.run(
        ("bash", "-c", line), cwd=folder, env=environment, capture_output=True, text=True, timeout=400, check=False
    )


def test_each_kind_of_function_has_its_section_with_a_file_and_commands():
    by_section = {
        section: [part.kind for part in parts("functions.md") if part.section == section] for section in sections()
    }
    assert list(by_section) == [
        "A function of a C library",
        "A Python function",
        "A PyTorch function",
        "A Triton kernel",
        "A CUDA kernel of an extension",
    ]
    assert all({"file", "needs"} <= set(kinds) for kinds in by_section.values())


@pytest.mark.slow
@pytest.mark.parametrize("section", sections())
def test_the_commands_of_a_section_do_what_it_says(section, make_repository):
    mine = [part for part in parts("functions.md") if part.section == section]
    root = make_repository({part.words: part.text for part in mine if part.kind == "file"})
    typed = [part for part in mine if part.kind == "needs" and not missing(part.words)]
    if not typed:
        pytest.skip(f"needs {', '.join(missing(next(part.words for part in mine if part.kind == 'needs')))}")
    said = ""
    for part in typed:
        for line in part.text.splitlines():
            done = type_in(line, root)
            if BUSY in done.stderr:
                pytest.skip("other tests took the processor: what was said until then was right")
            assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
            said += done.stdout
            assert "alpha is 96, as a caller has it" in said or section != "A function of a C library"


@pytest.mark.parametrize(
    ("file", "needs", "sources"),
    [
        (
            "pair.c",
            "gcc",
            {"dot.c": "float dot(const float *x, const float *y, int n)"
             "{ float s = 0; for (int i = 0; i < n; i++) s += x[i] * y[i]; return s; }"},
        ),
        ("pair.py", "python3", {"total.py": "def total(row):\n    return sum(row)\n"}),
        ("pair_triton.py", "torch triton gpu", {"scale.py": "def scale(x):\n    return x * 2\n"}),
    ],
)  # fmt: skip
def test_the_smallest_paired_program_writes_what_is_read(file, needs, sources, tmp_path):
    text = next(part.text for part in parts("contract.md") if part.words == file)
    (tmp_path / file).write_text(text)
    if file.endswith(".py"):
        compile(text, file, "exec")
    if missing(needs):
        pytest.skip(f"needs {', '.join(missing(needs))}")
    for side in ("old", "new"):
        (tmp_path / side).mkdir()
        for name, source in sources.items():
            (tmp_path / side / name).write_text(source)
            if name.endswith(".c"):
                library = f"gcc -O2 -shared -fPIC {side}/{name} -o {side}/libdot.so"
                made = type_in(f"{library} && gcc -O2 -Wall pair.c -o pair -ldl -lm", tmp_path)
                assert made.returncode == 0, made.stderr
    labels = re.findall(r'"(short|long|small|large)"', text)
    program = "./pair" if file == "pair.c" else f"{sys.executable} {file}"
    done = type_in(f"{program} old new out.csv {','.join(labels)} 3 7", tmp_path)
    assert done.returncode == 0, done.stderr
    slots = read_slots((tmp_path / "out.csv").read_bytes(), a="best", requested=labels, blocks=3)
    assert not isinstance(slots, Problem), slots
    assert len(slots) == 2 * 3 * 4
    wrong = next(iter(sources))
    source = (tmp_path / "new" / wrong).read_text()
    (tmp_path / "new" / wrong).write_text(source.replace("s = 0", "s = 9").replace("sum(row)", "sum(row) + 1"))
    if wrong.endswith(".c"):
        type_in("gcc -O2 -shared -fPIC new/dot.c -o new/libdot.so", tmp_path)
    assert type_in(f"{program} old new out.csv {labels[0]} 1 7", tmp_path).returncode == 1, (
        "a wrong answer is not timed"
    )
