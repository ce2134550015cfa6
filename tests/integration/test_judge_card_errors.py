"""What a worker says of an error of the card's driver: its name, number and the driver's own words."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HARNESS = Path(__file__).resolve().parents[2] / "sandbox" / "harness"
CUDA = """
#define OK(name) int name() { return 0; }
OK(cuEventCreate) OK(cuEventRecord) OK(cuEventElapsedTime) OK(cuMemcpyAsync) OK(cuMemsetD32Async)
OK(cuMemHostRegister_v2) OK(cuMemHostUnregister) OK(cuGraphGetNodes) OK(cuGraphNodeGetType)
OK(cuCtxSetLimit) OK(cuCtxGetLimit) OK(cuCtxResetPersistingL2Cache)
int cuCtxSynchronize(void) { return 715; }
int cuGetErrorString(int code, const char **text) { *text = code == 715 ? "an illegal instruction was encountered" : 0; return 0; }
"""
HIP = """
#define OK(name) int name() { return 0; }
OK(hipEventCreateWithFlags) OK(hipEventRecord) OK(hipEventElapsedTime) OK(hipMemcpyAsync) OK(hipMemsetD32Async)
OK(hipHostRegister) OK(hipHostUnregister) OK(hipGraphGetNodes) OK(hipGraphNodeGetType)
int hipDeviceSynchronize(void) { return 715; }
const char *hipGetErrorString(int code) { return "an illegal instruction was encountered"; }
"""
SYNC = (
    "import sys; sys.path.insert(0, sys.argv[1]); import judge_card; judge_card.Driver(hip=sys.argv[2] == 'hip').sync()"
)


@pytest.mark.parametrize(
    ("kind", "library", "source", "function"),
    [("cuda", "libcuda.so.1", CUDA, "cuCtxSynchronize"), ("hip", "libamdhip64.so", HIP, "hipDeviceSynchronize")],
)
def test_an_error_of_the_driver_is_told_in_its_own_words(tmp_path, kind, library, source, function):
    (tmp_path / "driver.c").write_text(source)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(tmp_path / library), str(tmp_path / "driver.c")], check=True)
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    argv = [sys.executable, "-c", SYNC, str(HARNESS), kind]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    assert f"{function} failed with 715: an illegal instruction was encountered" in done.stderr
