"""The loop: nodes of setup, round and close, and in `build` their order and edges."""
