import os


def sum_reduce(x, out):
    """Parts in an order that nobody knows in advance, as atomics have it."""
    parts = [part.sum() for part in x.split(2048)]
    parts.sort(key=lambda part: os.urandom(2))
    out.zero_()
    for part in parts:
        out.add_(part)
