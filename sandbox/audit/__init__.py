"""Reads a candidate's source without running it and names the places where a benchmark could be fooled."""
