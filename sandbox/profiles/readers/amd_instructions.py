"""Sorts AMD instructions into kinds, and kinds into the stall classes of a profile, in gfx9 and gfx12 spelling."""

import re
from functools import lru_cache

from ridgeline.graph.kernel_profile import Stall

_WAITS = {
    "s_wait_loadcnt": "wait_vm",
    "s_wait_storecnt": "wait_vm",
    "s_wait_samplecnt": "wait_vm",
    "s_wait_bvhcnt": "wait_vm",
    "s_wait_asynccnt": "wait_vm",
    "s_wait_tensorcnt": "wait_vm",
    "s_waitcnt_vscnt": "wait_vm",
    "s_waitcnt_vmcnt": "wait_vm",
    "s_waitcnt_lgkmcnt": "wait_lgkm",
    "s_waitcnt_expcnt": "wait_exp",
    "s_waitcnt_depctr": "wait_alu",
    "s_wait_alu": "wait_alu",
    "s_wait_dscnt": "wait_ds",
    "s_wait_kmcnt": "wait_km",
    "s_wait_expcnt": "wait_exp",
    "s_wait_loadcnt_dscnt": "wait_vm+lgkm",
    "s_wait_storecnt_dscnt": "wait_vm+lgkm",
    "s_delay_alu": "wait_alu",
}
_SCALAR = (
    (re.compile(r"s_barrier"), "barrier"),
    (re.compile(r"s_endpgm"), "endpgm"),
    (re.compile(r"s_nop$"), "nop"),
    (re.compile(r"s_sleep"), "sleep"),
    (re.compile(r"s_(branch|cbranch|setpc|swappc|call)"), "branch"),
    (
        re.compile(r"s_(load|store|buffer|scratch|atomic|dcache|gl1|prefetch|memtime|memrealtime|atc_probe)"),
        "smem",
    ),
    (re.compile(r"s_wait"), "wait_other"),
    (re.compile(r"s_(sendmsg|trap|sethalt|icache|ttrace)"), "other"),
)
_VECTOR = (
    (re.compile(r"v_(mfma|smfmac|wmma|swmmac)"), "mfma"),
    (re.compile(r"v_"), "valu"),
    (re.compile(r"ds_(read|load)"), "lds_read"),
    (re.compile(r"ds_(write|store)"), "lds_write"),
    (re.compile(r"(ds|lds)_"), "lds_other"),
    (re.compile(r"(global|buffer)_load_(async_to_)?lds_|tensor_load_to_lds"), "vmem_lds_dma"),
    (re.compile(r"(t?buffer|global|flat|scratch|image|tensor)_(load|sample|gather)"), "vmem_load"),
    (re.compile(r"(t?buffer|global|flat|scratch|image|tensor)_store"), "vmem_store"),
    (re.compile(r"(t?buffer|global|flat|scratch|image)_atomic"), "vmem_atomic"),
    (re.compile(r"(t?buffer|global|flat|scratch|image)_"), "vmem_other"),
)
_STALLS: dict[str, Stall] = {
    "wait_vm": "mem_wait",
    "wait_lgkm": "lgkm_wait",
    "wait_ds": "lds_wait",
    "wait_km": "smem_wait",
    "wait_vm+lgkm": "mixed_wait",
    "wait_exp": "other",
    "wait_alu": "dependency",
    "wait_other": "unknown_wait",
    "barrier": "barrier",
    "sleep": "sleep",
    "nop": "nop",
    "branch": "branch",
    "endpgm": "tail",
    "mfma": "matrix",
    "valu": "valu",
    "salu": "salu",
    "smem": "salu",
    "lds_read": "lds_issue",
    "lds_write": "lds_issue",
    "lds_other": "lds_issue",
    "vmem_lds_dma": "mem_issue",
    "vmem_load": "mem_issue",
    "vmem_atomic": "mem_issue",
    "vmem_other": "mem_issue",
    "vmem_store": "store",
    "other": "other",
}


@lru_cache(maxsize=65536)
def kind(isa: str) -> str:
    """The kind of one instruction by its mnemonic and operands; `other` for one that is not known."""
    mnemonic, _, operands = isa.strip().partition(" ")
    if mnemonic == "s_waitcnt":
        return _waitcnt(operands)
    if mnemonic in _WAITS:
        return _WAITS[mnemonic]
    if mnemonic.startswith("s_"):
        return next((name for pattern, name in _SCALAR if pattern.match(mnemonic)), "salu")
    found = next((name for pattern, name in _VECTOR if pattern.match(mnemonic)), "other")
    # gfx9 spells a load that goes to LDS directly as a modifier, not as another mnemonic
    return "vmem_lds_dma" if found == "vmem_load" and re.search(r"\blds\b", operands) else found


def stall(name: str) -> Stall:
    """The class that stall cycles of this kind belong to; cycles of `mem_wait` are waits for data of device memory."""
    return _STALLS[name]


def _waitcnt(operands: str) -> str:
    vector, scalar = "vmcnt" in operands, "lgkmcnt" in operands
    if vector and scalar:
        return "wait_vm+lgkm"
    if vector or scalar:
        return "wait_vm" if vector else "wait_lgkm"
    # a bare number waits for every counter at once
    return "wait_exp" if "expcnt" in operands else "wait_vm+lgkm"
