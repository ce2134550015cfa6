"""Judges candidates of tasks: trusted code in a process of its own, which never runs, imports or unpickles theirs."""
