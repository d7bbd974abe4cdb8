"""The protocols (in the sense of Python's typing) that agents, sources and requests of clients implement.

An agent needs the right methods, not a base class: AMD's `gaia.agents.base.MCPAgent`, ours, and any other object
with the same methods are all an `AgentLike`. A `Source` is what the catalog merges: an agent of this process or a
connected upstream server.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from gaia_bridge.model import AgentOffer, Change, LogMessage, Progress, ServerFeatures, SourceKind, SourceStatus
from gaia_bridge.text.json_types import JSON

ChangeListener = Callable[[Change], None]
"""Called on the bridge's event loop after each change of a source's offer."""


@runtime_checkable
class AgentLike(Protocol):
    """The methods that an agent must have to be published.

    `get_mcp_prompts`, `get_mcp_resources` and `get_mcp_server_info` are used when present. `execute_mcp_tool` may be
    a coroutine function.
    """

    def get_mcp_tool_definitions(self) -> list[JSON]:
        """Return the MCP tool definitions: `name`, `description`, `inputSchema` and any other MCP tool field."""
        ...

    def execute_mcp_tool(self, tool_name: str, arguments: JSON) -> Any:
        """Run one tool and return its result."""
        ...


Publishable = object
"""Any object that can be published: an `AgentLike`, an `OfferedAsModel`, something that `HasParts`, an object with
decorated methods, or a server object of an MCP library. Checked when it is published.
"""


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
            ResourceNotFoundError: There is nothing at that URI. Returning `None` means the same.
        """
        ...


@runtime_checkable
class ListsResourceTemplates(Protocol):
    """Optional hook: list the URI templates (RFC 6570) that `read_mcp_resource` understands."""

    def get_mcp_resource_templates(self) -> list[JSON]:
        """Return MCP resource template definitions: `uriTemplate`, `name`, and any other MCP field."""
        ...


@runtime_checkable
class ListsSkills(Protocol):
    """Optional hook: list skills that the agent makes itself. Its `skills/` folder is published without this hook."""

    def get_mcp_skills(self) -> list[JSON]:
        """Return entries of SEP-2640: `uri`, `frontmatter`, and `resources`: its files, or "dynamic".

        `read_mcp_resource` reads these URIs.
        """
        ...


@runtime_checkable
class CompletesArguments(Protocol):
    """Optional hook: suggest values while a user fills in a prompt argument or a template variable."""

    def complete_mcp_argument(self, ref: JSON, argument: str, value: str, context: dict[str, str]) -> Any:
        """Return suggestions: a list of strings, or `{"values": [...], "total": int, "hasMore": bool}`.

        Args:
            ref: `{"type": "ref/prompt", "name": ...}` or `{"type": "ref/resource", "uri": ...}`.
            argument: The name of the argument being filled in.
            value: The text that the user typed so far.
            context: Arguments that were already filled in.
        """
        ...


class Publisher(Protocol):
    """The methods by which an agent announces its own changes. All may be called from any thread."""

    def tools_changed(self) -> None:
        """Announce that the tool definitions changed, so that clients list them again."""
        ...

    def prompts_changed(self) -> None:
        """Announce that the prompts changed, so that clients list them again."""
        ...

    def resources_changed(self) -> None:
        """Announce that resources or templates changed, so that clients list them again."""
        ...

    def resource_updated(self, uri: str) -> None:
        """Announce that the content at `uri` changed, to the clients that subscribed to it."""
        ...

    def own_files(self) -> Iterable[Path]:
        """Return the files that decide which programs this bridge starts, as far as it knows now.

        An agent should never write them for a client: the bridge would run their programs without a person's approval.
        """
        ...


@runtime_checkable
class KnowsPublisher(Protocol):
    """Optional hook: receive the `Publisher` for changes. An agent published twice is given two publishers."""

    def on_mcp_published(self, publisher: Publisher) -> None:
        """Note that the agent is published from now on."""
        ...

    def on_mcp_unpublished(self, publisher: Publisher) -> None:
        """Note that the agent is no longer published through this publisher."""
        ...


@runtime_checkable
class KnowsItsEnd(Protocol):
    """Optional hook: note that nothing uses the agent any more, because its changed file was loaded anew."""

    def on_mcp_replaced(self) -> None:
        """Close whatever the agent keeps open: another one has its place, and its calls are over."""
        ...


class RequestFacts(Protocol):
    """The facts about one request of one client, whatever the transport and protocol revision."""

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
        """The client's identity, equal for all requests of one session. A request without a session has one of its own.

        A client of 2026-07-28 over HTTP has no session, and the name that it gives itself identifies nobody.
        """
        ...

    @property
    def principal(self) -> Hashable:
        """The party that limits and caches count the request for: the session, or the address if there is none."""
        ...

    @property
    def address(self) -> str | None:
        """The address of a client of which nothing else is known; `None` where a session ties its requests together."""
        ...

    @property
    def is_relayed(self) -> bool:
        """Whether another bridge or an agent sent the request: its session may carry requests of several clients."""
        ...

    @property
    def session_key(self) -> str | None:
        """A secret that the requests of one session of a client share; `None` where each stands alone."""
        ...

    @property
    def meta(self) -> Mapping[str, Any]:
        """The request's `_meta`."""
        ...

    @property
    def client_info(self) -> Mapping[str, Any]:
        """The client's name and version, in wire shape: `{"name": ..., "version": ...}`; empty if it sends none."""
        ...

    @property
    def client_capabilities(self) -> Mapping[str, Any]:
        """The capabilities that the client declared, in wire shape: `{"elicitation": {}, "sampling": {}}`."""
        ...

    @property
    def client_folder(self) -> str | None:
        """The folder that the client's program was started in, where it is known to be a program of this user."""
        ...

    @property
    def log_level(self) -> str | None:
        """The least severe log messages that the client wants, one of `model.LOG_LEVELS`; `None` for no messages."""
        ...

    @property
    def input_responses(self) -> Mapping[str, JSON]:
        """The answers that came with a retry of this request (2026-07-28, SEP-2322); empty on the first round."""
        ...

    @property
    def request_state(self) -> str | None:
        """The state that an earlier `input_required` result of this request carried, verified and opened."""
        ...


class ClientRequest(RequestFacts, Protocol):
    """One request of one client, as a source sees it, and the way back to the client."""

    @property
    def params(self) -> Mapping[str, Any]:
        """All parameters of the request, as they came, with names and URIs as clients know them."""
        ...

    def when_client_leaves(self, callback: Callable[[], None]) -> bool:
        """Call `callback` once when the client's session ends. Returns whether the client has a session.

        A client of 2026-07-28 over HTTP has none: each of its requests is independent.
        """
        ...

    async def report_progress(self, report: Progress) -> None:
        """Send `notifications/progress`, if the client asked for it."""
        ...

    async def log(self, message: LogMessage) -> None:
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
        """End the event stream that carries the answer; the client resumes the stream (legacy Streamable HTTP only)."""
        ...


@runtime_checkable
class Republishes(Protocol):
    """Optional: an agent that also publishes offers of others, such as the MCP servers that it uses."""

    def get_mcp_republished(self) -> AgentLike | None:
        """Return an object with the methods of an agent, published under the same name as this one; `None` for none."""
        ...


@runtime_checkable
class HasParts(Protocol):
    """Optional: an agent that is published as several objects, such as one that also converses."""

    def get_mcp_parts(self, offer: AgentOffer = ...) -> Iterable[AgentLike]:
        """Return more objects with the methods of an agent, published under the same name. Called once.

        Args:
            offer: The tools that the publisher of the agent wants; passed only if that differs from the usual.
        """
        ...


@runtime_checkable
class FollowsRoots(Protocol):
    """Optional for a source: the server behind it may use the root folders of a client."""

    def roots_changed(self, request: ClientRequest) -> None:
        """Note that a client announced a change of its root folders. Must not block.

        Args:
            request: The notification; it can be used to ask the client for its new root folders.
        """
        ...


@runtime_checkable
class Introducible(Protocol):
    """Optional for a source: its server info may depend on the era of the client."""

    async def meet(self, request: ClientRequest) -> None:
        """Ask the server for its introduction in the era of this client. Bounded; never raises."""
        ...


@runtime_checkable
class Starts(Protocol):
    """Optional for a source: its server may not have been started yet."""

    @property
    def awaited(self) -> bool:
        """Whether a request is waiting for the server to start."""
        ...

    async def started(self) -> None:
        """Wait until the server has started or failed to start. Bounded by the deadline for a start."""
        ...


class Published(Protocol):
    """The part of a source that is shown to people."""

    @property
    def name(self) -> str:
        """The name that the source is published under: the path segment, and the qualifier of its tools."""
        ...

    @property
    def kind(self) -> SourceKind:
        """The kind of the source: agent or upstream server."""
        ...

    @property
    def features(self) -> ServerFeatures:
        """Everything that the source offers now. A new object after every change; never blocks."""
        ...

    @property
    def status(self) -> SourceStatus:
        """Whether the source works, and if not, why; never blocks."""
        ...


class Source(Published, Protocol):
    """Something that offers tools, prompts and resources: one agent, or one upstream server."""

    def listen(self, listener: ChangeListener) -> Callable[[], None]:
        """Call `listener` after every change; returns an idempotent function that stops it."""
        ...

    async def settle(self, *, listed_once: bool = False) -> None:
        """Wait until the offer of the source is known. All callers share one bounded wait; never raises.

        Args:
            listed_once: Whether the client does not list again; the wait is longer then.
        """
        ...

    async def learn(self) -> None:
        """Wait until the offer of the source is known, or the source has failed. Bounded by the source's deadlines."""
        ...

    @property
    def is_due(self) -> bool:
        """Whether `refresh` has anything to do: a list of a thousand sources asks each of them."""
        ...

    async def refresh(self) -> None:
        """Read the lists again if the source does not announce its changes. Bounded; never raises."""
        ...

    async def seek(self) -> None:
        """Read the lists again because a client asked for something that they lack. Bounded; never raises."""
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
        """Serve a request whose method the bridge does not know.

        Raises:
            ProtocolError: The source does not know the method either.
        """
        ...

    async def complete(self, ref: JSON, argument: JSON, context: dict[str, str], request: ClientRequest) -> JSON:
        """Return a wire `CompleteResult`: `{"completion": {"values": [...]}}`."""
        ...

    async def subscribe(self, uri: str) -> None:
        """Subscribe to updates of `uri`. Each call needs one `unsubscribe` to end it. Bounded.

        Raises:
            RequestError: The source refused, or did not answer. Then there is no subscription to end.
        """
        ...

    async def unsubscribe(self, uri: str) -> None:
        """End one subscription that `subscribe` began. Bounded; never raises."""
        ...
