"""The envelope that VS Code puts around the arguments of some tools: `{"kwargs": {...}}`, or the same as text."""

from __future__ import annotations

import json
from contextlib import suppress

from gaia_bridge.text.json_types import JSON, is_object


def without_envelope(arguments: JSON, *, takes_kwargs: bool) -> JSON:
    """Return the arguments of a call, taken out of their envelope if they are in one.

    Args:
        takes_kwargs: Whether the tool has a parameter named `kwargs`, so that there is no envelope.
    """
    if takes_kwargs or arguments.keys() != {"kwargs"}:
        return arguments
    inner = arguments["kwargs"]
    if isinstance(inner, str):
        with suppress(ValueError, RecursionError):
            inner = json.loads(inner)
    return inner if is_object(inner) else arguments
