"""One turn: the model answers, its tool calls are run, it gets the results, and so on until it has no more calls."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from gaia.agents.base.tools import ToolEntry
from gaia.agents.chat.console_output import ConsoleOutput
from gaia.agents.chat.messages import answered, assistant_message, user_message
from gaia.agents.chat.prompts import ENOUGH_STEPS
from gaia.agents.chat.tool_execution import ToolExecutor
from gaia.agents.chat.tool_search import ToolSearch
from gaia.agents.chat.toolbox import Toolbox
from gaia.llm.model import ChatModel
from gaia_bridge.chat_types import Reply, Thought, ToolCall, Usage
from gaia_bridge.errors import ModelError
from gaia_bridge.text.json_types import JSON, is_object

__all__ = ["Turn", "View"]

_ON_TOOLS = ("parallel_tool_calls", "tool_choice")
"""Options that servers refuse where no tools are offered."""

_FREE = ("auto", "none")
"""Choices of tools that do not force the model to call one."""


class View(Struct, frozen=True):
    """The system message and the tools for one step of the model."""

    system: str
    tools: Mapping[str, ToolEntry]
    """All tools of the agent at this moment."""
    searched: bool
    """Whether only the search and what it found are offered."""


class Turn(Struct, frozen=True):
    """All that one turn needs. `play` it once."""

    model: ChatModel
    look: Callable[[], Awaitable[View]]
    """Looks at the agent, before each step: tools come and go while a turn is played."""
    executor: ToolExecutor
    narrator: ConsoleOutput
    search: ToolSearch
    loaded: dict[str, None]
    """The names of tools that a search has found; the turn adds to it."""
    max_steps: int
    client_tools: Sequence[JSON] = ()
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    async def play(
        self, history: Sequence[JSON], new: Sequence[JSON], tell: Callable[[str], Awaitable[None]]
    ) -> tuple[Reply, list[JSON]]:
        """Play the turn.

        Args:
            history: What was said before.
            new: What is said now.
            tell: Given the text of the answer in pieces, as they come.

        Returns:
            The reply, its text being that of the last step and its usage that of all; and the messages that the turn
            adds to the history, `new` among them.

        Raises:
            ModelError: The model gave no usable answer.
        """
        added, usage, paragraphs = list(new), Usage(), _Paragraphs(tell)
        run: list[str] = []
        for step in range(1, self.max_steps + 1):
            self.narrator.tell("print_step_header", step, self.max_steps)
            view = await self.look()
            toolbox = Toolbox(view.tools)
            messages = [*_system(view), *answered([*history, *added])]
            options = self.options if step == 1 else _unforced(self.options)
            reply = await self._ask(messages, self._offered(view, toolbox), options, paragraphs)
            usage += reply.usage
            theirs, ours = self._divided(reply.tool_calls)
            added.append(assistant_message(reply, (*ours, *theirs)))
            run += [call.name for call in ours]
            note_used = partial(self.search.load, entries=view.tools, loaded=self.loaded)
            added += await self.executor.run(ours, toolbox, self._searching(view), note_used)
            if theirs:
                called = replace(reply, tool_calls=theirs, finish_reason="tool_calls")
                return replace(called, usage=usage, tools_run=tuple(run)), added
            if not ours:
                return replace(_last(reply, usage), tools_run=tuple(run)), added
        reply, added = await self._conclude(history, added, usage, paragraphs)
        return replace(reply, tools_run=tuple(run)), added

    async def _conclude(
        self, history: Sequence[JSON], added: list[JSON], usage: Usage, paragraphs: _Paragraphs
    ) -> tuple[Reply, list[JSON]]:
        """Have a model that does not come to an end say what it knows."""
        self.narrator.tell("print_warning", f"{self.max_steps} steps were not enough; the model is asked to conclude")
        view = await self.look()
        messages = [*_system(view), *answered([*history, *added]), user_message(ENOUGH_STEPS)]
        reply = await self._ask(messages, [], self.options, paragraphs)
        return _last(reply, usage + reply.usage), [*added, assistant_message(reply, ())]

    async def _ask(
        self,
        messages: list[JSON],
        tools: list[JSON],
        options: Mapping[str, Any],
        paragraphs: _Paragraphs,
    ) -> Reply:
        reply: Reply | None = None
        paragraphs.begin()
        if not tools:
            options = {key: value for key, value in options.items() if key not in _ON_TOOLS}
        async with aclosing(self.model.stream(messages, tools, options)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Reply):
                    reply = piece
                elif isinstance(piece, Thought):
                    if self.executor.tell is not None:
                        await self.executor.tell(piece)
                elif piece:
                    await paragraphs.tell(piece)
        if reply is None:
            raise ModelError(f"The model {self.model.name} stopped without an answer.", "Try again.")
        if reply.finish_reason == "length":
            self.narrator.tell("print_warning", "the model's answer was cut off at its limit of tokens")
        return reply

    def _offered(self, view: View, toolbox: Toolbox) -> list[JSON]:
        offered = self.search.offered(view.tools, self.loaded) if view.searched else view.tools
        return [*toolbox.schemas(offered, self._client_names()), *self.client_tools]

    def _searching(self, view: View) -> Callable[[str, JSON], JSON | None]:
        def handle(name: str, arguments: JSON) -> JSON | None:
            if not view.searched or not self.search.answers(name, view.tools):
                return None
            return self.search.run(name, arguments, view.tools, self.loaded)

        return handle

    def _divided(self, calls: Sequence[ToolCall]) -> tuple[tuple[ToolCall, ...], tuple[ToolCall, ...]]:
        """Divide calls into those of the client's own tools, under new random ids, and all others."""
        names = self._client_names()
        theirs = [replace(call, id=f"call_{secrets.token_hex(12)}") for call in calls if call.name in names]
        return tuple(theirs), tuple(call for call in calls if call.name not in names)

    def _client_names(self) -> frozenset[str]:
        return frozenset(_name(tool) for tool in self.client_tools)


class _Paragraphs:
    """Tells what the model says in several answers, with an empty line between two of them."""

    def __init__(self, tell: Callable[[str], Awaitable[None]]) -> None:
        self._tell = tell
        self._has_told = self._is_first = False

    def begin(self) -> None:
        """Begin another answer with the next piece."""
        self._is_first = self._has_told

    async def tell(self, piece: str) -> None:
        """Tell a piece of an answer."""
        if self._is_first:
            await self._tell("\n\n")
        self._has_told, self._is_first = True, False
        await self._tell(piece)


def _last(reply: Reply, usage: Usage) -> Reply:
    """Return an answer that ends the turn, without the calls that the model still wanted."""
    reason = "stop" if reply.finish_reason == "tool_calls" else reply.finish_reason
    return replace(reply, tool_calls=(), finish_reason=reason, usage=usage)


def _unforced(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options without the order to call a tool: it is for one answer, or the turn would never end."""
    if options.get("tool_choice", "auto") in _FREE:
        return options
    return {key: value for key, value in options.items() if key != "tool_choice"}


def _system(view: View) -> list[JSON]:
    return [{"role": "system", "content": view.system}] if view.system else []


def _name(tool: JSON) -> str:
    function = tool.get("function")
    return str(function.get("name")) if is_object(function) else ""
