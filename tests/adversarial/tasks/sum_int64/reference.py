"""Sum of whole numbers, going round at the ends of its type."""


def reference(x):
    return x.sum(keepdims=True)
