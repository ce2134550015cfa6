"""Index of the first largest element of each row."""


def reference(x):
    return x.argmax(axis=-1)
