"""Programs that run before a worker and shut it in. Standard library only, and little of it: each start pays for it."""
