"""A request that is made in this process, and behind which is no client that could be told or asked anything."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from copy import copy
from typing import Any, Final, Self

from gaia_bridge.errors import ClientCapabilityError
from gaia_bridge.model import LogMessage, Progress
from gaia_bridge.text.json_types import JSON

_NOTHING: Final[Mapping[str, Any]] = {}


def nobody_to_ask(method: str) -> ClientCapabilityError:
    """The error of a question that nobody can be asked."""
    from gaia_bridge.protocol.vocabulary import CAPABILITY_OF  # which an agent alone does not need

    return ClientCapabilityError({CAPABILITY_OF.get(method, method): {}})


class OwnRequest:
    """Implements `gaia_bridge.contract.ClientRequest`; what a request can do beyond this, its class says.

    Args:
        client: The same for all requests that are taken to come from the same client.
        principal: Whom limits and caches count it for; the client if `None`.
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
    """The name of the source that works on it, once that is known."""
    task_prefix = ""
    """What the ids of its tasks begin with."""

    def __init__(self, client: Hashable, principal: Hashable = None) -> None:
        self.client = client
        self.principal = client if principal is None else principal

    def next_round(self, responses: Mapping[str, JSON], state: str | None, /) -> Self:
        """The same request with the answers to what its result asked for."""
        again = copy(self)
        again.input_responses, again.request_state = responses, state
        return again

    def with_params(self, params: Mapping[str, Any]) -> Self:
        """The same request with other parameters."""
        other = copy(self)
        other.params = params
        return other

    def when_client_leaves(self, callback: Callable[[], None]) -> bool:
        """It has no session."""
        return False

    async def report_progress(self, report: Progress) -> None:
        """Nobody listens."""

    async def log(self, message: LogMessage) -> None:
        """Nobody listens."""

    async def push(self, method: str, params: JSON) -> JSON:
        """Nobody can be asked.

        Raises:
            ClientCapabilityError: Always.
        """
        raise nobody_to_ask(method)

    async def close_stream(self) -> None:
        """There is none."""
