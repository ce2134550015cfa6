"""Many campaigns on many machines: which begins next and where it fits, on Ray."""
