"""Which kind of device a contract's kernel runs on."""

import re
from typing import Literal

from ridgeline.graph.contract import Backend, Contract

Kind = Literal["cpu", "nvidia", "amd"]

OF_BACKEND: dict[Backend, Kind] = {
    "C": "cpu",
    "CUDA": "nvidia",
    "CUTEDSL": "nvidia",
    "TRITON": "nvidia",
    "CK": "amd",
    "HIPBLASLT": "amd",
    "TURBO": "amd",
    "FLYDSL": "amd",
    "HIP": "amd",
}
"""Where the contract names no device. Triton runs on both; the vendor it was made for first is tried."""
AMD = re.compile(r"^(gfx|mi\d|radeon|amd|instinct)", re.IGNORECASE)


def device_kind(contract: Contract) -> Kind:
    """From `target_gpu` (a product, an architecture or `cpu`), else from the backend."""
    named = contract.target_gpu
    if named is None:
        return OF_BACKEND[contract.target_backend]
    if named.lower() == "cpu":
        return "cpu"
    return "amd" if AMD.match(named) else "nvidia"
