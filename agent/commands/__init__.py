"""One file per group of commands; each has `register(app)` and imports what is slow only when it runs."""
