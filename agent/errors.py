"""What goes wrong at the edge and is told to the user in one line, never as a traceback."""

from collections.abc import Sequence

from ridgeline.graph.errors import RidgelineError


class UserError(RidgelineError):
    """Bad input. `message` is one line `<file>: <field>: <what is wrong>; <mend>`; exit code 2 unless stated."""

    def __init__(self, message: str, exit_code: int = 2) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class UserErrors(UserError):
    """Several problems of one input, told together, one line each, the most useful first."""

    def __init__(self, messages: Sequence[str]) -> None:
        super().__init__("\n".join(messages))
        self.messages = tuple(messages)


class Waiting(Exception):
    """The campaign needs an answer from outside before it can go on; `message` says which and how to give it."""

    exit_code = 3
