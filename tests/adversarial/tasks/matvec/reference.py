"""Matrix times vector."""


def reference(a, x):
    return a @ x
