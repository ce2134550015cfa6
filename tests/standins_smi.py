"""Stand-ins for the vendors' tools: scripts that replay recorded answers, and a `Tools` that does so in memory."""

from collections.abc import Sequence
from pathlib import Path

from ridgeline.sandbox.devices.tools import parse
from ridgeline.sandbox.devices.values import ToolAnswer, Vendor

UUID = "GPU-0000000{0}-0000-0000-0000-000000000000"
CARDS_HEADER = (
    "index, uuid, pci.bus_id, name, utilization.gpu [%], utilization.memory [%], memory.used [MiB], "
    "memory.total [MiB], power.draw [W], power.limit [W], clocks.current.sm [MHz], compute_mode, mig.mode.current"
)
APPS_HEADER = "gpu_uuid, pid, process_name, used_gpu_memory [MiB]"
NVIDIA = """#!/bin/sh
# A stand-in for nvidia-smi: replays HERE/moment-<n>, the next one at each question for cards, then its last for ever.
case "$*" in
  *compute_cap*) echo 'NVIDIA H100 80GB HBM3, 9.0, 550.54.15, 81559';;
  *"-i "*compute-apps*) :;;
  *compute-apps*) cat HERE/apps;;
  *-lms*) sleep 60;;
  *"-i "*) exit 2;;
  *)
    n=$(cat HERE/count); next=$((n + 1)); [ -e "HERE/moment-$next" ] && echo "$next" > HERE/count
    cat "HERE/moment-$n";;
esac
"""
ROCM = """#!/bin/sh
# A stand-in for rocm-smi: replays HERE/moment-<n>, the next one at each call, then its last for ever.
case "$*" in
  *showdriverversion*) cat HERE/product; exit;;
esac
n=$(cat HERE/count); next=$((n + 1)); [ -e "HERE/moment-$next" ] && echo "$next" > HERE/count
cat "HERE/moment-$n"
"""
PRODUCT = '{"card0": {"Card Series": "AMD Instinct MI300X", "GFX Version": "gfx942"}, "system": {}}'


def h100(
    index: int = 0, *, use: str = "0 %", used: str = "0 MiB", watts: str = "71.00 W", mig: str = "Disabled"
) -> str:
    """One line of nvidia-smi for an H100; at rest unless told otherwise."""
    words = (
        f"{index}",
        UUID.format(index),
        f"00000000:{index + 6:02X}:00.0",
        "NVIDIA H100 80GB HBM3",
        use,
        "0 %",
        used,
        "81559 MiB",
        watts,
        "700.00 W",
        "1980 MHz",
        "Default",
        mig,
    )
    return ", ".join(words)


def cards(*lines: str) -> str:
    """A whole answer about cards."""
    return "\n".join((CARDS_HEADER, *lines)) + "\n"


def apps(*lines: str) -> str:
    """A whole answer about processes."""
    return "\n".join((APPS_HEADER, *lines)) + "\n"


def stand_in(folder: Path, tool: str, moments: Sequence[str], *, apps_text: str = APPS_HEADER + "\n") -> Path:
    """Write the script and its recordings; the folder to put on PATH."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, text in enumerate(moments):
        (folder / f"moment-{number}").write_text(text)
    (folder / "count").write_text("0")
    (folder / "apps").write_text(apps_text)
    (folder / "product").write_text(PRODUCT)
    script = folder / tool
    script.write_text((NVIDIA if tool == "nvidia-smi" else ROCM).replace("HERE", str(folder)))
    script.chmod(0o755)
    return folder


class ReplayedTools:
    """`Tools` that answer from texts, one per moment, the last for ever; an empty text is a tool that failed."""

    def __init__(self, *moments: str, vendor: Vendor = "nvidia") -> None:
        self.vendor: Vendor = vendor
        self.asked = 0
        self._moments = moments

    def moment(self) -> tuple[ToolAnswer, ...]:
        text = self._moments[min(self.asked, len(self._moments) - 1)]
        self.asked += 1
        return parse(text, "recorded") if text else ()
