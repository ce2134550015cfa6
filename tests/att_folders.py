"""Small thread traces in the viewer's layout, made up here: two waves of a kernel that loads, computes and stores."""

import json
from pathlib import Path

import pytest

SAMPLES = Path(__file__).resolve().parents[2] / "shared" / "samples"
"""A collection of recordings beside the checkout; what is read in it is read in place."""
HEADER = "ISA, _, LineNumber, Source, Codeobj, Vaddr, Hit, Latency, Stall, Idle"
KERNEL = "axpy(float*, float const*)"
ROWS = (
    # instruction, hits, latency, stall, idle: cycles summed over two waves
    ("s_load_dwordx2 s[0:1], s[4:5], 0x0", 2, 8, 0, 40),
    ("s_waitcnt lgkmcnt(0)", 2, 200, 200, 0),
    ("global_load_dwordx4 v[0:3], v4, s[0:1]", 2, 60, 52, 0),
    ("s_waitcnt vmcnt(0)", 2, 900, 900, 0),
    ("ds_write_b128 v4, v[0:3]", 2, 28, 20, 0),
    ("s_waitcnt lgkmcnt(0)", 2, 100, 100, 0),
    ("s_barrier", 2, 120, 120, 0),
    ("v_mfma_f32_32x32x8_f16 v[8:23], v[0:1], v[2:3], v[8:23]", 2, 48, 40, 0),
    ("s_nop 7", 2, 64, 64, 0),
    ("v_add_f32_e32 v0, v8, v9", 2, 24, 16, 0),
    ("s_nop 1", 2, 16, 16, 0),
    ("global_store_dword v4, v0, s[2:3]", 2, 40, 32, 0),
    ("s_waitcnt vmcnt(0) lgkmcnt(0)", 2, 80, 80, 0),
    ("s_endpgm", 2, 272, 0, 0),
)
CYCLES = 2000
"""Of both waves together: latency and idle of ROWS."""
WAITED = {2: (1,), 6: (5,), 13: (3, 3, 12, 5)}
"""Line of a wait -> lines of what it waited for, as a wave file lists them; line 0 is the label."""


def sample(*parts: str) -> Path:
    """A recording of the collection; the test is skipped where it is not beside the checkout."""
    path = SAMPLES.joinpath(*parts)
    if not path.exists():
        pytest.skip("the collection of recordings is not beside this checkout")
    return path


def make_trace(folder, *, rows=ROWS, waves=2, header=HEADER, waited=WAITED, lifetime=None, gfxip=9):
    """Writes a `ui_output_*` folder and returns it. `waited=None`: no wave files. `lifetime`: cycles of all waves."""
    folder.mkdir(parents=True)
    listed = [[f"; {KERNEL}", 0, 0, "", 1, 4096, 0, 0, 0, 0]]
    for line, (isa, *counts) in enumerate(rows, start=1):
        listed.append([isa, 0, line, f"axpy.hip:{line}", 1, 4096 + 8 * line, *counts])
    write(folder / "code.json", {"code": listed, "header": header, "version": "3.0.0"})
    each = (CYCLES if lifetime is None else lifetime) // waves
    named = {str(wave): [f"se0_sm{wave}_sl0_wv0.json", 1000, 1000 + each] for wave in range(waves)}
    write(
        folder / "filenames.json",
        {
            "gfxip": gfxip, "gfxv": "vega", "global_begin_time": 0, "version": "3.0.0", "counter_names": [],
            "wave_filenames": {"0": {wave: {"0": {"0": cells}} for wave, cells in named.items()}},
        },
    )  # fmt: skip
    events = [[1000, 1, 0, 0, 1, 1], [1000, 1, 1, 0, 1, 1], [1500, 1, 0, 0, 0, 1], [2000, 1, 1, 0, 0, 1]]
    write(folder / "occupancy.json", {"0": events, "dispatches": {"0": "0 / 0x0", "1": KERNEL}, "version": "3.0.0"})
    stamps = {"SE0": [[0, 5000], [42000, 7000]], "metadata": {"frequency": 100000000}}
    write(folder / "realtime.json", stamps)
    for file, begin, end in named.values() if waited is not None else ():
        waits = [[line, [[producer, 0] for producer in lines]] for line, lines in waited.items()]
        wave = {"begin": begin, "end": end, "instructions": [], "timeline": [], "waitcnt": waits}
        write(folder / file, {"num_insts": 14, "num_stitched": 14, "duration": each, "wave": wave})
    return folder


def write(path, value):
    path.write_text(json.dumps(value), encoding="utf-8")


def change(path, edit):
    """Applies `edit` to the parsed file and writes it back."""
    parsed = json.loads(path.read_text(encoding="utf-8"))
    edit(parsed)
    write(path, parsed)
