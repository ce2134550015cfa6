"""Small recordings made up here: PC samples, and workloads of rocprof-compute for a copy kernel."""

import csv
import json
import sqlite3

REASON = "ROCPROFILER_PC_SAMPLING_INSTRUCTION_NOT_ISSUED_REASON_"
KERNEL = "copy(double*, double const*)"
SYSINFO = {
    "workload_name": "copy", "version": "3", "gpu_model": "MI300X_A1", "gpu_arch": "gfx942", "cu_per_gpu": "304",
    "simd_per_cu": "4", "wave_size": "64", "max_waves_per_cu": "32", "max_sclk": "2100", "max_mclk": "1300",
    "num_xcd": "8", "num_hbm_channels": "128",
}  # fmt: skip
LAUNCH = {
    "GPU_ID": 2, "Grid_Size": 65536, "Workgroup_Size": 256, "LDS_Per_Workgroup": 512, "Scratch_Per_Workitem": 0,
    "Arch_VGPR": 12, "Accum_VGPR": 4, "SGPR": 16, "Kernel_Name": KERNEL,
}  # fmt: skip
TIMES = ((10_000, 14_000), (20_000, 23_000), (30_000, 32_000))
COUNTERS = (
    {"SQ_WAVES": 1024, "TCC_HIT_sum": 10, "TCC_MISS[0]": 3, "TCC_MISS[1]": 4, "SQ_LEVEL_WAVES": 0, "SQ_INSTS_LDS": 0},
    {"SQ_WAVES": 1024, "TCC_HIT_sum": 20, "TCC_MISS[0]": 5, "TCC_MISS[1]": 6, "SQ_LEVEL_WAVES": 0, "SQ_INSTS_LDS": 0},
    {"SQ_WAVES": 1024, "TCC_HIT_sum": 60, "TCC_MISS[0]": 0, "TCC_MISS[1]": 0, "SQ_LEVEL_WAVES": 0, "SQ_INSTS_LDS": 0},
)
MEANS = {"SQ_WAVES": 1024, "TCC_HIT_sum": 30, "TCC_MISS_sum": 6, "SQ_INSTS_LDS": 0}
"""Channels folded, and a 0 left out only where it means that nothing was collected."""


def make_workload(folder, *, form="wide", counters=COUNTERS, times=TIMES, launch=LAUNCH, sysinfo=SYSINFO):
    """Writes a workload folder with three dispatches and returns it; the long form has two passes of each."""
    folder.mkdir(parents=True)
    rows = []
    for number, (told, (start, end)) in enumerate(zip(counters, times, strict=True)):
        dispatch = {"Dispatch_ID": number, **launch}
        if form == "wide":
            rows.append({**dispatch, **told, "SQ_WAVES_1": 7, "Start_Timestamp": start, "End_Timestamp": end})
        for at, (name, value) in enumerate(told.items() if form == "long" else ()):
            late = {"Start_Timestamp": start + 5000 * (at % 2), "End_Timestamp": end + 5000 * (at % 2)}
            rows.append({**dispatch, **late, "Counter_Name": name, "Counter_Value": float(value)})
    write_table(folder / "pmc_perf.csv", rows)
    if sysinfo:
        write_table(folder / "sysinfo.csv", [sysinfo])
    return folder


def write_table(path, rows):
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def make_samples(path, *, stochastic, rows=None):
    """Writes a CSV of PC samples: (instruction, reason or ISSUED, how many, waves)."""
    default = (
        ("s_waitcnt vmcnt(0)", "WAITCNT", 4, 4),
        ("s_waitcnt lgkmcnt(0)", "WAITCNT", 1, 4),
        ("v_add_f32_e32 v0, v1, v2", "ISSUED", 2, 8),
        ("s_barrier", "BARRIER_WAIT", 1, 4),
        ("global_load_dword v0, v[1:2], off", "ARBITER_WIN_EX_STALL", 1, 4),
        ("v_mul_f32_e32 v0, v1, v2", "ALU_DEPENDENCY", 1, 4),
    )
    header = ["Sample_Timestamp", "Exec_Mask", "Dispatch_Id", "Instruction", "Instruction_Comment", "Correlation_Id"]
    more = ["Wave_Issued_Instruction", "Instruction_Type", "Stall_Reason", "Wave_Count"]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC)
        writer.writerow(header + (more if stochastic else []))
        time = 1000
        for isa, reason, count, waves in default if rows is None else rows:
            for number in range(count):
                time += 10
                issued = int(reason == "ISSUED")
                why = REASON + ("NONE" if issued else reason)
                told = [issued, "ROCPROFILER_PC_SAMPLING_INSTRUCTION_TYPE_VALU", why, waves] if stochastic else []
                writer.writerow([time, 2**64 - 1 if number % 2 else 255, 1 + number % 2, isa, "a.hip:3", 7, *told])
    return path


def make_database(path, *, metrics=(("Wavefront", "Wavefront Launch Stats", "VGPRs", "Registers", "Avg", 16.0),)):
    """Writes a database as `rocprof-compute analyze` does, with two dispatches of 1,000 and 3,000 ns."""
    base = sqlite3.connect(path)
    base.executescript(
        """CREATE TABLE compute_workload (workload_id INTEGER, name VARCHAR, sys_info_extdata JSON);
        CREATE TABLE compute_metadata (id INTEGER, compute_version VARCHAR, git_version VARCHAR,
            schema_version VARCHAR);
        CREATE TABLE compute_metric_definition (metric_uuid INTEGER, name VARCHAR, table_name VARCHAR,
            sub_table_name VARCHAR, unit VARCHAR);
        CREATE TABLE compute_kernel (kernel_uuid INTEGER, workload_id INTEGER, kernel_name VARCHAR);
        CREATE TABLE compute_dispatch (dispatch_uuid INTEGER, kernel_uuid INTEGER, dispatch_id INTEGER,
            start_timestamp INTEGER, end_timestamp INTEGER);
        CREATE TABLE compute_kernel_metric_value (metric_uuid INTEGER, kernel_uuid INTEGER, value_name VARCHAR,
            value FLOAT);
        INSERT INTO compute_metadata VALUES (1, '3.5.0', 'df2ff30051', '1.3.0');"""
    )
    base.execute("INSERT INTO compute_workload VALUES (1, 'copy', ?)", (json.dumps(SYSINFO),))
    base.execute("INSERT INTO compute_kernel VALUES (1, 1, ?)", (KERNEL,))
    base.executemany("INSERT INTO compute_dispatch VALUES (?, 1, ?, ?, ?)", [(1, 0, 1000, 2000), (2, 1, 5000, 8000)])
    for number, (table, part, name, unit, kind, value) in enumerate(metrics):
        base.execute("INSERT INTO compute_metric_definition VALUES (?, ?, ?, ?, ?)", (number, name, table, part, unit))
        base.execute("INSERT INTO compute_kernel_metric_value VALUES (?, 1, ?, ?)", (number, kind, value))
    base.commit()
    base.close()
    return path
