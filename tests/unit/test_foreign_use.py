"""Processor time of others, process by process: what our own killed workers used is not somebody else's."""

import os
import subprocess
import sys

from ridgeline.sandbox.timing.observation import ForeignUse

BURN = "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass\nprint('done', flush=True); input()"


def test_a_process_of_others_counts_and_one_of_ours_does_not():
    cores = frozenset(os.sched_getaffinity(0))
    everything, but_ours = ForeignUse(cores), ForeignUse(cores)
    everything.ticks(ours=())
    with subprocess.Popen((sys.executable, "-c", BURN), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as burning:
        but_ours.ticks(ours=(burning.pid,))
        assert burning.stdout.readline() == b"done\n"
        all_ticks, foreign_ticks = everything.ticks(ours=()), but_ours.ticks(ours=(burning.pid,))
        burning.kill()
        burning.wait()
    assert all_ticks >= 20, "0.3 s are 30 ticks"
    assert all_ticks - foreign_ticks >= 20
