"""Is B faster than A: any two commands, commits or checkouts, with a known error rate."""
