"""Recordings from the paths of a command line, with every problem told in one line."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from ridgeline.agent.errors import UserError
from ridgeline.agent.profiles.document import Judged, judged
from ridgeline.graph.kernel_profile import Recording
from ridgeline.graph.values import Named
from ridgeline.sandbox.profiles.readers.fault import RecordingError

NAMES_TOLD = 6
GBPS = {"GB/s": 1.0, "TB/s": 1e3}


def recordings(paths: Sequence[Path]) -> tuple[Recording, ...]:
    """Everything that the files and folders hold. Raises `UserError` for a path that is missing or cannot be read."""
    from ridgeline.sandbox.profiles.readers.detect import read

    found: list[Recording] = []
    for path in paths:
        if not path.exists():
            raise UserError(
                f"{path}: no such file or folder; give a recording of rocprofv3, ncu, rocprof-compute or torch"
            )
        try:
            found.extend(read(path))
        except RecordingError as error:
            raise UserError(str(error)) from error
    return tuple(found)


def kernels(found: Sequence[Recording], kernel: str | None, *, every: bool = False) -> tuple[Judged, ...]:
    """Profiles with their class, the target first. Raises `UserError` where `kernel` matches none or is no regex."""
    from ridgeline.sandbox.profiles.readers.profiles import PROFILES, profile

    try:
        profiles = profile(found, target=kernel, most=sys.maxsize if every else PROFILES, bandwidths=_bandwidths(found))
    except re.error as error:
        raise UserError(f"--kernel: {kernel!r} is no regular expression ({error}); escape its signs") from error
    if kernel is not None and not profiles:
        names = list(dict.fromkeys(one.display for recording in found for one in recording.kernels))
        told = ", ".join(names[:NAMES_TOLD]) + (
            f" and {len(names) - NAMES_TOLD} more" if len(names) > NAMES_TOLD else ""
        )
        raise UserError(f"--kernel: no kernel matches {kernel!r}; recorded are {told or 'none'}")
    return judged(profiles)


def _bandwidths(found: Sequence[Recording]) -> dict[str, Named]:
    """The stated memory bandwidth in GB/s of each device that the recordings name and the knowledge base knows."""
    from ridgeline.agent.roofline.stated import products

    known: dict[str, Named] = {}
    devices = {one.device for one in found if one.device and one.vendor == "amd"}
    library = products() if devices else None
    for device in devices:
        spec = library.spec(device, "hbm_bandwidth") if library is not None else None
        if spec is not None and spec.value is not None and spec.unit in GBPS:
            known[device] = Named(name=spec.place, value=spec.value * GBPS[spec.unit])
    return known
