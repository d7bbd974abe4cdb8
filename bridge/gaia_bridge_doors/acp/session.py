"""One conversation of an editor with an agent: its folder, its servers as entries of ours, its commands, its turns."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import anyio
from acp.schema import HttpMcpServer, McpServerStdio, SseMcpServer
from anyio.abc import TaskStatus
from msgspec import Struct

from gaia_bridge.bridge import Bridge
from gaia_bridge.calls.results.conversion import is_input_required, words
from gaia_bridge.chat_types import AnswersChats, ChatRequest, LentTool
from gaia_bridge.errors import RequestError
from gaia_bridge.middleware.base import Middleware
from gaia_bridge.model import HttpServerSpec, ServerOptions, ServerSpec, StdioServerSpec
from gaia_bridge.server.dispatcher import Dispatcher
from gaia_bridge.settings import Settings
from gaia_bridge.text.json_types import JSON
from gaia_bridge_doors.acp import updates
from gaia_bridge_doors.acp.access import Workplace
from gaia_bridge_doors.acp.channel import EditorRequest, TurnChannel
from gaia_bridge_doors.acp.errors import busy, invalid
from gaia_bridge_doors.acp.prompts import (
    command_arguments,
    command_of,
    hint_of,
    messages_of_prompt,
    title_of,
    user_message,
)
from gaia_bridge_doors.acp.questions import EditorQuestions
from gaia_bridge_doors.acp.turn import EditorTurn
from gaia_bridge_doors.conversation.errors import ChatError
from gaia_bridge_doors.conversation.lent_tools import Loan, offered_tools
from gaia_bridge_doors.conversation.models import Model
from gaia_bridge_doors.conversation.tool_request import EVERYTHING, Borrowing, ChatClient, RequestedTools
from gaia_bridge_doors.conversation.turn_log import TurnLog


def server_specs(servers: Iterable[Any], cwd: str, limit: int) -> list[ServerSpec]:
    """Return the entries of the editor's servers.

    Args:
        servers: The servers of the editor, read by the package's models.
        cwd: The folder of the conversation, where servers are launched.
        limit: The most servers that are allowed.

    Raises:
        RequestError: One of the servers cannot be used, or there are too many.
    """
    specs = [_spec(f"mcpServers[{number}]", server, cwd) for number, server in enumerate(servers)]
    if len(specs) > limit:
        raise invalid("mcpServers", f"{len(specs)} servers came", f"at most {limit}")
    names = [spec.name for spec in specs]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise invalid("mcpServers", f"two servers are called {twice!r}", "a name of its own for each")
    return specs


def _spec(at: str, server: Any, cwd: str) -> ServerSpec:
    name: str = server.name
    if not name.strip() or not name.isprintable():
        raise invalid(f"{at}.name", f"{name!r} came", "a name that can be seen")
    match server:
        case McpServerStdio():
            if not server.command:
                raise invalid(f"{at}.command", "an empty text came", "a program")
            environment = {variable.name: variable.value for variable in server.env}
            return StdioServerSpec(name, server.command, tuple(server.args), environment, cwd, options=_SERVER_OPTIONS)
        case HttpMcpServer() | SseMcpServer():
            if not _is_http(server.url):
                raise invalid(f"{at}.url", f"{server.url!r:.200} came", "a URL with http or https")
            headers = {header.name: header.value for header in server.headers}
            return HttpServerSpec(
                name, server.url, headers, sse=isinstance(server, SseMcpServer), options=_SERVER_OPTIONS
            )
        case _:
            kind = getattr(server, "type", type(server).__name__)
            raise invalid(f"{at}.type", f"{kind!r} came", "stdio, http or sse, as mcpCapabilities says")


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:  # half an IPv6 address
        return False
    return parts.scheme in ("http", "https") and bool(parts.netloc)


logger = logging.getLogger(__name__)

_SERVER_OPTIONS: Final = ServerOptions(is_of_one_client=True)
"""A server for this conversation alone: an agent configured for the same one has a process of its own for others."""

_ALL_TOOLS = RequestedTools(borrowings=(Borrowing("mcpServers", EVERYTHING, None),))


class Served(Struct, frozen=True):
    """The common parts of all conversations of an editor."""

    model: Model
    endpoint: Dispatcher
    """The endpoint of the agent itself."""
    middleware: Sequence[Middleware]
    """The middleware around requests."""
    settings: Settings
    images: bool
    """Whether the agent's model accepts pictures."""
    on_error_line: Callable[[str, str], None] | None
    """Called with each line that servers write to their error output."""
    ask: Callable[[str, JSON], Awaitable[Any]]
    """Sends the editor a request."""
    update: Callable[[str, JSON], Awaitable[None]]
    """Sends the editor an update of a conversation."""
    start: Callable[[Callable[[], Coroutine[Any, Any, None]]], object]
    """Starts a coroutine that ends with the editor."""


class EditorSession:
    """A conversation. `run` it in a task of its own.

    Args:
        session_id: The conversation's name.
        served: The common parts of all conversations.
        folders: The conversation's folder, and others that the person works in.
        servers: The servers that the editor gives to the conversation.
        editor: The editor's name, version and capabilities, as in ACP's `initialize`.
        noted: Stores the facts about the conversation, given its title; called before the first turn.
    """

    def __init__(
        self,
        session_id: str,
        served: Served,
        folders: Sequence[Path],
        servers: Sequence[ServerSpec],
        editor: Mapping[str, Any],
        noted: Callable[[str], Awaitable[None]],
    ) -> None:
        self.session_id = session_id
        self.announced = anyio.Event()
        """Set once the editor knows the conversation's name."""
        self._served = served
        self._folders = folders
        self._servers = servers
        self._editor = editor
        self._noted = noted
        self._is_new = True
        self._client = ChatClient(("acp", session_id))
        self._scope = anyio.CancelScope()
        self._ended = anyio.Event()
        self._turn_over = anyio.Event()
        self._changed = anyio.Event()
        self._endpoint: Dispatcher | None = None
        """The endpoint of the editor's servers."""
        self._turn: EditorTurn | None = None
        self._questions = EditorQuestions(
            served.ask,
            self.notify,
            session_id,
            editor.get("elicitation"),
            folders,
            served.settings.agent.question_timeout,
        )
        self._workplace = Workplace(
            session_id, folders[0], editor, self._questions.put, served.start, served.settings.acp
        )

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Run the servers, and report the commands, until `end`.

        Reports started once servers are being started, or `end` was called before that.
        """
        source, is_started = self._served.model.source, False
        with self._scope:
            stop_listening = source.listen(lambda _: self._changed.set())
            try:
                async with AsyncExitStack() as stack:
                    if self._servers:
                        bridge = Bridge(
                            servers=self._servers,
                            middleware=self._served.middleware,
                            settings=self._served.settings,
                            on_error_line=self._served.on_error_line,
                        )
                        await stack.enter_async_context(bridge)
                        self._endpoint = bridge.dispatcher()
                        self._endpoint.catalog.listen(lambda _: self._changed.set())
                    task_status.started()
                    is_started = True
                    await self._tell_commands()
            except Exception:
                if not is_started:
                    raise
                # It goes on without servers; the other conversations are not concerned.
                logger.exception("the servers of conversation %s have ended", self.session_id)
            finally:
                self._endpoint = None
                stop_listening()
                self._client.leave()
                self._ended.set()
        if not is_started:
            task_status.started()

    async def end(self) -> None:
        """Cancel the turn, end the servers, and wait until the conversation stores and sends nothing any more."""
        self.cancel()
        self._scope.cancel()
        await self._ended.wait()
        if self._turn is not None:
            await self._turn_over.wait()

    async def notify(self, update: JSON) -> None:
        """Send the editor an update of this conversation."""
        await self._served.update(self.session_id, update)

    def cancel(self) -> None:
        """Cancel the turn, if one is running."""
        if self._turn is not None:
            self._turn.cancel()

    async def prompt(self, blocks: Sequence[Any]) -> JSON:
        """Let the agent answer a prompt.

        Args:
            blocks: The prompt's blocks, read by the package's models.

        Returns:
            The result of `session/prompt`.

        Raises:
            RequestError: The prompt is invalid, or another is being answered.
        """
        if self._turn is not None:
            raise busy(
                f"conversation {self.session_id} is answering a prompt; wait for its result, or send session/cancel"
            )
        message = user_message(blocks, images=self._served.images)
        line = TurnLog("session/prompt", str(self._editor.get("name", "editor")), self.session_id)
        line.asks(self._served.model)
        with ExitStack() as turn_ends:
            turn_ends.callback(line.tell)
            farewell = self._served.settings.chats.farewell
            self._turn_over = anyio.Event()
            self._turn = EditorTurn(self._served.model, self.notify, self._questions, self._workplace, line, farewell)
            try:
                return await self._turn.play(
                    partial(self._chat, blocks, message, line, turn_ends), partial(self._request, params={})
                )
            finally:
                self._turn = None
                self._turn_over.set()

    async def _chat(
        self, blocks: Sequence[Any], message: JSON, line: TurnLog, turn_ends: ExitStack, channel: TurnChannel
    ) -> ChatRequest:
        """Return the request to the agent."""
        if self._endpoint is not None:
            with anyio.move_on_after(self._served.settings.acp.starting if self._is_new else 0):
                for source in self._endpoint.catalog.sources:
                    await source.learn()
        if self._is_new:
            await self._noted(title_of(message))
            self._is_new = False
        agent = self._served.model.source.agent
        if not isinstance(agent, AnswersChats):  # it takes nothing but a text
            return ChatRequest(await self._said(blocks, message, channel), self.session_id)
        return ChatRequest(
            [_folders_told(self._folders), *await self._said(blocks, message, channel)],
            self.session_id,
            await self._lent(line, turn_ends, channel),
            events=True,
            is_own=True,
        )

    async def _lent(self, line: TurnLog, turn_ends: ExitStack, channel: TurnChannel) -> Sequence[LentTool]:
        """Return the tools of the editor's servers."""
        if self._endpoint is None:
            return ()
        limits, agent = self._served.settings, self._served.model.source.agent
        tools = await offered_tools(self._endpoint.catalog, _ALL_TOOLS, agent, limits.acp.tools)

        def request(name: str, arguments: JSON) -> EditorRequest:
            return self._request(channel, {"name": name, "arguments": arguments})

        loan = Loan(self._endpoint, tools, request, line)
        turn_ends.callback(loan.end)
        return loan.tools

    def _request(self, channel: TurnChannel, params: JSON) -> EditorRequest:
        return EditorRequest(
            self._client.key,
            channel.answer,
            channel.report,
            self._questions.capabilities,
            {name: self._editor[name] for name in ("name", "version") if name in self._editor},
            self._client.when_it_leaves,
            params,
        )

    # Commands

    def _prompts(self) -> dict[str, tuple[JSON, Dispatcher]]:
        """Return the prompts for commands: each one's definition, and the endpoint that publishes it."""
        found: dict[str, tuple[JSON, Dispatcher]] = {}
        for endpoint in (self._served.endpoint, self._endpoint):
            for definition in () if endpoint is None else endpoint.catalog.definitions("prompt", modern=False):
                assert endpoint is not None
                found.setdefault(_typed(definition["name"]), (definition, endpoint))
        return found

    async def _tell_commands(self) -> None:
        """Report the commands to the editor whenever they change."""
        await self.announced.wait()
        told: list[JSON] = []
        while True:
            self._changed = anyio.Event()
            available = [_command(name, definition) for name, (definition, _) in self._prompts().items()]
            if available != told:
                await self.notify(updates.commands(available))
                told = available
            await self._changed.wait()

    async def _said(self, blocks: Sequence[Any], message: JSON, channel: TurnChannel) -> list[JSON]:
        """Return the person's messages; a command is replaced by the prompt that it names, filled in."""
        command = command_of(blocks)
        found = None if command is None else self._prompts().get(command[0])
        if command is None or found is None:  # perhaps a path, or a command of the agent's own
            return [message]
        definition, endpoint = found
        arguments = command_arguments({**definition, "name": command[0]}, command[1])
        request = self._request(channel, {"name": definition["name"], "arguments": arguments})
        request.method = "prompts/get"
        try:
            result = await endpoint.own_request(request)
        except RequestError as error:
            raise ChatError(400, f"/{command[0]} cannot be filled in: {words(error)}") from None
        messages = messages_of_prompt(result, images=self._served.images)
        if is_input_required(result) or not messages:
            raise ChatError(400, f"/{command[0]} has no messages.")
        files = command[2]
        return [*messages, *([user_message(files, images=self._served.images)] if files else [])]


def _typed(name: str) -> str:
    """Return a prompt's name as a command that can be typed."""
    return "-".join(name.split())


def _command(name: str, definition: JSON) -> JSON:
    command: JSON = {"name": name, "description": definition.get("description") or definition.get("title") or name}
    hint = hint_of(definition)
    return {**command, "input": {"hint": hint}} if hint else command


def _folders_told(folders: Sequence[Path]) -> JSON:
    own, *others = folders
    more = f" They also work in {', '.join(map(str, others))}." if others else ""
    return {"role": "system", "content": f"The user asks from an editor, and works in the folder {own}.{more}"}
