"""Stand-ins for two projects of the design documents: their layout, commands and columns, with scripted measurements.

A kernel's speed and its faults stand in its source; nothing of the real projects is here, and no GPU is needed.
"""

from collections.abc import Mapping
from pathlib import Path

KERNEL = "primus_turbo/triton/gemm/gemm_fp8_kernel.py"
TEMPLATE = "agent/skills/primus-turbo-develop/optimize-handoff/quick_test_bench.py"
SENTENCE = "Please optimize the blockwise FP8 GEMM Triton implementation in Primus-Turbo, target GPU is MI300X."
SPEEDS = """
def times(m, n, k):
    from primus_turbo.triton.gemm.gemm_fp8_kernel import SPEED
    forward = 2 * m * n * k / (SPEED * 1e9)
    return forward, 2.2 * forward
"""
QUICK = '''"""Quick validation: the template of the hand-off; SHAPES are filled after the baseline."""
import argparse, csv, os, sys
os.environ.setdefault("PRIMUS_TURBO_GEMM_BACKEND", "<target_backend>")
if os.environ["PRIMUS_TURBO_GEMM_BACKEND"].startswith("<"):
    raise SystemExit("replace <target_backend>")
sys.path.insert(0, os.getcwd())
from primus_turbo.scripted import times
SHAPES = []
HEADER = ["label", "B", "M", "N", "K", "Check", "Forward TFLOPS", "Forward TFLOPS_stddev", "Backward TFLOPS",
          "Backward TFLOPS_stddev", "Forward Time (ms)", "Backward Time (ms)", "out_snr", "da_snr", "db_snr"]

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--iters-per-repeat", type=int, default=50)
    parser.add_argument("--summary-csv")
    words = parser.parse_args()
    with open(words.summary_csv, "w", newline="") as file:
        writer = csv.DictWriter(file, HEADER, lineterminator="\\n")
        writer.writeheader()
        for shape in SHAPES:
            m, n, k = shape["M"], shape["N"], shape["K"]
            fwd, bwd = times(m, n, k)
            flops = 2 * m * n * k * 1e-9
            writer.writerow({"label": shape["label"], "B": 1, "M": m, "N": n, "K": k, "Check": "PASS",
                "Forward TFLOPS": flops / fwd, "Forward TFLOPS_stddev": 0.5, "Backward TFLOPS": 2 * flops / bwd,
                "Backward TFLOPS_stddev": 0.5, "Forward Time (ms)": fwd, "Backward Time (ms)": bwd,
                "out_snr": 28.1, "da_snr": 27.5, "db_snr": 27.9})
    return 0

if __name__ == "__main__":
    sys.exit(main())
'''
BENCH = '''"""The project's benchmark over its models' shapes, two of which share one."""
import argparse, csv, os, sys
sys.path.insert(0, os.getcwd())
from primus_turbo.scripted import times
assert os.environ["PRIMUS_TURBO_GEMM_BACKEND"] == "TRITON"
parser = argparse.ArgumentParser()
parser.add_argument("--dtype", required=True)
parser.add_argument("--granularity", required=True)
parser.add_argument("--output", "-o", required=True)
words = parser.parse_args()
CASES = [("Llama-2-7B", 4096, 4096, 4096), ("Llama-2-7B", 4096, 12288, 4096), ("Llama-2-70B", 8192, 8192, 28672),
         ("Mistral-7B", 4096, 4096, 4096), ("Llama-3-8B", 8192, 4096, 14336)]
with open(words.output, "w", newline="") as file:
    writer = csv.writer(file, lineterminator="\\n")
    writer.writerow("TestID,Platform,GPU,Case,MBS,M,N,K,Dtype,Granularity,Check,Forward Time (ms),Forward TFLOPS,"
                    "Backward Time (ms),Backward TFLOPS".split(","))
    for number, (case, m, n, k) in enumerate(CASES, start=1):
        print(f"TestID: {number}, Case: {case}")
        fwd, bwd = times(m, n, k)
        flops = 2 * m * n * k * 1e-9
        writer.writerow([number, "ROCm", "MI300X", case, 1, m, n, k, words.dtype, words.granularity, "PASS",
                         f"{fwd:.4f}", f"{flops / fwd:.2f}", f"{bwd:.4f}", f"{2 * flops / bwd:.2f}"])
'''
TEST = """from primus_turbo.triton.gemm.gemm_fp8_kernel import RIGHT

def test_blockwise_TRITON():
    assert RIGHT, "SNR 3.1 dB is below 25 dB"
"""
FLYDSL_TEST = '''"""Tests and measures paged attention; writes pa_results.csv."""
import csv, re, sys
text = open("kernels/pa_decode.py").read()
if "crashes" in text:
    sys.exit("HIP error")
speed = float(re.search(r"SPEED = ([0-9.]+)", text)[1])
header = ["block_size", "mtp", "head_size", "err_flydsl_ps", "us_flydsl_ps"]
if "no error column" in text:
    header.remove("err_flydsl_ps")
if "no csv" not in text:
    with open("pa_results.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, header, extrasaction="ignore", lineterminator="\\n")
        writer.writeheader()
        for block_size, head_size, scale in ((16, 128, 1.0), (64, 128, 1.4)):
            writer.writerow({"block_size": block_size, "mtp": 0, "head_size": head_size,
                "err_flydsl_ps": 0.25 if "wrong" in text else 0, "us_flydsl_ps": scale * 1000 / speed})
'''


FLYDSL_CONTRACT = """
contract: 1
target_op: paged_attention
target_backend: FLYDSL
target_gpu: MI300X
kernel_source: kernels/pa_decode.py
protected: tests/**
test_command: &fixed python tests/kernels/test_pa.py
benchmark_command: *fixed
quick_command: *fixed
correctness: {kind: column, column: err_flydsl_ps, op: "==", threshold: 0}
project_output:
  file: pa_results.csv
  columns: [block_size, mtp, head_size, err_flydsl_ps, us_flydsl_ps]
  label: block_size{block_size}_mtp{mtp}_head_size{head_size}
  check: null
  time_us: us_flydsl_ps
benchmark_output:
  columns: [label, block_size, mtp, head_size, Check, err_flydsl_ps, us_flydsl_ps, Time (ms)]
scoring: {primary_metric: us_flydsl_ps, higher_is_better: false, time_ms: Time (ms)}
execution_mode: repo
rebuild: {required: false}
"""


def kernel(speed: float, *, right: bool = True) -> str:
    """Source of the GEMM kernel."""
    return f'"""Blockwise FP8 GEMM."""\n\nSPEED = {speed}\nRIGHT = {right}\n'


def primus_turbo(speed: float = 300) -> Mapping[str, str]:
    """Files of a checkout as the documents describe it."""
    return {
        KERNEL: kernel(speed),
        "primus_turbo/scripted.py": SPEEDS,
        "tests/pytorch/ops/test_gemm_fp8.py": TEST,
        "benchmark/ops/training/bench_gemm_turbo.py": BENCH,
        TEMPLATE: QUICK,
    }


def flydsl(text: str = "SPEED = 100\n") -> Mapping[str, str]:
    """Likewise, of the project with one fixed command."""
    return {"kernels/pa_decode.py": text, "tests/kernels/test_pa.py": FLYDSL_TEST}


def write_pytest(folder: Path, python: str) -> Path:
    """A `pytest` that runs the tests of the files it is given, in a tenth of the time, and a `python`; the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    script = (
        f"#!{python}\nimport pathlib, runpy, sys\nsys.path.insert(0, '.')\n"
        "files = [path for word in sys.argv[1:] if word.startswith('tests') for path in\n"
        "         ([pathlib.Path(word)] if word.endswith('.py') else sorted(pathlib.Path(word).rglob('test_*.py')))]\n"
        "for file in files:\n"
        "    for name, test in runpy.run_path(str(file)).items():\n"
        "        if name.startswith('test_'):\n            test()\n            print(f'{file}::{name} PASSED')\n"
    )
    (folder / "pytest").write_text(script)
    (folder / "pytest").chmod(0o755)
    (folder / "python").write_text(f'#!/bin/sh\nexec {python} -B "$@"\n')
    (folder / "python").chmod(0o755)
    return folder
