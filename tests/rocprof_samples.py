"""Recorded profiler output beside the checkout, where it is; and small traces that tests write themselves."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

SAMPLES = Path(__file__).resolve().parents[2] / "shared" / "samples"
HEADER = (
    '"Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name","Correlation_Id",'
    '"Start_Timestamp","End_Timestamp","LDS_Block_Size","Scratch_Size","VGPR_Count","Accum_VGPR_Count","SGPR_Count",'
    '"Workgroup_Size_X","Workgroup_Size_Y","Workgroup_Size_Z","Grid_Size_X","Grid_Size_Y","Grid_Size_Z"\n'
)


def sample(*names: str) -> Path:
    """A recorded file; the test is skipped where the recordings are not beside the checkout."""
    path = SAMPLES.joinpath(*names)
    if not path.exists():
        pytest.skip("the recorded samples are not beside this checkout")
    return path


def golden(part: str) -> dict[str, Any]:
    """Numbers that a plain script took from the recorded files."""
    return json.loads(sample("GOLDEN.json").read_text())[part]


def row(name: str, start: object, end: object, *, agent: str = "Agent 1", queue: int = 1, launch: str = "") -> str:
    """One dispatch in the layout of ROCm 7."""
    tail = launch or "0,0,8,4,16,64,1,1,1024,1024,1"
    quoted = name.replace('"', '""')
    return f'"KERNEL_DISPATCH","{agent}",{queue},1,7,1,3,"{quoted}",1,{start},{end},{tail}\n'


def trace(path: Path, rows: Sequence[str], header: str = HEADER) -> Path:
    """A kernel trace of these rows."""
    path.write_text(header + "".join(rows), encoding="utf-8", newline="")
    return path
