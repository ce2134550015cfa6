"""How a command of an agent's shell reaches the campaign that started the agent: by files in the agent's tree.

The campaign holds its own lease and the device, so the command cannot open it. An agent's own sandbox lets it write in
its tree; a socket it often may not open.
"""

import json
import secrets
import time
from pathlib import Path

from ridgeline.agent.errors import UserError
from ridgeline.agent.providers.base import DESK
from ridgeline.sandbox.store.durable import write_whole

DESK_FOLDER, OPEN_MARK = ".ridgeline", "open"
"""Where commands are left in the tree, and the file that is there as long as they are answered."""
REQUEST, ANSWER = ".request", ".answer"
"""How the names of a command's two files end: a JSON list of words, and a JSON text."""
POLL_S = 0.1
"""Between two looks for a command, or for its answer."""


def send(desk: Path, words: list[str]) -> str:
    """Sends a command of the deep round's worker to the campaign that listens; its answer. Raises UserError where none does."""
    name = secrets.token_hex(8)
    answer = desk / f"{name}{ANSWER}"
    try:
        write_whole(desk / f"{name}{REQUEST}", json.dumps(words).encode(), synced=False)
        while not answer.exists():
            if not (desk / OPEN_MARK).exists():
                raise FileNotFoundError(desk)
            time.sleep(POLL_S)
        return str(json.loads(answer.read_bytes()))
    except OSError:
        raise UserError(f"{DESK}: no campaign listens in {desk} any more; its deep round is over") from None
