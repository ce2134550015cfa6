"""Sum of two vectors."""


def reference(x, y):
    return x + y
