"""Where this user keeps what can be made again at any time."""

import os
from pathlib import Path


def cache_folder(part: str) -> Path | None:
    """Folder `part` of `$RIDGELINE_CACHE`, else of `ridgeline` in `$XDG_CACHE_HOME` or `~/.cache`.

    None for a user without a home.
    """
    if own := os.environ.get("RIDGELINE_CACHE"):
        return Path(own) / part
    shared = os.environ.get("XDG_CACHE_HOME", "")
    try:
        root = Path(shared) if Path(shared).is_absolute() else Path.home() / ".cache"
    except RuntimeError:  # neither HOME nor an entry in the user database
        return None
    return root / "ridgeline" / part
