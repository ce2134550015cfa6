"""What tests tell the catalog planner: a briefing over given sources, and naive C kernels with a file of flags."""

from ridgeline.evals.task_folders import RECORDED
from ridgeline.graph.briefing import Briefing
from ridgeline.graph.record import RoundClosed
from ridgeline.graph.values import FileEdit
from tests.builders import make_contract, make_machine, make_target

AVX2 = ("sse2", "avx2", "fma")


def brief(sources: dict[str, str], *rounds: RoundClosed, lang: str = "C", **fields) -> Briefing:
    streak = 0
    for closed in rounds:
        streak = 0 if closed.accepted else streak + 1
    default = {
        "round": len(rounds) + 2,
        "target": make_target(target_op="matmul_f32", target_backend=lang, target_lang=lang),
        "contract": make_contract(flags_file="kernel.flags" if "kernel.flags" in sources else None),
        "machine": make_machine(features=AVX2),
        "specs": (),
        "sources": tuple(FileEdit(path=path, text=text) for path, text in sources.items()),
        "best_commit": "a" * 40,
        "best_round": 1,
        "aggregate": 1.0,
        "bottleneck": "memory",
        "bottleneck_evidence": "d1_misses per load 0.4",
        "profile": None,
        "rounds": rounds,
        "consecutive_rollbacks": streak,
    }
    return Briefing(**{**default, **fields})


def naive(task: str) -> dict[str, str]:
    return {name: (RECORDED / task / name).read_text(encoding="utf-8") for name in ("kernel.c", "kernel.flags")}
