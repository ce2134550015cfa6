"""SQLite exports of Nsight Systems as `nsys export` lays them out, every number chosen by the test."""

import sqlite3
from contextlib import closing

SCHEMA = """
create table StringIds (id integer primary key, value text);
create table META_DATA_EXPORT (name text, value text);
create table TARGET_INFO_GPU (id integer, name text, smCount integer, computeMajor integer, computeMinor integer);
create table CUPTI_ACTIVITY_KIND_KERNEL (start integer, end integer, deviceId integer, streamId integer,
    demangledName integer, shortName integer, registersPerThread integer, gridX integer, gridY integer, gridZ integer,
    blockX integer, blockY integer, blockZ integer, staticSharedMemory integer, dynamicSharedMemory integer,
    localMemoryPerThread integer);
create table CUPTI_ACTIVITY_KIND_MEMCPY (start integer, end integer, deviceId integer, streamId integer,
    bytes integer, copyKind integer);
insert into StringIds values (2, 'tile');
insert into TARGET_INFO_GPU values (0, 'NVIDIA H100 80GB HBM3', 132, 9, 0);
"""


def database(path, *, calls=9, name="void tile<float>(float*, int)"):
    """Writes one with `calls` launches of 10 us with 2 us between them, and a copy behind them."""
    with closing(sqlite3.connect(path)) as base:
        base.executescript(SCHEMA)
        base.execute("insert into StringIds values (1, ?)", (name,))
        for at in range(calls):
            row = (12_000 * at, 12_000 * at + 10_000, 0, 7, 1, 2, 64, 264, 1, 1, 256, 1, 1, 1024, 15_360, 8)
            base.execute(f"insert into CUPTI_ACTIVITY_KIND_KERNEL values ({', '.join('?' * len(row))})", row)
        if calls:
            base.execute("insert into CUPTI_ACTIVITY_KIND_MEMCPY values (200000, 203000, 0, 7, 4096, 1)")
        base.commit()
    return path
