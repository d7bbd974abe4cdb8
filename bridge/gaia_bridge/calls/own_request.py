"""A request that is made in this process, without a client that could be notified or asked anything."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from copy import copy
from typing import Any, Final, Self

from gaia_bridge.errors import ClientCapabilityError
from gaia_bridge.model import LogMessage, Progress
from gaia_bridge.text.json_types import JSON

_NOTHING: Final[Mapping[str, Any]] = {}


def nobody_to_ask(method: str) -> ClientCapabilityError:
    """Return the error of a question to a client that does not exist."""
    from gaia_bridge.protocol.vocabulary import CAPABILITY_OF  # which an agent alone does not need

    return ClientCapabilityError({CAPABILITY_OF.get(method, method): {}})


class OwnRequest:
    """Implements `gaia_bridge.contract.ClientRequest`; subclasses add further abilities.

    Args:
        client: The same for all requests that are taken to come from the same client.
        principal: The party that limits and caches count it for; the client if `None`.
    """

    method = "tools/call"
    modern = False
    session_key: str | None = None
    address: str | None = None
    params: Mapping[str, Any] = _NOTHING
    meta: Mapping[str, Any] = _NOTHING
    client_info: Mapping[str, Any] = _NOTHING
    client_capabilities: Mapping[str, Any] = _NOTHING
    client_folder: str | None = None
    log_level: str | None = None
    is_relayed = False
    input_responses: Mapping[str, JSON] = _NOTHING
    request_state: str | None = None
    served_by = ""
    """The name of the source that works on the request, once that is known."""
    task_prefix = ""
    """The first characters of the ids of the request's tasks."""

    def __init__(self, client: Hashable, principal: Hashable = None) -> None:
        self.client = client
        self.principal = client if principal is None else principal

    def next_round(self, responses: Mapping[str, JSON], state: str | None, /) -> Self:
        """Return the same request with the answers to the questions of its result."""
        again = copy(self)
        again.input_responses, again.request_state = responses, state
        return again

    def with_params(self, params: Mapping[str, Any]) -> Self:
        """Return the same request with other parameters."""
        other = copy(self)
        other.params = params
        return other

    def when_client_leaves(self, callback: Callable[[], None]) -> bool:
        """Return that there is no session whose end could be reported."""
        return False

    async def report_progress(self, report: Progress) -> None:
        """Drop the report: there is no client."""

    async def log(self, message: LogMessage) -> None:
        """Drop the message: there is no client."""

    async def push(self, method: str, params: JSON) -> JSON:
        """Raise `ClientCapabilityError`: there is no client."""
        raise nobody_to_ask(method)

    async def close_stream(self) -> None:
        """Do nothing: there is no stream."""
