"""The shapes on both sides of the core: agents below, sources in the middle, the client's request above.

Structure, not ancestry: AMD's own `gaia.agents.base.MCPAgent`, ours, and any object with the same methods are all
an `AgentLike`. A `Source` is what the catalog merges: an agent of this process or a connected upstream server.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from gaia_bridge.chat_types import OfferedAsModel
from gaia_bridge.model import Change, ServerFeatures, SourceKind, SourceStatus
from gaia_bridge.protocol.json_types import JSON

__all__ = [
    "JSON",
    "AgentLike",
    "ChangeListener",
    "ClientRequest",
    "CompletesArguments",
    "FollowsRoots",
    "GivesPrompts",
    "Introducible",
    "KnowsPublisher",
    "ListsResourceTemplates",
    "Publishable",
    "Publisher",
    "ReadsResources",
    "Republishes",
    "Source",
    "Starts",
]

ChangeListener = Callable[[Change], None]
"""Called on the bridge's event loop whenever a source's offer changed."""


@runtime_checkable
class AgentLike(Protocol):
    """What an agent must have to be published ("API Specification").

    `get_mcp_prompts`, `get_mcp_resources` and `get_mcp_server_info` are used when present. `execute_mcp_tool` may be
    a coroutine function.
    """

    def get_mcp_tool_definitions(self) -> list[JSON]:
        """Return the MCP tool definitions: `name`, `description`, `inputSchema` and any other MCP tool field."""
        ...

    def execute_mcp_tool(self, tool_name: str, arguments: JSON) -> Any:
        """Run one tool and return its result."""
        ...


Publishable = AgentLike | OfferedAsModel
"""What can be published: over MCP, over the OpenAI-compatible API, or, with the methods of both, over both."""


@runtime_checkable
class GivesPrompts(Protocol):
    """Optional hook: fill in one of the prompts that `get_mcp_prompts` lists. May be a coroutine function."""

    def get_mcp_prompt(self, name: str, arguments: dict[str, str]) -> Any:
        """Return the prompt: text, a list of messages, or an MCP prompt result `{"messages": [...]}`."""
        ...


@runtime_checkable
class ReadsResources(Protocol):
    """Optional hook: read a listed resource, or one that a template describes. May be a coroutine function."""

    def read_mcp_resource(self, uri: str) -> Any:
        """Return text, bytes, a JSON-serialisable value, or an MCP result `{"contents": [...]}`.

        Raises:
            ResourceNotFoundError: There is nothing at that URI. Returning `None` says the same.
        """
        ...


@runtime_checkable
class ListsResourceTemplates(Protocol):
    """Optional hook: the URI templates (RFC 6570) that `read_mcp_resource` understands."""

    def get_mcp_resource_templates(self) -> list[JSON]:
        """Return MCP resource template definitions: `uriTemplate`, `name`, and any other MCP field."""
        ...


@runtime_checkable
class CompletesArguments(Protocol):
    """Optional hook: suggest values while a user fills in a prompt argument or a template variable."""

    def complete_mcp_argument(self, ref: JSON, argument: str, value: str, context: dict[str, str]) -> Any:
        """Return suggestions: a list of strings, or `{"values": [...], "total": int, "hasMore": bool}`.

        Args:
            ref: `{"type": "ref/prompt", "name": ...}` or `{"type": "ref/resource", "uri": ...}`.
            argument: The name of the argument being filled in.
            value: What the user typed so far.
            context: Arguments that were already filled in.
        """
        ...


class Publisher(Protocol):
    """How an agent says that something about it changed. Every method may be called from any thread."""

    def tools_changed(self) -> None:
        """The tool definitions changed; clients are told to list them again."""
        ...

    def prompts_changed(self) -> None:
        """The prompts changed; clients are told to list them again."""
        ...

    def resources_changed(self) -> None:
        """The resources or templates changed; clients are told to list them again."""
        ...

    def resource_updated(self, uri: str) -> None:
        """The content at `uri` changed; the clients that subscribed to it are told."""
        ...

    def own_files(self) -> Iterable[Path]:
        """The files that decide what this bridge starts, as it knows them now. No agent should write them for a client:
        they would be read, and run, without anybody having looked."""
        ...


@runtime_checkable
class KnowsPublisher(Protocol):
    """Optional hook: learn where to announce changes. An agent published twice is given two publishers."""

    def on_mcp_published(self, publisher: Publisher) -> None:
        """The agent is published from now on."""
        ...

    def on_mcp_unpublished(self, publisher: Publisher) -> None:
        """The agent is no longer published through this publisher."""
        ...


class ClientRequest(Protocol):
    """One request of one client, as a source sees it, whatever the transport and protocol revision."""

    @property
    def method(self) -> str:
        """The JSON-RPC method, such as `tools/call`."""
        ...

    @property
    def modern(self) -> bool:
        """Whether the client speaks 2026-07-28 or later, where a server cannot send requests of its own."""
        ...

    @property
    def client(self) -> Hashable:
        """Who asks: the same, or equal, for all requests that are taken to come from the same client; hashable."""
        ...

    def when_client_leaves(self, callback: Callable[[], None]) -> bool:
        """Have `callback` called once when the client's session ends; whether it has one at all.

        A client of 2026-07-28 over HTTP has none: each of its requests stands alone.
        """
        ...

    @property
    def params(self) -> Mapping[str, Any]:
        """All of the request's parameters, as they came; names and URIs among them are those that clients know."""
        ...

    @property
    def meta(self) -> Mapping[str, Any]:
        """The request's `_meta`."""
        ...

    @property
    def client_info(self) -> Mapping[str, Any]:
        """How the client introduces itself, in wire shape: `{"name": ..., "version": ...}`; empty if it does not."""
        ...

    @property
    def client_capabilities(self) -> Mapping[str, Any]:
        """What the client declared, in wire shape: `{"elicitation": {}, "sampling": {}}`."""
        ...

    @property
    def log_level(self) -> str | None:
        """The least severe log messages that the client wants, one of `model.LOG_LEVELS`; `None` if it wants none."""
        ...

    @property
    def input_responses(self) -> Mapping[str, JSON]:
        """The answers that came with a retry of this request (2026-07-28, SEP-2322); empty on the first round."""
        ...

    @property
    def request_state(self) -> str | None:
        """The state that an earlier `input_required` result of this request carried, verified and opened."""
        ...

    async def report_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Send `notifications/progress`, if the client asked for it."""
        ...

    async def log(self, level: str, data: Any, logger: str | None) -> None:
        """Send `notifications/message`, if the client wants that level."""
        ...

    async def push(self, method: str, params: JSON) -> JSON:
        """Send a request to the client and return its result. Only where `modern` is false.

        Raises:
            ClientCapabilityError: The client did not declare what this needs.
            AnswerError: The client answered with an error, or not in time.
        """
        ...

    async def close_stream(self) -> None:
        """End the event stream that carries the answer; the client resumes it (legacy Streamable HTTP only)."""
        ...


@runtime_checkable
class Republishes(Protocol):
    """Optional: an agent that publishes more than its own, such as what the servers that it uses offer."""

    def get_mcp_republished(self) -> AgentLike | None:
        """Something with the methods of an agent, published beside this one under the same name; or nothing."""
        ...


@runtime_checkable
class FollowsRoots(Protocol):
    """Optional for a source: something behind it may know the folders of a client."""

    def roots_changed(self, request: ClientRequest) -> None:
        """A client says that its root folders are others now. Must not block.

        Args:
            request: Its notification, on behalf of which it can be asked what they are.
        """
        ...


@runtime_checkable
class Introducible(Protocol):
    """Optional for a source: it may say something else of itself to clients of each era."""

    async def meet(self, request: ClientRequest) -> None:
        """Find out what it says to the client of a request. Bounded; raises nothing."""
        ...


@runtime_checkable
class Starts(Protocol):
    """Optional for a source: what is behind it may not run yet."""

    @property
    def awaited(self) -> bool:
        """Whether it is starting, and a request waits for that."""
        ...

    async def started(self) -> None:
        """Wait until it has started, or failed to. Bounded by its own deadline for that."""
        ...


class Source(Protocol):
    """Where capabilities come from: one agent, or one upstream server."""

    @property
    def name(self) -> str:
        """The name it is published under: the path segment, and the qualifier of its tools."""
        ...

    @property
    def kind(self) -> SourceKind:
        """Agent or upstream server."""
        ...

    @property
    def features(self) -> ServerFeatures:
        """What it offers right now. A new object after every change; never blocks."""
        ...

    @property
    def status(self) -> SourceStatus:
        """How it is; never blocks."""
        ...

    def listen(self, listener: ChangeListener) -> Callable[[], None]:
        """Call `listener` after every change; returns an idempotent function that stops it."""
        ...

    async def settle(self) -> None:
        """Wait until it is known what it offers. Bounded, over all who wait together, and never raises."""
        ...

    async def learn(self) -> None:
        """Wait for the same until it is known, or known to fail. Bounded by the source's own deadlines."""
        ...

    async def refresh(self) -> None:
        """Look again, if the source cannot be trusted to announce its changes. Bounded and never raises."""
        ...

    async def seek(self) -> None:
        """Look again because something was asked for that it is not known to have. Bounded and never raises."""
        ...

    async def call_tool(self, name: str, arguments: JSON, request: ClientRequest) -> JSON:
        """Run the tool of that (original) name and return a wire `CallToolResult` or `InputRequiredResult`."""
        ...

    async def get_prompt(self, name: str, arguments: dict[str, str], request: ClientRequest) -> JSON:
        """Return a wire `GetPromptResult` or `InputRequiredResult`."""
        ...

    async def read_resource(self, uri: str, request: ClientRequest) -> JSON:
        """Return a wire `ReadResourceResult` or `InputRequiredResult`."""
        ...

    async def forward(self, method: str, params: JSON, request: ClientRequest) -> JSON:
        """Serve a request of a method that the bridge does not know.

        Raises:
            ProtocolError: Neither does the source.
        """
        ...

    async def complete(self, ref: JSON, argument: JSON, context: dict[str, str], request: ClientRequest) -> JSON:
        """Return a wire `CompleteResult`: `{"completion": {"values": [...]}}`."""
        ...

    async def subscribe(self, uri: str) -> None:
        """One more wants to hear of updates of `uri`, until as many called `unsubscribe`. Bounded.

        Raises:
            RequestError: The source refused, or did not answer; there is nothing to take back then.
        """
        ...

    async def unsubscribe(self, uri: str) -> None:
        """One who called `subscribe` does not want to hear of them any more. Bounded, and never raises."""
        ...
