"""litellm, imported once, quietly, and only by who asks a model: it takes seconds and 200 MB."""

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import Any

from ridgeline.agent.providers.base import KeyMissing
from ridgeline.graph.errors import install_command

AT_IMPORT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else it asks the network for prices in the background
    "LITELLM_MODE": "PRODUCTION",  # else it loads whatever .env it finds into our environment
}


@cache
def library() -> Any:
    """The module litellm. Raises KeyMissing where it is not installed."""
    if find_spec("litellm") is None:
        raise KeyMissing(
            f"--model: needs the package litellm, which is not installed; {install_command('litellm')}, or use"
            " --model mailbox, which needs nothing"
        )
    with _environment(AT_IMPORT), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import litellm
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    litellm.drop_params = True  # a parameter that a model does not know is left out, not an error
    litellm.turn_off_message_logging = True
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return litellm


@cache
def failures() -> tuple[type[Exception], ...]:
    """What a call of litellm raises: its own failures, which are openai's, and what odd answers do to its code."""
    library()
    from openai import OpenAIError

    return (OpenAIError, ValueError, TypeError, KeyError, AttributeError, OSError)


def tokens(text: str) -> int:
    """Tokens of a text by the byte-pair encoding that litellm ships, so that counting needs no network."""
    from litellm.litellm_core_utils.default_encoding import encoding

    return len(encoding.encode(text, disallowed_special=()))


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """Sets environment variables while litellm is imported: what runs beside us must not inherit them."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
