"""The command line: one module per subject, each with `register(app)`; what is slow is imported when a command runs."""
