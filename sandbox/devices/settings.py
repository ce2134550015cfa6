"""The gate's thresholds as a person sets them: `RIDGELINE_GATE="samples=3 utilization_pct=10 allowed=Xorg+rdcd"`."""

import os
from collections.abc import Mapping

from pydantic import ValidationError

from ridgeline.graph.errors import WorldError
from ridgeline.sandbox.devices.values import GateSettings

VARIABLE = "RIDGELINE_GATE"


class BadSetting(WorldError):
    """A threshold that does not exist or has a value that cannot be."""

    exit_code = 2


def gate_settings(environment: Mapping[str, str] | None = None) -> GateSettings:
    """The defaults with what the variable says; `allowed` adds to the daemons that are known.

    `environment`: default this process's own. Raises BadSetting.
    """
    words = (os.environ if environment is None else environment).get(VARIABLE, "").replace(",", " ").split()
    given: dict[str, object] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or key not in GateSettings.model_fields:
            known = ", ".join(GateSettings.model_fields)
            raise BadSetting(f"{VARIABLE}: {word!r} is no key=value of the gate; known: {known}")
        given[key] = (*GateSettings().allowed, *value.split("+")) if key == "allowed" else value
    try:
        return GateSettings.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        raise BadSetting(f"{VARIABLE}: {first['loc'][0]}: {first['msg']}; give another value") from None
