"""Stand-ins for ncu, nsys and rocprofv3: scripts that replay recordings and note how they were called."""

from pathlib import Path

NCU = """#!/bin/sh
# A stand-in for ncu: copies HERE/ncu-<n>.csv, the next one at each call, to the log file it is given.
echo "ncu $*" >> HERE/calls
while [ $# -gt 0 ]; do case "$1" in --log-file) out=$2;; --) break;; esac; shift; done
n=$(cat HERE/count); next=$((n + 1)); [ -e "HERE/ncu-$next.csv" ] && echo "$next" > HERE/count
cp "HERE/ncu-$n.csv" "$out"
"""
NSYS = """#!/bin/sh
# A stand-in for nsys: `profile` leaves a report, `export` copies HERE/run.sqlite.
echo "nsys $*" >> HERE/calls
what=$1
while [ $# -gt 0 ]; do case "$1" in --output) out=$2; break;; esac; shift; done
[ $what = profile ] && echo report > "$out"
[ $what = export ] && cp HERE/run.sqlite "$out"
exit 0
"""
ROCPROFV3 = """#!/bin/sh
# A stand-in for rocprofv3: replays a kernel trace; refuses passes of more than two counters; traces no threads.
echo "rocprofv3 $*" >> HERE/calls
case "$1" in -L) cat HERE/counters; exit;; esac
mode=timing; given=0
while [ $# -gt 0 ]; do
  case "$1" in --pmc) mode=pmc; given=0;; --kernel-include-regex) [ $mode = pmc ] && counters=$given;;
    -d) out=$2;; --att) mode=att;; --) break;; esac
  given=$((given + 1)); shift
done
[ $mode = att ] && { echo 'rocprof-trace-decoder library path not found'; exit 1; }
[ $mode = timing ] && { cp HERE/trace.csv "$out/run_kernel_trace.csv"; exit 0; }
[ "$counters" -gt 3 ] && { echo 'could not fit the counters in one pass'; exit 1; }
cp HERE/counted.csv "$out/pass_counter_collection.csv"
"""
TRACE = (
    '"Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name","Correlation_Id",'
    '"Start_Timestamp","End_Timestamp","LDS_Block_Size","Scratch_Size","VGPR_Count","Accum_VGPR_Count","SGPR_Count",'
    '"Workgroup_Size_X","Workgroup_Size_Y","Workgroup_Size_Z","Grid_Size_X","Grid_Size_Y","Grid_Size_Z"\n'
)


def trace(*calls: tuple[str, int, int], vgpr: int = 64) -> str:
    """A kernel trace of (name, start, end) in nanoseconds: blocks of 256 work-items, 1024 of them."""
    shape = f"0,0,{vgpr},0,32,256,1,1,262144,1,1"
    rows = (
        f'"KERNEL_DISPATCH","Agent 1",1,1,7,{number},1,"{name}",{number},{start},{end},{shape}'
        for number, (name, start, end) in enumerate(calls, start=1)
    )
    return TRACE + "\n".join(rows) + "\n"


def counted(kernel: str, **counters: float) -> str:
    """A counter_collection.csv of one dispatch."""
    head = (
        '"Correlation_Id","Dispatch_Id","Agent_Id","Queue_Id","Process_Id","Thread_Id","Grid_Size","Kernel_Id","Kernel_Name",'
        '"Workgroup_Size","LDS_Block_Size","Scratch_Size","VGPR_Count","Accum_VGPR_Count","SGPR_Count","Counter_Name",'
        '"Counter_Value","Start_Timestamp","End_Timestamp"\n'
    )
    rows = (
        f'1,1,"Agent 1",1,7,7,262144,1,"{kernel}",256,0,0,64,0,32,"{name}",{value},1000,101000'
        for name, value in counters.items()
    )
    return head + "\n".join(rows) + "\n"


def install(folder: Path, tool: str, script: str, files: dict[str, str]) -> Path:
    """Write the script and what it replays; the file in which it notes its calls."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "count").write_text("0")
    (folder / tool).write_text(script.replace("HERE", str(folder)))
    (folder / tool).chmod(0o755)
    return folder / "calls"
