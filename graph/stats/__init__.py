"""Statistics of interleaved timings, one room for the loop, `bench`, the judge and research.

paired: pair means, pooling of batches, the fixed-size test. sequential: the estimate at each look, its bounds, and the
rule that decides by them. noise: what identical versions show, and when that no longer holds. intervals: quantiles.
Times are microseconds, effects are ln(t_best / t_candidate): positive is faster.
"""
