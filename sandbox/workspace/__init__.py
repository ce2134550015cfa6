"""Candidates as git commits, their checkouts, and the project's own commands run in them."""
