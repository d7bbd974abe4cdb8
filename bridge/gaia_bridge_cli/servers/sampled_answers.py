"""Answers for a server that asks for its client's model (MCP sampling): from the model of the settings, or typed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any, Final

from gaia_bridge.calls.results.rendering import ContentStyle, render_block
from gaia_bridge.constants import MODEL_CLASS
from gaia_bridge.errors import ModelError
from gaia_bridge.text.escaping import one_line, printable
from gaia_bridge.text.json_types import JSON, is_array, is_object
from gaia_bridge_cli.servers.terminal_lines import say

_SHOWN: Final = 2_000
"""Characters of one message that are shown to whoever decides."""

_PERSON: Final = "a person at the terminal"
"""What the server is told as the name of the model, where somebody typed the answer."""


class SampledAnswers:
    """Answers one server. Nothing is sent to a model that the user has not agreed to, once for the command.

    Args:
        name: What the server is called here.
        line: Asks for one line; raises what ends the question.
    """

    def __init__(self, name: str, line: Callable[[str], Awaitable[str]]) -> None:
        self._name = name
        self._line = line
        self._model: Any = None
        self._is_asked = False

    async def answer(self, params: JSON) -> JSON:
        """The wire result of `sampling/createMessage`."""
        say("", f"{self._name} asks for the answer of a model:")
        messages = _messages(params)
        for role, text, _ in messages:
            say(*(f"  {printable(line, None)}" for line in _cut(f"{role}: {text}").split("\n")))
        is_text = all(is_plain for *_, is_plain in messages)
        if is_text and not self._is_asked:
            self._is_asked = True
            model: Any = _model()
            agreed = await self._line(f"Have {one_line(model.name, 200)} answer? [Y/n; n: you type the answer]: ")
            self._model = model if agreed.strip().lower() in ("", "y", "yes") else None
        if is_text and self._model is not None:
            try:
                return await _asked(self._model, params, [(role, text) for role, text, _ in messages])
            except ModelError as error:
                say(f"no model answers: {printable(str(error))}")
                self._model = None
        return _result(await self._line("Type the answer: "), _PERSON)


def _model() -> object:
    module, _, name = MODEL_CLASS.partition(":")
    made: object = getattr(import_module(module), name)()
    return made


async def _asked(model: Any, params: JSON, messages: list[tuple[str, str]]) -> JSON:
    options = {"max_tokens": params.get("maxTokens"), "temperature": params.get("temperature")}
    given = {key: value for key, value in options.items() if value is not None}
    conversation = [{"role": role, "content": text} for role, text in messages]
    pieces = [piece async for piece in model.stream(conversation, (), given)]
    return _result(pieces[-1].text, model.name)


def _result(text: str, model: str) -> JSON:
    return {"role": "assistant", "content": {"type": "text", "text": text}, "model": model, "stopReason": "endTurn"}


def _messages(params: JSON) -> list[tuple[str, str, bool]]:
    """Who says it, what, and whether that is text alone; the system's own words are first."""
    found = [("system", system, True)] if isinstance(system := params.get("systemPrompt"), str) else []
    messages = params.get("messages")
    for message in filter(is_object, messages if is_array(messages) else ()):
        content = message.get("content")
        blocks = content if is_array(content) else [content]
        text = "\n".join(render_block(block, ContentStyle(terminal=False)) for block in blocks)
        is_plain = all(is_object(block) and block.get("type") == "text" for block in blocks)
        found.append((str(message.get("role", "user")), text, is_plain))
    return found


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text) - _SHOWN} more characters)"
