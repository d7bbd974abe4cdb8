"""A client of any MCP server, in the era that the server speaks.

    async with Client("uvx mcp-server-time") as client:
        for tool in await client.list_tools():
            print(tool["name"])
        print((await client.call_tool("get_current_time", timezone="UTC")).text)

A program may name a server by a URL, a command, an agent, an object of an MCP library, or a bridge.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self, cast

import anyio.to_thread
from msgspec import Struct

from gaia_bridge.bridge import Bridge
from gaia_bridge.bridge.chaining import BridgeTransport, PublishedAgent
from gaia_bridge.bridge.chaining.sdk_transport import SdkServerTransport
from gaia_bridge.bridge.contents import agent_of, spec_of
from gaia_bridge.bridge.discovery import load_agent
from gaia_bridge.bridge.discovery.classes import is_mcp_server, missing_methods, name_of
from gaia_bridge.bridge.embedding.delegate import Delegate, OnChange, OnElicitation, OnLog, OnSampling
from gaia_bridge.client import Connection, Deadline, Era, connect
from gaia_bridge.client.transport import ConnectionLostError, StartTimeoutError, Transport, UpstreamError
from gaia_bridge.client.transport_factory import limits_for, transport_for
from gaia_bridge.errors import AgentLoadError, ServerUnavailableError, ToolError
from gaia_bridge.model import Progress, ServerSpec
from gaia_bridge.protocol.kinds import PROMPT, RESOURCE, SKILL, TEMPLATE, TOOL, DefinitionKind
from gaia_bridge.protocol.names import clean_name
from gaia_bridge.protocol.skills import SKILL_FILE, SKILLS_GET
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.sources.upstream.error_lines import ErrorLines
from gaia_bridge.text.json_types import JSON, is_array, is_object

_EXPECTED: Final = (
    "expected a URL, a command, the path of a file, a Bridge, an agent, an MCP server object (FastMCP, MCPServer), an "
    "entry such as StdioServerSpec, or a transport"
)

_SHOWN_LINES: Final = 5
"""Lines of error output that an exception repeats: the end of a traceback."""


class Reached(Struct, frozen=True):
    """A server, and the way to reach it."""

    name: str
    """The server's name in errors."""
    transport: Transport
    limits: UpstreamLimits
    """Deadlines and bounds, with those of its entry."""
    errors: ErrorLines | None = None
    """The lines of its error output, if it is a program."""
    spec: ServerSpec | None = None
    """Its entry in the configuration, if it has one."""

    def described(self, error: UpstreamError) -> str:
        """Return a description of a failure, with the program's own error output."""
        words = f"it {error}"
        if self.errors is None or self.spec is None or not isinstance(error, (ConnectionLostError, StartTimeoutError)):
            return words
        self.errors.explained(self.spec, error, "")
        lines = "".join(f"\n  {line}" for line in [*self.errors.last][-_SHOWN_LINES:])
        cause = f"; {self.errors.cause}" if self.errors.cause else ""
        return words + cause + (f"; its last lines of error output:{lines}" if lines else "")


def loaded_agent(path: Path) -> Any:
    """Return the one agent of a file.

    Raises:
        AgentLoadError: It has none, or several.
    """
    first, *others = load_agent(str(path))
    if others:
        names = ", ".join(each.reference for each in (first, *others))
        raise AgentLoadError(str(path), f"it has several agents: {names}", "make a Bridge of those that are meant")
    return first.agent


def reached(target: Any, limits: UpstreamLimits, **reaching: Any) -> Reached:
    """Return the way to reach a target.

    Args:
        target: See `Client`; a bridge is its transport already, and a path was loaded.
        limits: Deadlines and bounds.
        **reaching: As `spec_of` takes it.

    Raises:
        TypeError: It is none of these.
        ConfigError: The text is empty, or no command line.
    """
    if isinstance(target, Sequence):
        target = spec_of(cast("str | Sequence[str]", target), **reaching)
    elif given := [name for name, value in reaching.items() if value is not None]:
        raise TypeError(f"{' and '.join(given)}: only for a URL or a command, got {target!r}")
    if isinstance(target, ServerSpec):
        bounds, errors = limits_for(limits, target), ErrorLines(None)
        return Reached(target.name, transport_for(target, bounds, errors.note), bounds, errors, target)
    if isinstance(target, BridgeTransport):
        return Reached("bridge", target, limits)
    target = agent_of(target)
    if is_mcp_server(target):
        return Reached(name_of(target), SdkServerTransport(target, name_of(target)), limits)
    if not isinstance(target, type):
        if callable(getattr(target, "connect", None)) and missing_methods(target):
            return Reached(clean_name(type(target).__name__), target, limits)
        if not missing_methods(target):
            return Reached(name_of(target), PublishedAgent(name_of(target), lambda: target), limits)
    hint = f"; write {target.__name__}()" if isinstance(target, type) and not missing_methods(target) else ""
    raise TypeError(f"{target!r} is nothing that a client connects to; {_EXPECTED}{hint}")


_FILE: Final = re.compile(r"[^\s:]+\.py")


class ToolResult(Struct, frozen=True):
    """The answer of a tool."""

    content: Sequence[JSON]
    """Content blocks, as on the wire."""
    structured_content: Any = None
    """Structured content; `None` where there is none."""
    is_error: bool = False
    """Whether the tool reports a failure."""
    meta: Mapping[str, Any] = {}
    """The result's `_meta`."""

    @property
    def text(self) -> str:
        """The text of its text blocks, one per line."""
        return "\n".join(str(block.get("text", "")) for block in self.content if block.get("type") == "text")


class Client:
    """A connection to one server: an asynchronous context manager, which is open inside of its block.

    Definitions, prompts and contents are plain JSON objects, as on the wire.

    Args:
        target: A URL; a command, as a line or as a list of words; the path of a file with one agent; a `Bridge`, which
            is opened if it is not; an agent; an `MCPServer` or `FastMCP` object; an entry of a configuration
            (`StdioServerSpec` ...); or a transport of your own.
        endpoint: Of a bridge, the agent or server whose own endpoint is meant; all that it publishes by default.
        era: The era to speak, `legacy` (up to 2025-11-25) or `modern`; by default the server's best.
        on_elicitation: Answers forms. Without it, the client does not declare `elicitation`.
        on_sampling: Answers for a model. Without it, the client does not declare `sampling`.
        roots: Folders, as URIs, that the server may look at.
        on_log: Called with log messages, once `set_log_level` has set a level.
        on_change: Called with changes of lists and updates of resources.
        headers: Sent to a URL.
        env: For a command, beside the few variables that every server is given.
        cwd: The folder of a command.
        name: How the client introduces itself.
        limits: Deadlines and bounds.

    Raises:
        TypeError: On entering: the target is nothing that a client connects to.
        AgentLoadError: On entering: the file has no agent, or several.
        ServerUnavailableError: On entering: the server cannot be reached, or speaks no revision in common.
    """

    def __init__(
        self,
        target: object,
        *,
        endpoint: str | None = None,
        era: Literal["legacy", "modern"] | None = None,
        on_elicitation: OnElicitation | None = None,
        on_sampling: OnSampling | None = None,
        roots: Sequence[str] = (),
        on_log: OnLog | None = None,
        on_change: OnChange | None = None,
        headers: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | str | None = None,
        name: str | None = None,
        limits: UpstreamLimits | None = None,
    ) -> None:
        if era not in (None, "legacy", "modern"):
            raise ValueError(f"era={era!r} came; expected 'legacy', 'modern' or None")
        if endpoint is not None and not isinstance(target, Bridge):
            raise TypeError(f"endpoint={endpoint!r} is part of a Bridge; the target is {target!r}")
        self._target = target
        self._endpoint = endpoint
        self._reaching: dict[str, Any] = {"headers": headers, "env": env, "cwd": cwd}
        self._limits = limits or UpstreamLimits()
        self._only = None if era is None else Era(era)
        self._answers = (on_elicitation, on_sampling, tuple(roots), on_log, on_change, name)
        self._stack = AsyncExitStack()
        self._server: Reached | None = None
        self._connection: Connection | None = None
        self._process = os.getpid()
        self._on_progress: Callable[[Progress], object] | None = None
        """Receives the progress of calls that nothing else receives."""

    async def __aenter__(self) -> Self:
        if self._connection is not None:
            raise RuntimeError("the client is open already; make another one")
        async with AsyncExitStack() as stack:
            server = self._server = reached(await self._prepared(), self._limits, **self._reaching)
            delegate = Delegate(*self._answers, server.name)
            with self._failures():
                opening = connect(server.transport, delegate, server.limits, only=self._only)
                self._connection = await stack.enter_async_context(opening)
            self._stack = stack.pop_all()
            self._process = os.getpid()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None:
        self._connection = None
        if os.getpid() != self._process:  # a forked child has none of the tasks that it would wait for
            self._stack.pop_all()
            return None
        return await self._stack.__aexit__(exc_type, exc_val, exc_tb)

    @property
    def connection(self) -> Connection:
        """The connection itself, for requests that have no method here.

        Raises:
            RuntimeError: The client is not open.
        """
        if self._connection is None:
            raise RuntimeError("the client is not open; use it inside `async with Client(...) as client:`")
        return self._connection

    @property
    def revision(self) -> str:
        """The protocol revision agreed on, such as `2026-07-28`."""
        return self.connection.handshake.revision

    @property
    def server_info(self) -> JSON:
        """The server's introduction: `name`, `version`, and more."""
        return self.connection.handshake.info

    @property
    def capabilities(self) -> JSON:
        """The capabilities that the server declared."""
        return self.connection.handshake.capabilities

    @property
    def instructions(self) -> str | None:
        """The server's instructions for models."""
        return self.connection.handshake.instructions

    async def list_tools(self) -> list[JSON]:
        """Return all tools, to the last page."""
        return await self._listed(TOOL)

    async def list_prompts(self) -> list[JSON]:
        """Return all prompts, to the last page."""
        return await self._listed(PROMPT)

    async def list_resources(self) -> list[JSON]:
        """Return all resources, to the last page."""
        return await self._listed(RESOURCE)

    async def list_resource_templates(self) -> list[JSON]:
        """Return all templates of resources, to the last page."""
        return await self._listed(TEMPLATE)

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        /,
        *,
        on_progress: Callable[[Progress], object] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - it bounds the server, which is notified
        raise_on_error: bool = True,
        **more: Any,
    ) -> ToolResult:
        """Call a tool.

        Args:
            name: Its name.
            arguments: Its arguments.
            on_progress: Receives progress, in a function or a coroutine function.
            timeout: Seconds without a sign of life; by default what the limits say.
            raise_on_error: Whether a failure is raised; otherwise it is a result with `is_error`.
            **more: Arguments, by name: those that are not called like the options above.

        Raises:
            ToolError: The tool failed; the message is the tool's own.
            ProtocolError: The server refused the call.
            ServerUnavailableError: There is no answer.
        """
        params = {"name": name, "arguments": _named(arguments, more)}
        result = await self.request("tools/call", params, on_progress=on_progress or self._on_progress, timeout=timeout)
        answer = ToolResult(
            content=_objects(result.get("content")),
            structured_content=result.get("structuredContent"),
            is_error=result.get("isError") is True,
            meta=result.get("_meta") or {},
        )
        if answer.is_error and raise_on_error:
            raise ToolError(answer.text or f"tool {name!r} failed, and does not say why")
        return answer

    async def get_prompt(self, name: str, arguments: Mapping[str, str] | None = None, /, **more: str) -> JSON:
        """Get a prompt, with its arguments filled in.

        Args:
            name: Its name.
            arguments: Its arguments.
            **more: Arguments, by name.

        Returns:
            A wire `GetPromptResult`: `{"messages": [...]}`.

        Raises:
            ProtocolError: The server refused.
            ServerUnavailableError: There is no answer.
        """
        return await self.request("prompts/get", {"name": name, "arguments": _named(arguments, more)})

    async def read_resource(self, uri: str) -> list[JSON]:
        """Read a resource.

        Returns:
            Its contents, as on the wire: objects with `uri`, and `text` or `blob`.

        Raises:
            ProtocolError: The server refused, or there is no such resource.
            ServerUnavailableError: There is no answer.
        """
        return _objects((await self.request("resources/read", {"uri": uri})).get("contents"))

    async def list_skills(self) -> list[JSON]:
        """Return the entries of all skills (SEP-2640), to the last page, with digests of their files; fetch no file."""
        return await self._listed(SKILL)

    async def get_skill(self, uri: str) -> JSON:
        """Return the current entry of one skill, with the digests of its files.

        Args:
            uri: The URI of its `SKILL.md`.

        Raises:
            ProtocolError: There is no such skill.
            ServerUnavailableError: There is no answer.
        """
        entry = (await self.request(SKILLS_GET, {"uri": uri})).get("skill")
        return entry if is_object(entry) else {}

    async def read_skill(self, skill: Mapping[str, Any], path: str = SKILL_FILE) -> bytes:
        """Return a file of a skill, after its digest was checked against the entry.

        Its contents come from the server, as the entry does: do not run them, nor trust them more than the server.

        Args:
            skill: The entry, as `list_skills` and `get_skill` return it.
            path: The path of the file in the skill.

        Raises:
            SkillChangedError: The file differs from the entry, or is not in it. `get_skill` has the new entry.
            ProtocolError: The server refused.
            ServerUnavailableError: There is no answer.
        """
        from gaia_bridge.sources.skills.verification import uri_of, verified

        uri = uri_of(skill, path)
        return verified(skill, uri, await self.read_resource(uri))

    async def complete(
        self,
        argument: str,
        value: str = "",
        *,
        prompt: str | None = None,
        template: str | None = None,
        context: Mapping[str, str] | None = None,
    ) -> list[str]:
        """Return suggestions for an argument of a prompt, or for a variable of a template.

        Args:
            argument: The argument.
            value: The text typed so far.
            prompt: The name of the prompt; this or `template`.
            template: The URI template.
            context: Arguments that were filled in before.

        Raises:
            TypeError: Neither or both of `prompt` and `template` were given.
            ProtocolError: The server refused.
            ServerUnavailableError: There is no answer.
        """
        if (prompt is None) == (template is None):
            raise TypeError(f"expected prompt= or template=, got {prompt=}, {template=}")
        ref = {"type": "ref/prompt", "name": prompt} if template is None else {"type": "ref/resource", "uri": template}
        params: JSON = {"ref": ref, "argument": {"name": argument, "value": value}}
        if context:
            params["context"] = {"arguments": dict(context)}
        completion = (await self.request("completion/complete", params)).get("completion")
        values = completion.get("values") if is_object(completion) else None
        return [str(item) for item in values] if is_array(values) else []

    async def ping(self) -> float:
        """Ask whether the server is there; return the seconds that the answer took."""
        with self._failures():
            return await self.connection.ping()

    async def subscribe(self, uri: str) -> None:
        """Subscribe to updates of a resource, which `on_change` receives."""
        with self._failures():
            await self.connection.subscribe(uri)

    async def unsubscribe(self, uri: str) -> None:
        """End the subscription to updates of a resource."""
        with self._failures():
            await self.connection.unsubscribe(uri)

    async def set_log_level(self, level: str) -> None:
        """Ask for log messages of a level (`debug` to `emergency`) and above."""
        with self._failures():
            await self.connection.set_log_level(level)

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        on_progress: Callable[[Progress], object] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - it bounds the server, which is notified
    ) -> JSON:
        """Make any request.

        Args:
            method: Such as `tools/call`.
            params: Its parameters, as on the wire.
            on_progress: Receives progress, in a function or a coroutine function.
            timeout: Seconds without a sign of life; by default what the limits say.

        Returns:
            The wire result.

        Raises:
            ProtocolError: The server answered with an error.
            ServerUnavailableError: There is no answer.
        """
        deadline = None if timeout is None else Deadline(timeout, max(timeout, self._limits.call_cap))
        report = None if on_progress is None else _awaiting(on_progress)
        given = None if params is None else dict(params)
        with self._failures():
            return await self.connection.request(method, given, on_progress=report, deadline=deadline)

    async def _prepared(self) -> object:
        """Return the target, with a file replaced by its agent."""
        target = self._target
        if isinstance(target, str) and _FILE.fullmatch(target.strip()):
            target = Path(target.strip())
        if isinstance(target, Path):
            target = await anyio.to_thread.run_sync(loaded_agent, target)
        if isinstance(target, Bridge):
            return BridgeTransport(target, self._endpoint)
        return target

    async def _listed(self, kind: DefinitionKind) -> list[JSON]:
        if not kind.is_declared(self.capabilities):
            return []
        with self._failures():
            return _objects(await self.connection.list_all(kind.name))

    @contextmanager
    def _failures(self) -> Generator[None]:
        try:
            yield
        except UpstreamError as error:
            assert self._server is not None
            raise ServerUnavailableError(self._server.name, self._server.described(error)) from error


def _objects(items: Any) -> list[JSON]:
    return [item for item in items if is_object(item)] if is_array(items) else []


def _awaiting(on_progress: Callable[[Progress], object]) -> Callable[[Progress], Awaitable[None]]:
    async def report(progress: Progress) -> None:
        outcome = on_progress(progress)
        if inspect.isawaitable(outcome):
            await outcome

    return report


def _named(arguments: Mapping[str, Any] | None, more: Mapping[str, Any]) -> JSON:
    """Return the arguments of a call, together.

    Raises:
        TypeError: They are given without their names.
    """
    if not isinstance(arguments, Mapping | None):  # pyright: ignore[reportUnnecessaryIsInstance] # of untyped programs
        raise TypeError(f"arguments: expected a mapping, got {arguments!r}; give each by its name, as in NAME=VALUE")
    return {**(arguments or {}), **more}
