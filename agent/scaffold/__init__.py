"""Folders to begin with: a contract, a task made of a PyTorch file, a rehearsal of both."""
