"""Where the command begins: nothing is imported before an interruption is told of in a line."""

import gc
import sys


def main() -> None:
    """Entry point; ends the process with the documented exit code. Ctrl-C while Python still imports is one too."""
    # modules stay for good: to look for garbage among them is a seventh of every start
    gc.set_threshold(100_000, 20, 20)
    try:
        from ridgeline.agent.cli.application import main as run_command

        run_command()
    except KeyboardInterrupt:
        sys.stderr.write("ridgeline: interrupted before anything began\n")  # the console is not there yet
        sys.exit(130)


if __name__ == "__main__":
    main()
