"""Timing: a project's benchmark, two versions interleaved, and what disturbed them."""
