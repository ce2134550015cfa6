"""What a provider's failure means: ask again, change the question, or tell the user."""

from collections.abc import Mapping

from ridgeline.agent.models.base import KeyMissing, ModelError, Unanswerable
from ridgeline.agent.models.patience import Again
from ridgeline.agent.models.providers import variables
from ridgeline.agent.models.redaction import told

LONGEST_WAIT_S = 86_400.0
SPENT = ("insufficient_quota", "credit balance is too low", "billing hard limit")
"""A 429 or 400 that no waiting mends."""


def fault(error: Exception, *, name: str, provider: str) -> Again | ModelError:
    """The failure to raise instead of the library's."""
    status, said = _status(error), words(error)
    who = f"--model {name}"
    if any(word in said.lower() for word in SPENT):
        return Unanswerable(f"{who}: the account has no credit left ({status}): {said}")
    if status in (401, 403):
        return KeyMissing(f"{who}: the provider refused {variables(provider)} ({status}): {said}")
    if status == 404:
        return KeyMissing(f"{who}: the provider does not know the model, or its address is wrong (404): {said}")
    if status in (408, 409, 425, 429) or status >= 500:
        return Again(f"{status}: {said}", after_s=_retry_after(error))
    return Unanswerable(f"{who}: the provider refused the question ({status}): {said}")


def words(error: Exception) -> str:
    """The provider's own sentence, in one line, without keys and without the library's prefixes."""
    text = str(error)
    head, dash, rest = text.partition("Exception - ")
    body = rest if dash and len(head) < 120 else text
    return told(body.partition("Traceback (most recent call last)")[0]) or type(error).__name__


def _status(error: Exception) -> int:
    """The HTTP status; 500 for a failure without one: a broken connection or an answer that is none."""
    found = getattr(error, "status_code", None)
    return found if isinstance(found, int) and found >= 400 else 500


def _retry_after(error: Exception) -> float | None:
    headers = getattr(error, "litellm_response_headers", None)
    if headers is None:
        headers = getattr(getattr(error, "response", None), "headers", None)
    if not isinstance(headers, Mapping):
        return None
    value = next((text for key, text in headers.items() if str(key).lower() == "retry-after"), None)
    try:
        seconds = float(str(value))
    except ValueError:
        return None  # a date, which needs a clock that agrees with the server's: our own pauses instead
    return min(seconds, LONGEST_WAIT_S) if seconds >= 0 else None
