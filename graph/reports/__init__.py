"""Every human-readable file, rendered from the ledger; none is ever read back."""
