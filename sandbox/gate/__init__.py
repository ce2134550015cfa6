"""The GPU gate: which card is idle by the agreement of several signals, and a lease on it while a command runs."""
