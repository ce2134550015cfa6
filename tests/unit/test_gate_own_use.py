"""A card that this process, or what it started, uses or has just used, is not another's."""

import os
import subprocess
import sys

import pytest

from ridgeline.sandbox.devices import tools
from ridgeline.sandbox.devices.idle import decide, without_own_use
from ridgeline.sandbox.devices.values import MIB, CardSample, GateSettings, GpuProcess

HELD = 600 * MIB
BUSY = CardSample(
    vendor="nvidia",
    index="0",
    utilization_pct=87,
    memory_used_bytes=HELD + 4 * MIB,
    memory_total_bytes=81_559 * MIB,
    power_w=310,
    power_limit_w=700,
    processes=(GpuProcess(pid=41, name="python3", bytes=HELD),),
)


@pytest.mark.parametrize(
    ("own", "after", "sample", "state"),
    [
        ((41,), True, BUSY, "idle"),
        ((41,), False, BUSY, "busy"),  # its meters tell of a use that nobody vouches for
        ((), True, BUSY, "busy"),
        ((40,), True, BUSY, "busy"),
        ((41,), True, BUSY.model_copy(update={"memory_used_bytes": 9 * HELD}), "busy"),
        ((41,), True, BUSY.model_copy(update={"processes": None}), "busy"),  # not told: the meters stand
        ((41,), True, BUSY.model_copy(update={"vendor": "amd"}), "busy"),
    ],
)
def test_only_our_own_use_is_left_out(own, after, sample, state):
    changed = without_own_use(sample, own, after=after)
    assert decide((changed,), settings=GateSettings()).state == state


def test_processes_that_we_started_and_those_that_they_started_are_ours():
    code = (
        "import subprocess, sys; child = subprocess.Popen(['sleep', '60']); print(child.pid, flush=True);"
        "sys.stdin.read(); child.kill()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        grandchild = int(process.stdout.readline())
        names = (f"python3 ({grandchild})", f"/usr/bin/my python ({os.getppid()})", "[Not Found] (1)", "odd")
        assert tools.list_others(names) == names[1:]
        assert tools.list_others(None) is None
        process.stdin.close()
