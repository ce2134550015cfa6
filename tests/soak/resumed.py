"""`start` and `resume` of `tests.drive`, told as the command line tells them: a line and an exit code, else a traceback."""

import sys

from ridgeline.graph.errors import RidgelineError
from tests.drive import main

if __name__ == "__main__":
    try:
        main()
    except RidgelineError as error:
        sys.stderr.write(f"ridgeline: {error}\n")
        sys.exit(error.exit_code)
