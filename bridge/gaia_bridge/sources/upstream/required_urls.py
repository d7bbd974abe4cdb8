"""Links that a user has to open before a server does its work, as clients of 2026-07-28 are asked to open them.

A server of 2025-11-25 answers with an error that names them (URL elicitation required). Later clients are given them as
questions in a result, and the request that brings their answers is made anew: the server knows what was done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gaia_bridge.errors import ClientCapabilityError, ProtocolError, ToolError
from gaia_bridge.protocol.codes import URL_ELICITATION_REQUIRED
from gaia_bridge.protocol.vocabulary import missing_capability, question_problem
from gaia_bridge.text.json_types import JSON, is_array, is_object

_KEY: Final = "gaia-link-"
"""What our keys of such questions begin with."""
_ASK: Final = "elicitation/create"


def links_of(error: ProtocolError) -> list[JSON]:
    """The links that an error names; none if it is another error, or does not name them as it should."""
    named = error.data.get("elicitations") if is_object(error.data) else None
    if error.code != URL_ELICITATION_REQUIRED or not is_array(named):
        return []
    links: list[JSON] = [{**link, "mode": "url"} for link in named if is_object(link)]
    return [] if any(question_problem(_ASK, link) for link in links) else links


def asking_for(links: Sequence[JSON], declared: Mapping[str, Any]) -> JSON:
    """The result that asks to open links.

    Raises:
        ClientCapabilityError: The client did not declare that it can.
    """
    if (missing := missing_capability(_ASK, links[0], declared)) is not None:
        raise ClientCapabilityError(missing)
    asked = {
        f"{_KEY}{number}": {"method": _ASK, "params": {key: link[key] for key in link if key != "elicitationId"}}
        for number, link in enumerate(links, 1)
    }
    return {"resultType": "input_required", "inputRequests": asked}


def check_links(answers: Mapping[str, JSON]) -> None:
    """Look at the answers that a request brings.

    Raises:
        ToolError: The user does not want to open a link: the server need not be asked again.
    """
    for key, answer in answers.items():
        if key.startswith(_KEY) and answer.get("action") != "accept":
            raise ToolError(f"The server needs a link to be opened, and the user's answer was: {answer.get('action')}")
