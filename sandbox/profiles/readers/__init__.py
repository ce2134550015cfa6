"""Reads what profilers wrote, in every layout of theirs, into `ridgeline.graph.kernel_profile.Recording`. Starts no process."""
