"""The version of Ridgeline that runs, from the installed distribution."""

from importlib.metadata import version

VERSION = version("ridgeline")
