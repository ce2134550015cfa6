"""What a compiler made of a kernel: compile it ahead of time, read its instructions, say what limits it. No GPU."""
