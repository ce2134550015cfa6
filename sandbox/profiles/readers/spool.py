"""Columns of the CSV into which databases and JSON are copied, so that one engine sums all sources alike."""

from collections.abc import Mapping

from ridgeline.sandbox.profiles.readers.csv_head import Head
from ridgeline.sandbox.profiles.readers.dispatches import LAUNCH, Key, Symbol

DISPATCH = ("Kernel_Name", "Start_Timestamp", "End_Timestamp")
"""Of a dispatch; the name is everything else of it, packed."""
PACKED = ("kernel", "agent", "queue", "lds", "scratch", "wg_x", "wg_y", "wg_z", "grid_x", "grid_y", "grid_z")
"""What a packed dispatch holds, with blanks between: numbers, or names without blanks."""
COUNTER = ("Agent_Id", "Kernel_Name", "Counter_Name", "Counter_Value", "Start_Timestamp", "End_Timestamp", "Grid_Size")
"""Of one counter of one dispatch, summed over hardware instances."""


def head(columns: tuple[str, ...]) -> Head:
    """What the engine must know of a spooled file."""
    return Head(columns, ",", packed=False)


def unpacked(text: str, symbols: Mapping[str, Symbol], run: str = "") -> Key:
    """The kernel, queue and launch of a packed dispatch; registers are the symbol's. `run`: before all ids."""
    told = dict(zip(PACKED, text.split(" "), strict=True))
    kernel, agent = (f"{run}:{told[name]}" if run else told[name] for name in ("kernel", "agent"))
    symbol = symbols.get(kernel) or unknown(kernel)
    known = {"vgpr": symbol.vgpr, "accum": symbol.accum, "sgpr": symbol.sgpr}
    launch = tuple(known[name] if name in known else _whole(told[name]) for name in LAUNCH)
    return Key(agent, told["queue"], symbol.name, launch)


def unknown(kernel: str) -> Symbol:
    """What stands for a kernel whose symbol the source lost: its number."""
    return Symbol(f"kernel {kernel}", None, None, None)


def _whole(text: str) -> int | None:
    return int(text) if text.isdecimal() else None
