"""`python -m ridgeline` is `ridgeline`, also in a clone where nothing is installed."""

from ridgeline.agent.__main__ import main

main()
