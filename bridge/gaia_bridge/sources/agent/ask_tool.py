"""A tool that asks an agent: its loop of model and tools, published to MCP clients.

A conversation is continued by its id, which the bridge makes up, and which nobody can guess. A name that a client
makes up stands for a conversation of the client's own session, and of no other: two clients that both send "main"
have two conversations. Where each request stands alone (2026-07-28 over HTTP), a name can only begin one.
"""

from __future__ import annotations

import hashlib
import inspect
import re
import secrets
import sys
import time
from base64 import urlsafe_b64encode
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final

import anyio
from msgspec import Struct, field

from gaia_bridge.calls.request_context import RequestContext, get_request_context
from gaia_bridge.chat_types import ASK_SESSION, AnswersChats, ChatRequest, Reply
from gaia_bridge.errors import ToolError, UnknownSessionError
from gaia_bridge.text.json_types import JSON, is_object

_REPORT_INTERVAL: Final = 0.2
"""Seconds between two pieces of an answer that is reported as it comes: a person reads no faster."""
_SESSION: Final = (
    "A name of your choice begins a conversation. The result says its id in `session`, which continues it; on one "
    "connection, so does the name. Without any, nothing is kept."
)
_CONTINUED_BY: Final = "(The session of this conversation is {}, for the next question in it.)"
_UNKNOWN: Final = (
    "There is no conversation {0}: it has ended, or never was. Begin one by a name of your own, or ask without."
)
_USAGE: Final[JSON] = {
    "type": "object",
    "properties": {"promptTokens": {"type": "integer"}, "completionTokens": {"type": "integer"}},
    "required": ["promptTokens", "completionTokens"],
    "description": "Tokens, as the model's server counted them; zero where it did not.",
}
_BASES: Final = ("gaia.agents.base", "gaia.mcp", "gaia_bridge.")
"""Packages whose classes agents are derived from, here and in amd-gaia: their docstrings say nothing about an agent."""
_SECRET_BYTES: Final = 16
_ID: Final = re.compile(rf"{ASK_SESSION}[A-Za-z0-9_-]{{22}}")
"""The bytes of a secret, in base64."""
_GAVE_WAY: Final = (
    "This question was given up: it waited for an answer of its client when another came in the same conversation."
)


class ConversationReference(Struct, frozen=True):
    """The conversation that a client's `session` argument stands for."""

    id: str
    must_exist: bool
    """Whether the client sent an id, which only an existing conversation has."""
    is_named: bool
    """Whether the value that the client sent continues the conversation the next time as well."""


def conversation_of(session: str, session_key: str | None) -> ConversationReference:
    """Return the conversation that a client refers to.

    Args:
        session: The client's value: an id, or a name of its own.
        session_key: The secret of the client's session, if it has one.
    """
    if _ID.fullmatch(session):
        return ConversationReference(session, must_exist=True, is_named=True)
    if session_key is None:
        return ConversationReference(_id(secrets.token_bytes(_SECRET_BYTES)), must_exist=False, is_named=False)
    name = session.encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(name, key=session_key.encode(), digest_size=_SECRET_BYTES).digest()
    return ConversationReference(_id(digest), must_exist=False, is_named=True)


def _id(secret: bytes) -> str:
    return ASK_SESSION + urlsafe_b64encode(secret).decode().rstrip("=")


class _Turn(Struct, eq=False):
    request: RequestContext
    scope: anyio.CancelScope


class _Turns(Struct, eq=False):
    """The questions of one conversation that wait or are being answered, in their order."""

    lock: anyio.Lock = field(default_factory=anyio.Lock)
    turns: list[_Turn] = field(default_factory=list[_Turn])


class Conversations:
    """The questions of clients that are being answered now. Only on the agent's own event loop."""

    def __init__(self) -> None:
        self._turns: dict[str, _Turns] = {}

    @asynccontextmanager
    async def turn(self, conversation: ConversationReference, request: RequestContext) -> AsyncGenerator[None]:
        """Wait for the turn of one question, and hold it while the question is answered.

        Questions of one conversation are answered one after the other. One that waits for its client gives way to the
        next: a client that could not answer, or did not want to, never comes back, and asks something else.

        Raises:
            ToolError: The question gave way to a later one.
        """
        held = self._turns.setdefault(conversation.id, _Turns())
        for earlier in held.turns:
            if earlier.request.is_parked:
                earlier.scope.cancel()
        with anyio.CancelScope() as scope:
            held.turns.append(turn := _Turn(request, scope))
            try:
                async with held.lock:
                    yield
            finally:
                held.turns.remove(turn)
                if not held.turns:
                    del self._turns[conversation.id]
        if scope.cancelled_caught:
            raise ToolError(_GAVE_WAY)


class AskTool:
    """Lets clients ask an agent. It has the methods of an agent, with one tool.

    Args:
        agent: The agent that answers: one with `answer_chat`, or with `process_query(text)`.
        description: The agent's strengths, for the model that decides whom to ask; by default the first paragraph of
            its class's docstring.
        timeout: Seconds for one answer; by default the limit of all tools.
    """

    def __init__(self, agent: Any, name: str = "ask", description: str = "", timeout: float | None = None) -> None:
        self._agent = agent
        self._name = name
        self._description = description
        self._conversations = Conversations()
        self.timeouts: Mapping[str, float] = {} if timeout is None else {name: timeout}

    def get_mcp_tool_definitions(self) -> list[JSON]:
        """Return the definition of the one tool."""
        converses = isinstance(self._agent, AnswersChats)
        properties: JSON = {"prompt": {"type": "string", "description": "What the agent is asked, or told to do."}}
        answer: JSON = {"answer": {"type": "string"}}
        if converses:
            properties["session"] = {"type": "string", "description": _SESSION, "minLength": 1, "maxLength": 128}
            answer |= {
                "session": {"type": "string", "description": "The id of the conversation, which continues it."},
                "tools": {"type": "array", "items": {"type": "string"}, "description": "The tools that it has used."},
                "usage": _USAGE,
            }
        return [
            {
                "name": self._name,
                "title": f"Ask {type(self._agent).__name__}",
                "description": self._description or _documentation(self._agent),
                "inputSchema": {"type": "object", "properties": properties, "required": ["prompt"]},
                "outputSchema": {"type": "object", "properties": answer, "required": ["answer"]},
            }
        ]

    def execute_mcp_tool(self, tool_name: str, arguments: JSON) -> Any:
        """Ask the agent.

        Raises:
            ValueError: The tool is unknown.
            ModelError: There is no answer; the message says which program to start, or which setting to change.
        """
        if tool_name != self._name:
            raise ValueError(f"Unknown tool: {tool_name}")
        if isinstance(self._agent, AnswersChats):
            session, request = arguments.get("session"), get_request_context()
            conversation = None if session is None else conversation_of(str(session), request.session_key)
            return self._converse(self._agent, str(arguments["prompt"]), conversation, request)
        return _answer(self._agent.process_query(str(arguments["prompt"])))

    async def _converse(
        self, agent: AnswersChats, prompt: str, conversation: ConversationReference | None, request: RequestContext
    ) -> JSON:
        message = {"role": "user", "content": prompt}
        if conversation is None:
            return _result(await _reply(agent, ChatRequest([message]), request))
        chat = ChatRequest([message], conversation.id, must_exist=conversation.must_exist)
        async with self._conversations.turn(conversation, request):
            try:
                reply = await _reply(agent, chat, request)
            except UnknownSessionError:
                raise ToolError(_UNKNOWN.format(conversation.id)) from None
        return _result(reply, conversation)


def _documentation(agent: object) -> str:
    """Return the first paragraph of the docstring that an author wrote for the class of an agent, or for its base."""
    for base in type(agent).__mro__:
        package = base.__module__.partition(".")[0]
        if base.__doc__ and package not in sys.stdlib_module_names and not base.__module__.startswith(_BASES):
            return inspect.cleandoc(base.__doc__).partition("\n\n")[0]
    return f"Gives {type(agent).__name__} a task."


class _Reporter:
    """Reports an answer as it comes, as progress messages to the client; their number counts characters."""

    def __init__(self, request: RequestContext) -> None:
        self._request = request
        self._waiting: list[str] = []
        self._reported = 0
        self._next = 0.0

    def __call__(self, piece: str) -> None:
        """Add a piece, and report if it is time."""
        self._waiting.append(piece)
        if time.monotonic() >= self._next:
            self.rest()

    def rest(self) -> None:
        """Report the pieces that are not reported yet."""
        text = "".join(self._waiting)
        self._waiting.clear()
        self._next = time.monotonic() + _REPORT_INTERVAL
        if text:
            self._reported += len(text)
            self._request.report_progress(self._reported, None, text)


async def _reply(agent: AnswersChats, chat: ChatRequest, request: RequestContext) -> Reply:
    """Return the agent's answer; report its pieces to the client as they come."""
    report, reply = _Reporter(request), None
    async with aclosing(agent.answer_chat(chat)) as pieces:
        async for piece in pieces:
            if isinstance(piece, Reply):
                reply = piece
            elif isinstance(piece, str):
                report(piece)
    report.rest()
    if reply is None:
        raise ToolError("the agent gave no answer")
    return reply


def _result(reply: Reply, conversation: ConversationReference | None = None) -> JSON:
    usage = {"promptTokens": reply.usage.prompt_tokens, "completionTokens": reply.usage.completion_tokens}
    structured: JSON = {"answer": reply.text, "tools": list(reply.tools_run), "usage": usage}
    content = [{"type": "text", "text": reply.text}]
    if conversation is not None:
        structured["session"] = conversation.id
        # Many clients show their model no structured content, so the id is in the text as well.
        if not conversation.is_named:
            content.append({"type": "text", "text": _CONTINUED_BY.format(conversation.id)})
    return {"content": content, "structuredContent": structured}


def _answer(value: Any) -> Any:
    """Return the result of `process_query`, which gives text, or GAIA's dictionary with the text in its `result`."""
    text: Any = value.get("result") if is_object(value) else value
    if not isinstance(text, str):
        return value
    return {"content": [{"type": "text", "text": text}], "structuredContent": {"answer": text}}
