"""Deep rounds: the work tree, its tools, and who works in it."""
