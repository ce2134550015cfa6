"""The machine's clock."""

from datetime import UTC, datetime


class SystemClock:
    """Port `Clock`: UTC, ISO-8601, milliseconds, for example `2026-10-22T09:30:00.125+00:00`."""

    def now(self, moment: str) -> str:
        """The present instant; `moment` is its name on a tape and does not change the answer."""
        return datetime.now(UTC).isoformat(timespec="milliseconds")
