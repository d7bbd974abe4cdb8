"""What middleware is: hooks around requests, from the endpoint to the agent or server that answers."""

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
        client_request: The request as sources see it: the client, what it can do, what it is told meanwhile.
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
        """What it is about: the public name of a tool or prompt, the URI of a resource; empty for other methods."""
        return str(self.params.get(NAMED.get(self.method, ""), ""))

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The arguments of a tool or prompt."""
        return self.params.get("arguments") or _NOTHING

    @property
    def tool(self) -> JSON | None:
        """The definition of the tool that is called, as clients are shown it; `None` if there is none of that name."""
        return self._find_tool(self.name) if self.method == "tools/call" else None

    @property
    def annotations(self) -> Mapping[str, Any]:
        """What that tool says of itself, such as `readOnlyHint`."""
        return (self.tool or {}).get("annotations") or _NOTHING

    @property
    def client(self) -> str:
        """Name and version of the client, as it says."""
        told = self.client_request.client_info
        return " ".join(str(told[key]) for key in ("name", "version") if told.get(key)) or "unknown client"

    @property
    def is_continued(self) -> bool:
        """Whether it is a further round of a request (2026-07-28): it brings answers to questions of the first."""
        return bool(self.client_request.input_responses) or self.client_request.request_state is not None

    def with_params(self, **params: Any) -> McpRequest:
        """The same request with other parameters.

        Args:
            **params: Those that differ, in wire shape.
        """
        return McpRequest(self.client_request, self.endpoint, {**self.params, **params}, self._find_tool)

    def with_arguments(self, **arguments: Any) -> McpRequest:
        """The same call with other arguments.

        Args:
            **arguments: Those that differ.
        """
        return self.with_params(arguments={**self.arguments, **arguments})

    def without_answers(self) -> McpRequest:
        """The same request as if it were its first round: for a hook that asked itself, and now has the answers.

        Those are nothing to whoever answers the request, which may ask in its turn.
        """
        params = {key: value for key, value in self.params.items() if key not in _OF_ROUNDS}
        begun: Any = self.client_request  # a request that comes in has rounds; what sources see of it does not say so
        return McpRequest(begun.next_round({}, None), self.endpoint, params, self._find_tool)


CallNext = Callable[[McpRequest], Awaitable[JSON]]
"""The rest of the way: the middleware that was given later, and whoever answers. Returns the result in wire shape."""


class Middleware:
    """Base of what is done around requests: `Bridge(..., middleware=[First(), Second()])`.

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
    """What endpoints declare because of it, where nothing that they publish does: `{"resources": {}}`."""

    async def on_request(self, request: McpRequest, call_next: CallNext) -> JSON:
        """Around every request that is answered by what is published, before the hook for its method."""
        return await call_next(request)

    async def on_list(self, request: McpRequest, call_next: CallNext) -> JSON:
        """Around `tools/list`, `prompts/list`, `resources/list`, `resources/templates/list` and
        `skills/list`."""
        return await call_next(request)

    async def on_call_tool(self, request: McpRequest, call_next: CallNext) -> JSON:
        """Around `tools/call`."""
        return await call_next(request)

    async def on_read_resource(self, request: McpRequest, call_next: CallNext) -> JSON:
        """Around `resources/read`."""
        return await call_next(request)

    async def on_get_prompt(self, request: McpRequest, call_next: CallNext) -> JSON:
        """Around `prompts/get`."""
        return await call_next(request)

    def on_change(self, endpoint: str, change: Change) -> None:
        """Told after every change of what an endpoint publishes: of a list, or of a resource.

        Args:
            endpoint: As in requests.
            change: What changed.
        """
