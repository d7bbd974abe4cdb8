"""An editor: the client side of the package for the Agent Client Protocol, and what it is shown and asked."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from gaia.agents.base import Agent
from gaia_bridge.bridge import Bridge
from gaia_bridge.middleware.base import Middleware
from gaia_bridge.settings import Settings
from gaia_bridge.text.json_types import JSON
from tests.support.on_demand import acp, acp_schema, acp_serving
from tests.support.waiting import PATIENCE, Changing

__all__ = ["Editing", "EditorClient", "Workbench", "capabilities_of", "editing", "stdio_server", "text"]


def text(said: str) -> Any:
    """A text in a prompt."""
    return acp.text_block(said)


def stdio_server(name: str, command: str, *args: str, **env: str) -> Any:
    """A server that the editor gives to a conversation."""
    variables = [acp_schema.EnvVariable(name=key, value=value) for key, value in env.items()]
    return acp_schema.McpServerStdio(name=name, command=command, args=list(args), env=variables)


class EditorClient(Changing):
    """Implements `acp.Client`, but for files and terminals.

    Args:
        choose: The option that is chosen of every permission: its id, or `None` for none.
        fill: What every form is filled in with; `None` declines.
    """

    def __init__(self, choose: str | None = "allow", fill: JSON | None = None) -> None:
        super().__init__()
        self.choose = choose
        self.fill = fill
        self.gate: anyio.Event | None = None
        """What answers wait for."""
        self.updates: list[tuple[str, JSON]] = []
        self.sent: list[JSON] = []
        """The updates as they came: the package's models leave out what they do not understand."""
        self.permissions: list[JSON] = []
        self.forms: list[JSON] = []

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        """Shown to the person."""
        shown = update.model_dump(mode="json", by_alias=True, exclude_unset=True)
        self.updates.append((session_id, shown))
        self._changed()

    async def request_permission(self, session_id: str, tool_call: Any, options: Sequence[Any], **kwargs: Any) -> Any:
        """The person is asked."""
        call = tool_call.model_dump(mode="json", by_alias=True, exclude_none=True)
        kinds = {option.option_id: option.kind for option in options}
        known = call["toolCallId"] in [begun["toolCallId"] for begun in self.shown("tool_call", session_id)]
        self.permissions.append({"session": session_id, "call": call, "options": kinds, "is_known": known})
        self._changed()
        if self.gate is not None:
            await self.gate.wait()
        if self.choose is None:
            return acp.RequestPermissionResponse(outcome=acp_schema.DeniedOutcome(outcome="cancelled"))
        outcome = acp_schema.AllowedOutcome(outcome="selected", option_id=self.choose)
        return acp.RequestPermissionResponse(outcome=outcome)

    async def create_elicitation(self, message: str, mode: Any, **kwargs: Any) -> Any:
        """The person fills in a form."""
        self.forms.append({"message": message, **mode.model_dump(mode="json", by_alias=True, exclude_none=True)})
        if self.fill is None:
            return acp_schema.DeclineElicitationResponse(action="decline")
        return acp_schema.AcceptElicitationResponse(action="accept", content=self.fill)

    def overhear(self, event: Any) -> None:
        """Keep updates as they came; an observer of the connection."""
        if event.direction == "incoming" and event.message.get("method") == "session/update":
            self.sent.append(event.message["params"]["update"])

    def shown(self, kind: str, session_id: str | None = None) -> list[JSON]:
        """The updates of one kind, of one conversation or of all."""
        return [
            update
            for session, update in self.updates
            if update["sessionUpdate"] == kind and session_id in (None, session)
        ]

    def said(self, session_id: str | None = None) -> str:
        """What the agent has answered."""
        return "".join(update["content"]["text"] for update in self.shown("agent_message_chunk", session_id))


class Workbench(EditorClient):
    """An editor that lets agents use files, some of which are not saved, and terminals, whose programs are real."""

    def __init__(self, **unsaved: str) -> None:
        super().__init__()
        self.unsaved = unsaved
        """By the names of files."""
        self.asked: list[str] = []
        """What of it agents have used."""
        self.refuses = ""
        """The part of a path that nobody may read."""
        self.tells_status = True
        """Whether the output of a program comes with how it has ended."""
        self.released: list[str] = []
        """Terminals that agents have released."""
        self.open: dict[str, asyncio.subprocess.Process] = {}
        """Programs in terminals that are not released."""

    async def read_text_file(
        self, session_id: str, path: str, line: int | None = None, limit: int | None = None, **kwargs: Any
    ) -> Any:
        """The agent reads a file."""
        self.asked.append(f"read {path}")
        if self.refuses and self.refuses in path:
            raise acp.RequestError(-32000, "this file is nobody's")
        name = Path(path).name
        text = self.unsaved[name] if name in self.unsaved else await anyio.Path(path).read_text(encoding="utf-8")
        lines = text.splitlines(keepends=True)[(line or 1) - 1 :]
        return acp_schema.ReadTextFileResponse(content="".join(lines[:limit]))

    async def write_text_file(self, session_id: str, path: str, content: str, **kwargs: Any) -> Any:
        """The agent writes a file."""
        self.asked.append(f"write {path}")
        await anyio.Path(path).write_text(content, encoding="utf-8")
        return acp_schema.WriteTextFileResponse()

    async def create_terminal(
        self,
        session_id: str,
        command: str,
        args: list[str] | None = None,
        env: list[Any] | None = None,
        cwd: str | None = None,
        output_byte_limit: int | None = None,
        **kwargs: Any,
    ) -> Any:
        """The agent runs a command."""
        self.asked.append(f"run {Path(command).name} in {cwd}, {output_byte_limit} bytes")
        self._changed()
        if self.gate is not None:
            await self.gate.wait()
        process = await asyncio.create_subprocess_exec(
            command,
            *(args or ()),
            cwd=cwd,
            env={**os.environ, **{variable.name: variable.value for variable in env or ()}},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        terminal = f"terminal-{process.pid}"
        self.open[terminal] = process
        self._changed()
        return acp_schema.CreateTerminalResponse(terminal_id=terminal)

    async def wait_for_terminal_exit(self, session_id: str, terminal_id: str, **kwargs: Any) -> Any:
        """The agent waits for its end."""
        code = await self.open[terminal_id].wait()
        return acp_schema.WaitForTerminalExitResponse(exit_code=code if code >= 0 else None)

    async def terminal_output(self, session_id: str, terminal_id: str, **kwargs: Any) -> Any:
        """The agent looks at what it has written."""
        process = self.open[terminal_id]
        assert process.stdout is not None
        output = (await process.stdout.read()).decode()
        code = await process.wait()
        status = acp_schema.TerminalExitStatus(
            exit_code=code if code >= 0 else None, signal=None if code >= 0 else str(-code)
        )
        told = status if self.tells_status else None
        return acp_schema.TerminalOutputResponse(output=output, truncated=False, exit_status=told)

    async def kill_terminal(self, session_id: str, terminal_id: str, **kwargs: Any) -> Any:
        """The agent ends it."""
        self.asked.append("kill")
        self.open[terminal_id].kill()
        return acp_schema.KillTerminalResponse()

    async def release_terminal(self, session_id: str, terminal_id: str, **kwargs: Any) -> Any:
        """The agent does not need it any more."""
        process = self.open.pop(terminal_id)
        if process.returncode is None:
            process.kill()
        await process.communicate()
        self.released.append(terminal_id)
        self._changed()
        return acp_schema.ReleaseTerminalResponse()


class Editing:
    """An editor with an agent.

    Args:
        client: What it is shown and asked.
        connection: The package's own client side.
    """

    def __init__(self, client: EditorClient, connection: Any) -> None:
        self.client = client
        self.connection = connection

    async def begin(self, *servers: Any, cwd: Path | str = "/", **more: Any) -> str:
        """A new conversation; its name."""
        response = await self.connection.new_session(str(cwd), mcp_servers=list(servers), **more)
        name: str = response.session_id
        return name

    async def send(self, method: str, **params: Any) -> Any:
        """Send a request that the package has no method for; its result."""
        with anyio.fail_after(PATIENCE):
            return await self.connection._conn.send_request(method, params)

    async def ask(self, session_id: str, *prompt: Any) -> Any:
        """Say something, and wait for the end of the turn."""
        blocks = [text(block) if isinstance(block, str) else block for block in prompt]
        with anyio.fail_after(PATIENCE):
            return await self.connection.prompt(session_id, blocks)


def capabilities_of(client: EditorClient, *, forms: bool = False) -> Any:
    """What an editor declares."""
    shows: JSON = {}
    if forms:
        shows["elicitation"] = acp_schema.ElicitationCapabilities(form=acp_schema.ElicitationFormCapabilities())
    if isinstance(client, Workbench):
        shows["fs"] = acp_schema.FileSystemCapabilities(read_text_file=True, write_text_file=True)
        shows["terminal"] = True
    return acp_schema.ClientCapabilities(**shows)


@asynccontextmanager
async def editing(
    agent: Any,
    client: EditorClient | None = None,
    *,
    forms: bool = False,
    images: bool = False,
    settings: Settings | None = None,
    middleware: Sequence[Middleware] = (),
) -> AsyncGenerator[Editing]:
    """An editor that has said hello to an agent of this process, over a socket.

    Args:
        agent: The agent.
        client: What the editor is shown and asked.
        forms: Whether it shows forms.
        images: Whether the agent's model takes pictures.
        settings: Limits and deadlines.
        middleware: What is done around requests.
    """
    client = client or EditorClient()
    person: Any = client
    ours, theirs = socket.socketpair()
    reader, ours_writer = await asyncio.open_connection(sock=ours)
    their_reader, writer = await asyncio.open_connection(sock=theirs)

    async def write(line: bytes) -> bool:
        ours_writer.write(line)
        await ours_writer.drain()
        return True

    async with Bridge(agent, settings=settings, middleware=middleware) as bridge, anyio.create_task_group() as tasks:
        tasks.start_soon(partial(acp_serving.serve_editor, bridge, reader, write, images=images))
        connection = acp.connect_to_agent(
            person, writer, their_reader, use_unstable_protocol=True, observers=[client.overhear]
        )
        await connection.initialize(
            acp.PROTOCOL_VERSION,
            capabilities_of(client, forms=forms),
            acp_schema.Implementation(name="test-editor", version="1"),
        )
        try:
            yield Editing(client, connection)
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(PATIENCE):
                await connection.close()
                writer.close()
                await writer.wait_closed()
            ours_writer.close()
            assert [update for _, update in client.updates] == client.sent
            if isinstance(agent, Agent):
                agent.close()
