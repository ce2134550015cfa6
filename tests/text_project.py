"""A real project whose kernel is text: real commands and processes, milliseconds each, speed read from the source."""

from collections.abc import Mapping

import yaml

HEADER = "label,Check,GFLOPS,Time (ms)"
# without the site's packages Python starts in half the time
HARNESS = '''#!/usr/bin/env -S python3 -S
"""Test and benchmark of kernel.txt: its speed stands in it."""
import pathlib, random, re, sys

def speed(folder):
    return float(re.search(r"speed ([0-9.]+)", (pathlib.Path(folder) / "kernel.txt").read_text())[1])

if sys.argv[1] == "test":
    wrong = "wrong" in pathlib.Path("kernel.txt").read_text()
    print("MISMATCH: the kernel says so" if wrong else "PASS")
    sys.exit(wrong)
if sys.argv[1] == "bench":
    now = speed(".")
    rows = [f"{label},PASS,{now * scale},{1 / now / scale}" for label, scale in (("small", 1), ("large", 4))]
    pathlib.Path(sys.argv[2]).write_text("\\n".join(["label,Check,GFLOPS,Time (ms)", *rows]) + "\\n")
if sys.argv[1] == "pair":
    a, b, csv, shapes, blocks, seed = sys.argv[2:]
    draw, out = random.Random(int(seed)), ["label,block,slot,side,time_us"]
    for label in shapes.split(","):
        for block in range(int(blocks)):
            for slot, side in enumerate("abba"):
                time = 1000 / speed(a if side == "a" else b) * draw.gauss(1, 0.002)
                out.append(f"{label},{block},{slot},{side},{time}")
    pathlib.Path(csv).write_text("\\n".join(out) + "\\n")
'''


def files(kernel: str = "speed 100\n") -> Mapping[str, str]:
    """Every file of the project, ready for a repository."""
    contract = {
        "target_op": "text_f32",
        "target_backend": "C",
        "target_gpu": "cpu",
        "kernel_source": ["kernel.txt"],
        "protected": ["harness.py"],
        "test_command": "./harness.py test",
        "benchmark_command": "./harness.py bench {csv}",
        "quick_command": "./harness.py bench {csv} {shapes}",
        "paired_command": "./harness.py pair {a} {b} {csv} {shapes} {blocks} {seed}",
        "benchmark_output": {"columns": HEADER.split(",")},
        # its times are made up: how busy this machine is says nothing of them
        "scoring": {"primary_metric": "GFLOPS", "time_ms": "Time (ms)", "engine": "event"},
        "correctness": {"exit_patterns": ["MISMATCH"]},
        "execution_mode": "repo",
        "rebuild": {"required": False},
        "limits": {"target_peak_fraction": 1.0},
    }
    return {"ridgeline.yaml": yaml.safe_dump(contract, sort_keys=False), "kernel.txt": kernel, "harness.py": HARNESS}
