"""Recorded measurements under other rules: what each would have kept and claimed, and what was truly gained."""
