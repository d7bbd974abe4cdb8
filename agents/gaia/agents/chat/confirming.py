"""Asks a person whether a tool may be used that says that it may destroy something."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from gaia.agents.base.tools import get_tool_display_name
from gaia_bridge.context import get_request_context
from gaia_bridge.text import one_line

__all__ = ["ask_to_confirm"]

_FORM: Final = {"run": {"type": "boolean", "title": "Run it"}}


def ask_to_confirm(console: object, tool_name: str, arguments: Mapping[str, Any]) -> bool:
    """Ask whoever is there: the user of the client that this code works for, if the client can ask; else the console.

    Blocks until there is an answer.

    Args:
        console: An agent's; one that cannot ask says no.
        tool_name: The tool's key in the registry.
        arguments: What it would be called with.
    """
    with suppress(LookupError):  # no client is waiting for this
        request = get_request_context()
        if request.has_capability("elicitation"):
            shown = one_line(json.dumps(dict(arguments), ensure_ascii=False, default=str))
            name = one_line(get_tool_display_name(tool_name))
            answer = request.elicit(f"{name} may destroy something. Run it with {shown}?", _FORM)
            return answer.accepted and answer.content.get("run") is True
    ask = getattr(console, "confirm_tool_execution", None)
    return ask is not None and ask(tool_name, arguments) is True
