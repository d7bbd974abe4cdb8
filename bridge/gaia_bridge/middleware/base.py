"""Middleware: hooks around requests, from the endpoint to the agent or server that answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar, Final

from gaia_bridge.contract import ClientRequest
from gaia_bridge.model import Change
from gaia_bridge.protocol.headers import NAMED
from gaia_bridge.text.json_types import JSON

_NOTHING: Mapping[str, Any] = {}
_OF_ROUNDS: Final = frozenset(("inputResponses", "requestState"))
"""Parameters that a request has in its further rounds alone."""


class McpRequest:
    """One request on its way to whoever answers it. It does not change; `with_params` makes another one.

    Args:
        client_request: The request as sources see it: the client, its capabilities, and the way to notify it.
        endpoint: The name of the agent or server whose own endpoint was asked; empty for that of everything.
        params: Its parameters, in wire shape.
        find_tool: Finds the definition of a tool by its public name.
    """

    __slots__ = ("_find_tool", "client_request", "endpoint", "params")

    def __init__(
        self,
        client_request: ClientRequest,
        endpoint: str,
        params: Mapping[str, Any],
        find_tool: Callable[[str], JSON | None],
    ) -> None:
        self.client_request = client_request
        self.endpoint = endpoint
        self.params = params
        self._find_tool = find_tool

    @property
    def method(self) -> str:
        """The JSON-RPC method, such as `tools/call`."""
        return self.client_request.method

    @property
    def name(self) -> str:
        """The public name of the tool or prompt, or the URI of the resource; empty for other methods."""
        return str(self.params.get(NAMED.get(self.method, ""), ""))

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The arguments of a tool or prompt."""
        return self.params.get("arguments") or _NOTHING

    @property
    def tool(self) -> JSON | None:
        """The definition of the tool that is called, as clients see it; `None` if no tool has that name."""
        return self._find_tool(self.name) if self.method == "tools/call" else None

    @property
    def annotations(self) -> Mapping[str, Any]:
        """The annotations of that tool, such as `readOnlyHint`."""
        return (self.tool or {}).get("annotations") or _NOTHING

    @property
    def client(self) -> str:
        """Name and version of the client, as it says."""
        info = self.client_request.client_info
        return " ".join(str(info[key]) for key in ("name", "version") if info.get(key)) or "unknown client"

    @property
    def is_continued(self) -> bool:
        """Whether this is a further round of a request (2026-07-28), with answers to questions of the first."""
        return bool(self.client_request.input_responses) or self.client_request.request_state is not None

    def with_params(self, **params: Any) -> McpRequest:
        """Return the same request with some other parameters, in wire shape."""
        return McpRequest(self.client_request, self.endpoint, {**self.params, **params}, self._find_tool)

    def with_arguments(self, **arguments: Any) -> McpRequest:
        """Return the same call with some other arguments."""
        return self.with_params(arguments={**self.arguments, **arguments})

    def without_answers(self) -> McpRequest:
        """Return the same request as if it were its first round: for a hook that asked itself, and now has the answers.

        These answers do not concern whoever answers the request, which may ask in its turn.
        """
        params = {key: value for key, value in self.params.items() if key not in _OF_ROUNDS}
        begun: Any = self.client_request  # a request that comes in has rounds; what sources see of it does not say so
        return McpRequest(begun.next_round({}, None), self.endpoint, params, self._find_tool)


CallNext = Callable[[McpRequest], Awaitable[JSON]]
"""The rest of the way: the later middleware, and whoever answers. Returns the result in wire shape."""


class Middleware:
    """Base class of middleware: `Bridge(..., middleware=[First(), Second()])`.

    Each hook is given the request, and what to call with it, or with another one. It returns that result, another one,
    or raises: `ToolError` for a tool's failure that the model is to read, `ProtocolError` for a JSON-RPC error. A
    result is shared, and so is not to be changed: return a new one.

        class Greeting(Middleware):
            async def on_call_tool(self, request, call_next):
                print("calling", request.name)
                return await call_next(request)

    A result may be a question to the client (`resultType: input_required`); the answer comes with a further request.
    Hooks that a class does not override are no step on anybody's way.
    """

    capabilities: ClassVar[Mapping[str, JSON]] = {}
    """The capabilities that endpoints declare because of it, if nothing that they publish does: `{"resources": {}}`."""

    async def on_request(self, request: McpRequest, call_next: CallNext) -> JSON:
        """Handle every request that a published source answers, before the hook for its method."""
        return await call_next(request)

    async def on_list(self, request: McpRequest, call_next: CallNext) -> JSON:
        """Handle `tools/list`, `prompts/list`, `resources/list`, `resources/templates/list` and `skills/list`."""
        return await call_next(request)

    async def on_call_tool(self, request: McpRequest, call_next: CallNext) -> JSON:
        """Handle `tools/call`."""
        return await call_next(request)

    async def on_read_resource(self, request: McpRequest, call_next: CallNext) -> JSON:
        """Handle `resources/read`."""
        return await call_next(request)

    async def on_get_prompt(self, request: McpRequest, call_next: CallNext) -> JSON:
        """Handle `prompts/get`."""
        return await call_next(request)

    def on_change(self, endpoint: str, change: Change) -> None:
        """Handle a change of an endpoint's offer: of a list, or of a resource. Called after each.

        Args:
            endpoint: As in requests.
        """
