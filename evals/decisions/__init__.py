"""Recorded decision points: what was asked of a model, what it said, and what was known later."""
