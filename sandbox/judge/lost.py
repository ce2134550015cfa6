"""Why a worker is no longer one: raised where it is noticed, a value by the time anybody else sees it."""

from typing import Literal

Reason = Literal["crash", "timeout", "protocol", "memory", "output", "load"]


class Lost(Exception):
    """The worker cannot go on, by its own doing. Never leaves the session, which makes a `Broken` of it."""

    def __init__(self, reason: Reason, detail: str) -> None:
        self.reason: Reason = reason
        self.detail = detail
        super().__init__(f"{reason}: {detail}")
