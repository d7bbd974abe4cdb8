"""Asks a person whether a tool may be used that says that it may destroy something."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from gaia.agents.base.console import shown_arguments
from gaia.agents.base.tools import get_tool_display_name
from gaia.agents.chat.no_client import client_request
from gaia_bridge.errors import ClientCapabilityError, RequestError
from gaia_bridge.text.escaping import one_line

__all__ = ["ask_to_confirm", "client_can_be_asked"]

logger = logging.getLogger(__name__)

_FORM: Final = {"run": {"type": "boolean", "title": "Run it"}}


def client_can_be_asked() -> bool:
    """Whether the calling code works for a client that can ask its user."""
    request = client_request()
    return request is not None and request.has_capability("elicitation")


def ask_to_confirm(console: object, tool_name: str, arguments: Mapping[str, Any]) -> bool:
    """Ask whoever is there: the user of the client that this code works for, if the client can ask; else the console.

    Blocks until there is an answer.

    Args:
        console: An agent's; one that cannot ask says no.
        tool_name: The tool's key in the registry.
        arguments: What it would be called with.
    """
    request = client_request()
    if request is not None and request.has_capability("elicitation"):
        name = one_line(get_tool_display_name(tool_name))
        question = f"{name} may destroy something. Run it with {shown_arguments(arguments)}?"
        try:
            answer = request.elicit(question, _FORM)
            return answer.accepted and answer.content.get("run") is True
        except ClientCapabilityError:
            pass  # it can show links only
        except RequestError as error:
            logger.info("%s is not confirmed: %s", name, error)
            return False
    ask = getattr(console, "confirm_tool_execution", None)
    return ask is not None and ask(tool_name, arguments) is True
