"""ncu's details page of versions up to 2021.2, whose section of speeds of light has other names."""

import pytest

from ridgeline.sandbox.profiles.readers.detect import read_recordings
from ridgeline.sandbox.profiles.readers.profiles import profile

TITLES = (
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Context", "Stream", "Section Name",
    "Metric Name", "Metric Unit", "Metric Value",
)  # fmt: skip
OF_2019 = (("SOL FB", "46.47"), ("SOL L2", "13.61"), ("SOL TEX", "11.33"))
OF_2020 = (("SOL DRAM", "46.47"), ("SOL L2 Cache", "13.61"), ("SOL L1/TEX Cache", "11.33"))


@pytest.mark.parametrize("speeds", [OF_2019, OF_2020])
def test_the_shares_and_the_time_of_older_versions(tmp_path, speeds):
    rows = [("GPU Speed Of Light", name, "%", value) for name, value in speeds]
    rows += [
        ("GPU Speed Of Light", "Memory [%]", "%", "46.47"),
        ("GPU Speed Of Light", "SM [%]", "%", "22.48"),
        ("GPU Speed Of Light", "Duration", "nsecond", "8992"),
        ("Launch Statistics", "Registers Per Thread", "register/thread", "20"),
    ]
    who = ("0", "1", "app", "127.0.0.1", "flux(int)", "2020-May-29 12:02:46", "1", "7")
    lines = [TITLES, *((*who, *row) for row in rows)]
    path = tmp_path / "old.csv"
    path.write_text("".join(",".join(f'"{cell}"' for cell in line) + "\n" for line in lines))
    (one,) = read_recordings(path)
    assert one.kernels[0].median_ns == 8992
    (seen,) = profile((one,))
    shares = {name: seen.number(name) for name in ("mem.pct_of_peak", "sol.l2", "sol.l1", "sol.memory", "sol.compute")}
    assert shares == pytest.approx(
        {"mem.pct_of_peak": 0.4647, "sol.l2": 0.1361, "sol.l1": 0.1133, "sol.memory": 0.4647, "sol.compute": 0.2248}
    )
    assert seen.number("regs.total_per_thread") == 20
