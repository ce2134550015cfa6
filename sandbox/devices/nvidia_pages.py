"""The other things people record of nvidia-smi: its plain table, and `-q -x`. Pure."""

import re
from xml.etree import ElementTree

from ridgeline.sandbox.devices.quantity import amount, memory, pci, percent, text, whole
from ridgeline.sandbox.devices.values import CardSample, GpuProcess, Listed, Told, Unreadable

FIRST = re.compile(r"^\|\s*(\d+)\s+(.+?)\s+(?:On|Off|N/A)?\s*\|\s*([0-9A-Fa-f:.]+)\s")
SECOND = re.compile(r"(\S+)\s*/\s*(\S+)\s*\|\s*(\S+)\s*/\s*(\S+)\s*\|\s*(\S+)\s+(\S+)")
PROCESS = re.compile(r"^\|\s+(\d+)\s+(?:\S+\s+\S+\s+)?(\d+)\s+([CGM+]+)\s+(.+?)\s+(\S+)\s*\|\s*$")
"""GPU, GI and CI of MIG (not in old versions), process id, kind, name, memory."""
NONE = "No running processes found"


def read_table(said: str, source: str) -> tuple[Told, ...]:
    """The table that plain `nvidia-smi` prints. Raises Unreadable where a card's second line is missing."""
    lines = said.splitlines()
    cards, listed = [], []
    listing = any("Processes:" in line for line in lines)
    for number, line in enumerate(lines):
        if (first := FIRST.match(line)) and ":" in first[3]:
            cards.append(_row(first, lines[number + 1 : number + 3], source, number + 1))
        elif (found := PROCESS.match(line)) and "C" in found[3]:
            held = GpuProcess(pid=int(found[2]), name=found[4], bytes=memory(found[5]))
            listed.append(Listed(owner=found[1], process=held))
    if not cards:
        raise Unreadable(source, line=1, why="no card in nvidia-smi's table")
    processes = tuple(listed) if listing and (listed or NONE in said) else None
    return (Told(source=source, vendor="nvidia", cards=tuple(cards), processes=processes),)


def _row(first: re.Match[str], below: list[str], source: str, number: int) -> CardSample:
    second = SECOND.search(below[0]) if below else None
    if second is None:
        raise Unreadable(source, line=number + 1, why="the table is cut off within a card")
    mig = next((word for line in below[1:] for word in ("Enabled", "Disabled") if word in line), None)
    return CardSample(
        vendor="nvidia",
        tool="nvidia-smi",
        index=first[1],
        pci=pci(first[3]),
        name=first[2],
        power_w=amount(second[1]),
        power_limit_w=amount(second[2]),
        memory_used_bytes=memory(second[3]),
        memory_total_bytes=memory(second[4]),
        utilization_pct=percent(second[5]),
        compute_mode=second[6],
        mig=None if mig is None else mig == "Enabled",
    )


def read_xml(said: str, source: str) -> tuple[Told, ...]:
    """`nvidia-smi -q -x`. Raises Unreadable for XML that is broken or tells of no card."""
    try:
        root = ElementTree.fromstring(said)
    except ElementTree.ParseError as error:
        raise Unreadable(source, line=error.position[0], why="the XML is cut off or broken") from None
    cards = [_page(gpu, str(place)) for place, gpu in enumerate(root.iter("gpu"))]
    if not cards:
        raise Unreadable(source, line=1, why="no card in nvidia-smi's XML")
    listed = [one for place, gpu in enumerate(root.iter("gpu")) for one in _processes(gpu, str(place))]
    told = any(gpu.find("processes") is not None for gpu in root.iter("gpu"))
    return (Told(source=source, vendor="nvidia", cards=tuple(cards), processes=tuple(listed) if told else None),)


def _page(gpu: ElementTree.Element, index: str) -> CardSample:
    mig = text(gpu.findtext("mig_mode/current_mig"))
    draws = ("instant_power_draw", "power_draw", "average_power_draw")
    limits = ("current_power_limit", "power_limit", "enforced_power_limit")
    return CardSample(
        vendor="nvidia",
        tool="nvidia-smi",
        index=index,
        uuid=text(gpu.findtext("uuid")),
        pci=pci(gpu.get("id")),
        name=text(gpu.findtext("product_name")),
        utilization_pct=percent(gpu.findtext("utilization/gpu_util")),
        memory_activity_pct=percent(gpu.findtext("utilization/memory_util")),
        memory_used_bytes=memory(gpu.findtext("fb_memory_usage/used")),
        memory_total_bytes=memory(gpu.findtext("fb_memory_usage/total")),
        power_w=_power(gpu, draws),
        power_limit_w=_power(gpu, limits),
        clock_mhz=amount(gpu.findtext("clocks/sm_clock")),
        mig=None if mig is None else mig == "Enabled",
        compute_mode=text(gpu.findtext("compute_mode")),
    )


def _power(gpu: ElementTree.Element, names: tuple[str, ...]) -> float | None:
    """The group was renamed with driver 535."""
    groups = [group for name in ("gpu_power_readings", "power_readings") if (group := gpu.find(name)) is not None]
    values = (amount(group.findtext(name)) for group in groups for name in names)
    return next((value for value in values if value is not None), None)


def _processes(gpu: ElementTree.Element, index: str) -> list[Listed]:
    found = []
    for entry in gpu.iterfind("processes/process_info"):
        if "C" in (entry.findtext("type") or "C"):
            name, held = text(entry.findtext("process_name")) or "", memory(entry.findtext("used_memory"))
            found.append(
                Listed(owner=index, process=GpuProcess(pid=whole(entry.findtext("pid")), name=name, bytes=held))
            )
    return found
