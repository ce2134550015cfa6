"""Stand-ins for profilers that a whole campaign calls: each looks at the kernel before it and replays its recording.

A text kernel plays the GPU kernel. The word after `replay` in it names the recording, so that a candidate's own words
decide what the profiler sees of it: `speed 130 replay spilled` gets the recordings called `spilled`.
"""

from collections.abc import Mapping
from pathlib import Path

import yaml

from tests import text_project
from tests.standins_profilers import NCU, ROCPROFV3

WHICH = 'name=$(sed -n "s/.*replay \\([a-z]*\\).*/\\1/p" kernel.txt); name=${name:-plain}\n'
FORBIDDEN = """#!/bin/sh
# A stand-in for ncu where the driver lets nobody read counters.
echo "ncu $*" >> HERE/calls
while [ $# -gt 0 ]; do case "$1" in --log-file) out=$2;; --) break;; esac; shift; done
echo "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters" > "$out"
exit 1
"""
HANGS = """#!/bin/sh
# A stand-in for ncu that never ends.
echo "ncu $*" >> HERE/calls
exec sleep 600
"""
PROFILED = """
if sys.argv[1] == "profile":
    print("kernel_time_us=%s" % (1000 / speed(".")))
    print("calls=3")
"""


def _ncu() -> str:
    """The stand-in of `standins_profilers`, with the recording chosen by the kernel."""
    head, rest = NCU.split("n=$(cat", 1)
    return head + WHICH + 'cp "HERE/$name.csv" "$out"\n' if rest else NCU


def _rocprofv3() -> str:
    text = ROCPROFV3.replace("mode=timing; given=0\n", WHICH + "mode=timing; given=0\n")
    return text.replace("HERE/trace.csv", '"HERE/$name-trace.csv"').replace(
        "HERE/counted.csv", '"HERE/$name-counted.csv"'
    )


SCRIPTS = {"ncu": _ncu(), "rocprofv3": _rocprofv3(), "ncu-forbidden": FORBIDDEN, "ncu-hangs": HANGS}


def install(folder: Path, script: str, recordings: Mapping[str, str]) -> Path:
    """Write the stand-in and what it replays (file name -> text); the file in which it notes how it was called."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in recordings.items():
        (folder / name).write_text(text, encoding="utf-8")
    tool = folder / script.partition("-")[0]
    tool.write_text(SCRIPTS[script].replace("HERE", str(folder)))
    tool.chmod(0o755)
    return folder / "calls"


def project(gpu: str, *, kernel: str = "speed 100\n", **changes: object) -> dict[str, str]:
    """The text project as if it ran on a GPU, with a profile command; `changes` are fields of its contract."""
    made = dict(text_project.files(kernel))
    contract = yaml.safe_load(made["ridgeline.yaml"])
    contract |= {
        "target_backend": "TRITON",
        "target_gpu": gpu,
        "profile": {"command": "./harness.py profile", "kernel": "my_kernel"},
        **changes,
    }
    made["ridgeline.yaml"] = yaml.safe_dump(contract)
    made["harness.py"] += PROFILED
    return made
