"""What to look at next, by class, sub-class and flag of a kernel: one sentence each, none of them a promise."""

from ridgeline.graph.kernel_profile import Bound

BY_CLASS: dict[Bound, str] = {
    "invalid": "record again: no conclusion can rest on what is there",
    "not_compute": "look outside the kernel: copies, fills or communication take the time",
    "launch_bound": "count the launches: a graph capture, a fused or a persistent kernel removes them",
    "under_filled": "give the GPU more blocks: smaller tiles, a split along the reduction, several problems per launch",
    "memory_bound": "move fewer bytes: reuse in registers or shared memory, fusion with the neighbour, narrower types",
    "compute_bound": "do less arithmetic or take a faster instruction: check the type, the shape and the issue slots",
    "balanced": "memory and arithmetic are both near their peak: only less work, or a better algorithm, helps",
    "latency_bound": "nothing is busy: find the wait with the largest share and overlap it",
    "resource_bound": "registers run out: a smaller tile, fewer live values, or another number of warps",
    "mixed": "no rule answers on what was recorded: counters first, then a trace of what the waves wait for",
}
BY_SUBCLASS = {
    "hbm": "compare the bytes with what the algorithm must move: the excess is what can be saved",
    "l2": "the second-level cache carries the traffic: larger tiles, or an order of blocks that shares rows",
    "l1": "the first-level cache or shared memory carries the traffic: wider accesses, fewer conflicts, registers",
    "fabric": "much is served beside the memory: order the blocks by die, and check what is remote",
    "matrix": "keep the matrix pipe fed: operands ready one step ahead, larger instruction shapes",
    "vector": "look at the instruction mix: conversions, index arithmetic and predicates that can leave the loop",
    "sfu": "exponentials and divisions fill their pipe: exp2 with a folded factor, or a polynomial",
    "global_latency": "ask for global data earlier: deeper prefetch, asynchronous copies, more bytes in flight",
    "memory_pipe": "fewer and wider memory instructions: 16 bytes per lane, no scalar stores",
    "shared": "change the layout in shared memory: padding or swizzle, wider reads, fewer round trips",
    "barrier": "waves wait for each other: fewer barriers, even work per wave, split or named barriers",
    "dependency": "independent work between dependent instructions: more accumulators, unrolling, interleaving",
    "scalar_load": "arguments and descriptors arrive late: load them once, early, or keep them in registers",
    "scalar_or_shared": "shared memory and scalar loads are not told apart: record a trace with its wave files",
    "tail": "waves drain at their end: stores earlier, or a persistent kernel",
    "host": "the queue stands empty: synchronisation and Python between the launches come first",
    "spills": "remove the spills first: every other number suffers from their traffic",
}
BY_FLAG = {
    "low_occupancy": "few waves and they wait: fewer registers or less shared memory would let more hide it",
    "bank_conflicts": "shared-memory accesses collide in their banks: padding or swizzle",
    "matrix_unused": "a matrix product without matrix instructions: check the types and the layout that they need",
    "uncoalesced": "lanes of one access touch too many sectors: neighbouring lanes, neighbouring addresses",
    "suspicious_bytes": "memory looks busy and nobody waits for it: check the byte counters before believing them",
    "suspicious_waits": "arithmetic looks busy and most time is waiting: check the clock and the counters",
    "name_variant_mix": "one name, several launches: look at one shape alone",
    "few_calls": "record more calls, three at least",
    "memory_unknown": "record the bytes: waits on memory look the same whether it is full or only far away",
    "compute_unknown": "record how busy the matrix and vector pipes are",
}


def advice(bound: Bound, subclass: str, flags: tuple[str, ...]) -> tuple[str, ...]:
    """Sentences in the order in which they help, most specific first; spills come before everything."""
    words = [BY_SUBCLASS["spills"]] if "spills" in flags else []
    words += [BY_SUBCLASS[subclass]] if subclass in BY_SUBCLASS else []
    words += [BY_CLASS[bound], *(BY_FLAG[flag] for flag in flags if flag in BY_FLAG)]
    return tuple(dict.fromkeys(words))
