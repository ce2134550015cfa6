"""What goes wrong at the edge and is told to the user in one line, never as a traceback."""

from collections.abc import Sequence
from typing import ClassVar

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


class EndRequest(KeyboardInterrupt):
    """SIGTERM or SIGHUP: what is under way ends as on Ctrl-C, with an exit code of its own."""

    signal_number: ClassVar[int] = 0
    """The last one that this process was sent; 0 while it was sent none."""


def is_interruption(error: BaseException) -> bool:
    """Whether somebody asked this process to end.

    An exception that a signal raises can come out as another: pydantic makes a `PydanticSerializationError` of one that is
    raised while it calls a function of ours.
    """
    if isinstance(error, KeyboardInterrupt) or EndRequest.signal_number:
        return True
    return type(error).__name__ == "PydanticSerializationError" and KeyboardInterrupt.__name__ in str(error)
