"""The architectures a kernel can be compiled for, by the names people use."""

from ridgeline.sandbox.profiles.isa.values import Target

AMD = ("gfx90a", "gfx942", "gfx950")
NVIDIA = ("sm_80", "sm_90", "sm_100")
ALIASES = {
    "sm80": "sm_80",
    "sm90": "sm_90",
    "sm90a": "sm_90",
    "sm_90a": "sm_90",
    "sm100": "sm_100",
    "sm_100a": "sm_100",
}
KNOWN = (*AMD, *NVIDIA)


class UnknownTarget(ValueError):
    """No architecture of that name; the text lists those that exist."""


def target_of(name: str) -> Target:
    """The target of that name, features after a colon left out. Raises `UnknownTarget`."""
    plain = name.strip().lower().partition(":")[0]
    arch = ALIASES.get(plain, plain)
    if arch in AMD:
        return Target(arch=arch, vendor="amd", wave=64)
    if arch in NVIDIA:
        return Target(arch=arch, vendor="nvidia", wave=32)
    raise UnknownTarget(f"unknown target {name!r}; one of {', '.join(KNOWN)}")
