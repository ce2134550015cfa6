"""Rows of a table, by index."""


def reference(table, index):
    return table[index]
