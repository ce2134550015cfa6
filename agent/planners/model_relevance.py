"""Whether a text of the knowledge is about another machine, number format or operator than the campaign's."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from ridgeline.graph.briefing import Briefing
from ridgeline.knowledge.search import Hit
from ridgeline.knowledge.vocabulary import operators

FORMATS = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "fp4", "int8", "int4")
OF_GPUS = "/ops/"
"""In the path of documents that speak of GPUs."""
OF_C, SHIPPED = "/backends/c/", "knowledge/"
"""In paths of documents written for processors, and of those that ship. A team's own about C is shown as it is."""
_FOLDER = re.compile(r"/ops/([^/]+)/")


def _op(told: Briefing) -> str:
    return f"{told.target.target_op} {told.contract.description}".lower()


def _low_precision(told: Briefing) -> bool:
    return bool(re.search(r"(?:fp|int)[48]\b|e\dm\d|mx|w4", told.target.dtype.lower())) or "quant" in _op(told)


def _on_amd(told: Briefing) -> bool:
    return told.machine.kind == "amd"


def _on_nvidia(told: Briefing) -> bool:
    return told.machine.kind == "nvidia"


def _on_gpu(told: Briefing) -> bool:
    return told.machine.kind != "cpu"


def _grouped(told: Briefing) -> bool:
    return bool(re.search(r"group|moe|expert|batch", _op(told)))


def _product(told: Briefing) -> bool:
    return bool(re.search(r"gemm|matmul|product|linear|conv|attention|attn|mla|moe", _op(told)))


def _flat(told: Briefing) -> bool:
    return not re.search(r"\brows?\b|\baxis\b|\bdim\b|column", _op(told))


FOREIGN: tuple[tuple[re.Pattern[str], Callable[[Briefing], bool]], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), ours)
    for pattern, ours in (
        (r"\b(?:CDNA\d?|gfx\d\w+|MI\d{3}\w?|MFMA|XCDs?|AGPRs?|wave64)\b", _on_amd),
        (r"\b(?:PTX|wgmma|TMA|SM\d{2,3}|sm_\d+|CUTLASS|cuBLAS|Hopper|Blackwell)\b", _on_nvidia),
        (
            r"\b(?:GPUs?|CUDA|HIP|Triton|warps?|wave(?:s|fronts?)|LDS|HBM\w*|SMs?|CUs?|tensor cores?|multiprocessors?"
            r"|occupancy|shared memory|thread ?blocks?|coalesc\w*|num_(?:warps|stages)|kernel launch(?:es)?)\b",
            _on_gpu,
        ),
        (r"\bgrouped (?:product|gemm|matmul)|\ball groups\b|\bgroups? by K\b|gemm-(?:persistent|sort)-group", _grouped),
        (
            r"\b(?:block|packed|per-group)[ -]scal|\bFP8\b|\bFP4\b|\bMXFP\d|\bE8M0|\bW4A16\b|quanti[sz]|\bUE8M0",
            _low_precision,
        ),
        (r"\boperand tiles?\b|\btiles? of the (?:operands?|product)\b", _product),
        (r"look-?back|\bone-dimensional scan|\bCUB\b", _flat),
    )
)
"""What a text speaks of, and whether a campaign has to do with it."""


def alien(text: str, told: Briefing) -> bool:
    """Whether the text as a whole is about something else: it names it, whatever else it says."""
    return any(pattern.search(text) and not ours(told) for pattern, ours in FOREIGN)


def relevant(hit: Hit, told: Briefing) -> Hit | None:
    """The section without lines about something else; None when its place or heading is, or little is left of it."""
    if OF_C in hit.path and not hit.path.startswith(SHIPPED) and not _on_gpu(told):
        return hit
    folder = _FOLDER.search(hit.path)
    if alien(hit.heading, told) or (folder and folder[1] not in operators(told.target.target_op)):
        return None
    lines = hit.excerpt.splitlines()
    kept = [line for line in lines if not alien(line, told)]
    if not any(line.strip() and line.strip() != "[...]" for line in kept) or 2 * len(kept) < len(lines):
        return None
    return replace(hit, excerpt="\n".join(kept))


def for_machine(hits: Sequence[Hit], told: Briefing) -> tuple[Hit, ...]:
    """What a search found, as it may be shown: to a processor's campaign nothing that teaches GPUs."""
    if _on_gpu(told):
        return tuple(hits)
    said = (relevant(hit, told) for hit in hits if OF_GPUS not in hit.path)
    return tuple(hit for hit in said if hit is not None)


def of_other_dtype(metric: str, dtype: str) -> bool:
    """Whether a hardware number is the peak of another number format, such as `fp32_vector` for a bf16 kernel."""
    first = metric.lower().replace("-", "_").split("_")[0]
    return first in FORMATS and first != dtype.lower()
