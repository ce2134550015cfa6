"""A process of ours that outlives its starter: `ridgeline resume` on behalf of a page, and nothing of a project."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ridgeline.graph.errors import ProgramMissing


def launch(argv: Sequence[str], *, cwd: Path, log: Path, without: Sequence[str] = ()) -> "subprocess.Popen[bytes]":
    """Start it in a session of its own, with this process's environment and both outputs at the end of `log`.

    It is this program again, so it is told what this process was told, but for the variables named in `without`.
    Signals for the starter's terminal do not reach it. Raises ProgramMissing where it cannot be started, and OSError
    where the log cannot be written.
    """
    environment = {name: value for name, value in os.environ.items() if name not in without}
    with log.open("ab") as out:
        try:
            return subprocess.Popen(
                tuple(argv),
                cwd=cwd,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise ProgramMissing(argv[0], why=f"cannot be started ({error.strerror})") from None
