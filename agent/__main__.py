"""`python -m agent` is `ridgeline`, also in a clone where nothing is installed."""

from agent.cli import main

main()
