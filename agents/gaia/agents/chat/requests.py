"""The request for a turn, and the engine's hooks in its agent. Facts; nothing heavy is loaded for them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import Context, copy_context
from typing import Any

from msgspec import Struct, field

from gaia.agents.base.console import Console
from gaia.agents.base.tools import ToolEntry
from gaia.agents.chat.limits import DEFAULT_SESSION
from gaia.agents.chat.messages import user_message
from gaia_bridge.text.json_types import JSON

__all__ = ["AgentHooks", "TurnRequest"]


class AgentHooks(Struct, frozen=True):
    """The agent's functions that the engine calls, each time anew."""

    console: Callable[[], Console]
    """Returns the agent's console."""
    own_prompt: Callable[[], str]
    """Says who the agent is and how it should work. May block."""
    model_tools: Callable[[], Mapping[str, ToolEntry]]
    """All tools that its model may call right now. May block."""
    confirm_tool: Callable[[str, dict[str, Any]], bool]
    """Asks a person whether a tool may be used. May block."""
    prepare_turn: Callable[[], Awaitable[None]]
    """Does what has to be done before a turn, on the background loop."""


class TurnRequest(Struct, frozen=True):
    """A request for one turn."""

    messages: Sequence[JSON]
    session_id: str | None = DEFAULT_SESSION
    """`None` if whoever asks keeps the history."""
    create_if_missing: bool = True
    max_steps: int | None = None
    lent: Mapping[str, ToolEntry] = field(default_factory=dict[str, ToolEntry])
    client_tools: Sequence[JSON] = ()
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    events: bool = False
    """Whether whoever asks wants to know what happens beside the text."""
    context: Context = field(default_factory=copy_context)

    @classmethod
    def of(cls, prompt: object, session_id: str, create_if_missing: bool, max_steps: int | None) -> TurnRequest:
        """Make a request from a person's prompt.

        Raises:
            TypeError: The prompt is no text.
            ValueError: The number of steps is none.
        """
        if not isinstance(prompt, str):
            raise TypeError(f"a prompt is text; got a {type(prompt).__name__}")
        if max_steps is not None and max_steps < 1:
            raise ValueError(f"max_steps is at least 1; got {max_steps}")
        return cls([user_message(prompt)], session_id, create_if_missing, max_steps)
