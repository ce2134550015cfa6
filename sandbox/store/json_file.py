"""JSON that Ridgeline wrote, read as what may have happened to it meanwhile: torn, edited, half there, of another version."""

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from ridgeline.graph.errors import StateDamaged

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

Model = TypeVar("Model", bound="BaseModel")


class NotJson(ValueError):
    """Bytes that are no JSON which Ridgeline could have written. The text says why, in a few words."""


def parse_json(data: bytes) -> Any:
    """The value of JSON text. Raises NotJson, also for what Python would take: NaN, infinity, half a character, a bottomless nesting."""
    try:
        # strictly: given bytes, `json` would guess their encoding and let half a character through
        value = json.loads(data.decode(), parse_constant=_refuse_number, parse_float=_finite)
        if b"\\ud" in data.lower():  # may be half of a pair: text that no file can hold
            json.dumps(value, ensure_ascii=False).encode()
    except NotJson:
        raise
    except UnicodeEncodeError:
        raise NotJson("holds half a character") from None
    except UnicodeDecodeError as error:
        raise NotJson(f"byte {error.start + 1} is no text") from None
    except json.JSONDecodeError as error:
        raise NotJson(f"is not JSON any more ({error.msg} in line {error.lineno})") from None
    except RecursionError:
        raise NotJson("is nested too deep") from None
    except ValueError:  # an integer of more digits than Python converts
        raise NotJson("holds a number of too many digits") from None
    return value


def read_json(path: Path) -> Any:
    """The value of a file of ours. Raises FileNotFoundError, and StateDamaged for one that cannot be read as JSON."""
    try:
        return parse_json(path.read_bytes())
    except NotJson as error:
        raise StateDamaged(path, "is empty" if not path.stat().st_size else str(error)) from None
    except IsADirectoryError:
        raise StateDamaged(path, "is a folder, and should be a file") from None
    except PermissionError:
        raise StateDamaged(path, "may not be read by this user", mend="give this user the right to") from None


def read_model(path: Path, model: type[Model]) -> Model:
    """A JSON file's value. Raises FileNotFoundError, and StateDamaged naming the first field that is wrong."""
    from pydantic import ValidationError  # not above: a command that reads a status alone does without

    value = read_json(path)
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise StateDamaged(path, explain_first(error)) from None


def explain_first(error: "ValidationError") -> str:
    """The first wrong field of a JSON file and what is wrong with it, in one line."""
    problem = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in problem["loc"])
    message = " ".join(str(problem["msg"]).split())
    return f"{where}: {message}" if where else message


def _refuse_number(name: str) -> NoReturn:
    raise NotJson(f"holds {name}, which is no number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise NotJson(f"holds {text[:20]}, which is no number")
    return number
