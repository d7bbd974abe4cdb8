"""The data that pass between a server of chats and the agent that answers. Facts only; messages are plain JSON.

Messages, tool calls and tools of clients have the shape of OpenAI's chat completions, which every model server speaks.
Tools that the bridge lends have the shape of MCP.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Protocol, runtime_checkable

from msgspec import Struct, field

from gaia_bridge.text.json_types import JSON

__all__ = [
    "ASK_SESSION", "AnswersChats", "ChatRequest", "KeepsChats", "LentTool", "OfferedAsModel", "Piece", "Plan",
    "Reply", "Thought", "ToolBegun", "ToolCall", "ToolEnded", "TurnEvent", "Usage",
]  # fmt: skip


ASK_SESSION: Final = "ask_"
"""The first characters of the ids of conversations that the tool `ask` begins for MCP clients."""


class ToolCall(Struct, frozen=True):
    """One call that a model asks for."""

    id: str
    """Never empty; unique within one reply."""
    name: str
    """As the model wrote it, which may be no tool at all."""
    arguments: str
    """JSON text, as the model wrote it, which may be malformed."""


class Usage(Struct, frozen=True):
    """Tokens, as the model's server counted them; zero where it did not."""

    prompt_tokens: int = 0
    completion_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.prompt_tokens + other.prompt_tokens, self.completion_tokens + other.completion_tokens)


class Reply(Struct, frozen=True):
    """The whole answer of a model or an agent to one request."""

    text: str
    """The whole text, including the pieces that were sent before."""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str = "stop"
    """OpenAI's word: `stop`, `length`, `tool_calls` or `content_filter`."""
    usage: Usage = Usage()
    tools_run: tuple[str, ...] = ()
    """The names of the tools that were run on the way to it, for the log; one that was run twice, twice."""


class ToolBegun(Struct, frozen=True):
    """An agent is about to call one of its tools."""

    id: str
    """Unique in the process: models repeat theirs."""
    name: str
    """The tool's key; as the model wrote it, if it is no tool."""
    title: str
    """The text that a person is shown."""
    arguments: JSON
    """The arguments of the call; empty if the model wrote nothing that makes sense."""
    annotations: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The tool's own annotations, as MCP names them: `readOnlyHint`, `destructiveHint`, ..."""


class ToolEnded(Struct, frozen=True):
    """A call that was begun has come to its end, or was never made."""

    id: str
    text: str
    """The text that the model is sent."""
    value: Any = None
    """The value that the tool returned, as plain JSON; `None` if it returned nothing."""
    problem: str | None = None
    """The error, if the tool failed; `None` otherwise."""


class Thought(Struct, frozen=True):
    """A piece of a model's thoughts before it answers, which is no part of the answer."""

    text: str


class Plan(Struct, frozen=True):
    """The whole plan of an agent, sent again each time that a part of it changes."""

    entries: Sequence[JSON]
    """Each with `content`, `status` (`pending`, `in_progress`, `completed`), `priority` (`high`, `medium`, `low`)."""


TurnEvent = ToolBegun | ToolEnded | Thought | Plan
"""An event beside the text of an answer."""

Piece = str | TurnEvent | Reply
"""A part of an answer."""


class LentTool(Struct, frozen=True):
    """A tool that is given to an agent for one turn, such as one that the bridge publishes."""

    definition: JSON
    """An MCP tool definition: `name`, `description`, `inputSchema`, `annotations`."""
    call: Callable[[JSON], Awaitable[JSON]]
    """Run the tool: takes its arguments, returns a wire `CallToolResult`. Failures are results with `isError`."""


class ChatRequest(Struct, frozen=True):
    """One turn that an agent is asked for."""

    messages: Sequence[JSON]
    """The conversation so far; the last message is the question. With a session, only the new messages."""
    session_id: str | None = None
    """The session whose history this turn continues; `None` for a conversation that the client keeps itself."""
    lent_tools: Sequence[LentTool] = ()
    """Tools that the agent may use in this turn beside its own."""
    client_tools: Sequence[JSON] = ()
    """Tools that the client runs itself, in OpenAI's shape: a call of one ends the turn, with `tool_calls`."""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """For the model, in OpenAI's words: `temperature`, `max_tokens`, `tool_choice`, ..."""
    must_exist: bool = False
    """Whether the session must exist already; otherwise it may begin with this turn."""
    events: bool = False
    """Whether the answer may have `TurnEvent`s between its texts."""
    is_own: bool = False
    """Whether the server of the chat has named the session and will end it. Otherwise a client has named the session,
    which ends when nobody uses it.
    """


@runtime_checkable
class OfferedAsModel(Protocol):
    """An agent that chat clients can choose as a model ("Multiple Inheritance Pattern")."""

    def get_model_id(self) -> str:
        """Return the model's name."""
        ...

    def get_model_info(self) -> dict[str, Any]:
        """Return `max_input_tokens`, `max_output_tokens` and `description`."""
        ...


@runtime_checkable
class AnswersChats(Protocol):
    """An agent that answers turn by turn. One that does not, but has `process_query(text)`, answers in one piece."""

    def answer_chat(self, request: ChatRequest) -> AsyncGenerator[Piece]:
        """Yield pieces of the answer as they come, and one `Reply` at the end. Usable on any event loop.

        Events are yielded only if `ChatRequest.events` is set.

        Raises:
            ModelError: There is no answer; the message names what to start or set.
        """
        ...


@runtime_checkable
class KeepsChats(Protocol):
    """An agent that can say which chats of its own clients it remembers (`ChatRequest.is_own`). Methods may block."""

    @property
    def keeps_chats(self) -> bool:
        """Whether the chats outlive the process."""
        ...

    def describe_chat(self, session_id: str, about: dict[str, Any]) -> None:
        """Remember the metadata of a chat, which `list_chats` returns."""
        ...

    def list_chats(self) -> list[dict[str, Any]]:
        """Return all chats: `session_id`, `last_activity` (ISO) and `metadata` of each."""
        ...

    def get_chat(self, session_id: str) -> list[JSON] | None:
        """Return the messages of a chat in OpenAI's shape, without a system message; `None` if there is no chat."""
        ...

    def end_chat(self, session_id: str) -> None:
        """Forget a chat."""
        ...
