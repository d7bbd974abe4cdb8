"""The client side of `gaia-bridge call`: on a terminal, the user answers a server (MCP elicitation and sampling).

Requests for a model (sampling) are answered by the model of the settings, or by the user.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Awaitable, Callable, Coroutine
from importlib import import_module
from typing import Any, Final, cast

import anyio
from anyio.abc import TaskStatus

from gaia_bridge.calls.results.rendering import ContentStyle, render_block
from gaia_bridge.client import ClientDelegate
from gaia_bridge.errors import ModelError, ProtocolError
from gaia_bridge.protocol.vocabulary import LOG_MESSAGE
from gaia_bridge.text.escaping import one_line, printable
from gaia_bridge.text.json_types import JSON, is_array, is_object
from gaia_bridge_cli.servers.common import Activity
from gaia_bridge_cli.servers.form_fields import FieldError, FormField
from gaia_bridge_cli.servers.terminal_lines import NoLineError, TerminalLines, say

_MODEL_CLASS: Final = "gaia.llm:OpenAIModel"
"""The class that answers for the user's model; docs/models.md says which model that is."""

_SHOWN: Final = 2_000
"""Characters of one message that are shown to the user."""

_PERSON: Final = "a person at the terminal"
"""The name of the model in an answer that the user typed."""


class SampledAnswers:
    """Answers sampling requests of one server. A model gets them only after the user agreed, once for the command.

    Args:
        name: The server's name here.
        line: Asks for one line; raises if the user ends the question.
    """

    def __init__(self, name: str, line: Callable[[str], Awaitable[str]]) -> None:
        self._name = name
        self._line = line
        self._model: Any = None
        self._is_asked = False

    async def answer(self, params: JSON) -> JSON:
        """Return the wire result of `sampling/createMessage`."""
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
                return await _answer(self._model, params, [(role, text) for role, text, _ in messages])
            except ModelError as error:
                say(f"no model answers: {printable(str(error))}")
                self._model = None
        return _result(await self._line("Type the answer: "), _PERSON)


def _model() -> object:
    module, _, name = _MODEL_CLASS.partition(":")
    made: object = getattr(import_module(module), name)()
    return made


async def _answer(model: Any, params: JSON, messages: list[tuple[str, str]]) -> JSON:
    options = {"max_tokens": params.get("maxTokens"), "temperature": params.get("temperature")}
    given = {key: value for key, value in options.items() if value is not None}
    conversation = [{"role": role, "content": text} for role, text in messages]
    pieces = [piece async for piece in model.stream(conversation, (), given)]
    return _result(pieces[-1].text, model.name)


def _result(text: str, model: str) -> JSON:
    return {"role": "assistant", "content": {"type": "text", "text": text}, "model": model, "stopReason": "endTurn"}


def _messages(params: JSON) -> list[tuple[str, str, bool]]:
    """Return the role and text of each message, and whether it is text alone; the system prompt is first."""
    texts = [("system", system, True)] if isinstance(system := params.get("systemPrompt"), str) else []
    messages = params.get("messages")
    for message in filter(is_object, messages if is_array(messages) else ()):
        content = message.get("content")
        blocks = content if is_array(content) else [content]
        text = "\n".join(render_block(block, ContentStyle(terminal=False)) for block in blocks)
        is_plain = all(is_object(block) and block.get("type") == "text" for block in blocks)
        texts.append((str(message.get("role", "user")), text, is_plain))
    return texts


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text) - _SHOWN} more characters)"


_ASKS: Final[JSON] = {"elicitation": {"form": {}, "url": {}}, "sampling": {}}

_HELP: Final = "(Enter accepts the default; Ctrl-D declines, Ctrl-C cancels)"

_REJECTED: Final = -1
"""MCP's error code for a sampling request that the user rejects."""


class _DeclinedError(Exception):
    """The user declines to answer."""


class CallerDelegate(ClientDelegate):
    """Shows log messages of a server on standard error, and asks the user its questions, one at a time.

    Args:
        name: The server's name here.
        activity: The display of the command.
        asks: Whether the user can be asked; if not, no such capability is declared.
    """

    def __init__(self, name: str, activity: Activity, *, asks: bool) -> None:
        self.capabilities = _ASKS if asks else {}
        self.server = f"server {name!r}"
        self._name = one_line(name)
        self._activity = activity
        self._turn = anyio.Lock()
        self._lines = TerminalLines()
        self._sampled = SampledAnswers(self._name, self._line)

    def notified(self, method: str, params: JSON, during: int | None = None) -> None:
        """Show a log message."""
        if method != LOG_MESSAGE:
            return
        data = params.get("data")
        text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
        self._activity.say(f"{self._name}: {one_line(str(params.get('level', '')), 20)}: {printable(text)}")

    async def answer(self, method: str, params: JSON, during: int | None = None) -> JSON:
        """Ask the user. Ctrl-C cancels the question, but not the command."""
        async with self._turn:
            with self._activity.paused():
                if method == "sampling/createMessage":
                    result = await self._ask_user(self._sample(params))
                    if result["action"] != "accept":
                        raise ProtocolError(_REJECTED, "User rejected sampling request")
                    return cast("JSON", result["content"])
                return await self._ask_user(self._link(params) if params.get("mode") == "url" else self._form(params))

    async def _ask_user(self, asking: Coroutine[Any, Any, JSON]) -> JSON:
        result: JSON = {"action": "cancel"}
        before = signal.getsignal(signal.SIGINT)
        try:
            async with anyio.create_task_group() as tasks:
                await tasks.start(_cancel_on_interrupt, tasks.cancel_scope)
                self._lines.forget()  # text that was typed before the question is no answer
                try:
                    result = await asking
                except _DeclinedError:
                    result = {"action": "decline"}
                tasks.cancel_scope.cancel()
        finally:
            signal.signal(signal.SIGINT, before)  # the handler of the loop's runner
        if result["action"] != "accept":
            say("", f"({result['action']}{'d' if result['action'] == 'decline' else 'led'})")
        return result

    async def _sample(self, params: JSON) -> JSON:
        return {"action": "accept", "content": await self._sampled.answer(params)}

    async def _link(self, params: JSON) -> JSON:
        """Ask the user to open a URL, which only a person may decide."""
        say(*self._question(params), f"  {printable(str(params.get('url')), None)}")
        await self._agreed("Will you open this address in your browser?")
        return {"action": "accept"}

    async def _form(self, params: JSON) -> JSON:
        schema = params.get("requestedSchema")
        properties = schema.get("properties") if is_object(schema) else None
        required = schema.get("required") if is_object(schema) else None
        say(*self._question(params))
        content: JSON = {}
        if not is_object(properties) or not properties:
            await self._agreed("Accept?")
            return {"action": "accept", "content": content}
        say(_HELP)
        for key, part in properties.items():
            field = FormField(
                key, part if is_object(part) else {}, required=key in (required if is_array(required) else ())
            )
            say(*field.lines)
            values = await self._field(field)
            if values:
                content[key] = values[0]
        return {"action": "accept", "content": content}

    async def _field(self, field: FormField) -> list[Any]:
        """Return the value that the user typed, or the default, in a list; an empty list for none."""
        while True:
            text = await self._line(field.prompt)
            if not text:
                if field.has_default:
                    return [field.default]
                if field.required:
                    raise _DeclinedError
                return []
            try:
                return [field.read(text)]
            except FieldError as error:
                say(f"error: {error}")

    async def _agreed(self, question: str) -> None:
        if (await self._line(f"{question} [y/N]: ")).strip().lower() not in ("y", "yes"):
            raise _DeclinedError

    async def _line(self, prompt: str) -> str:
        try:
            return await self._lines.line(prompt)
        except NoLineError:
            raise _DeclinedError from None

    def _question(self, params: JSON) -> list[str]:
        first, *more = str(params.get("message", "")).split("\n")
        return ["", f"{self._name} asks: {printable(first, None)}", *(printable(line, None) for line in more)]


async def _cancel_on_interrupt(
    scope: anyio.CancelScope, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
) -> None:
    with anyio.open_signal_receiver(signal.SIGINT) as signals:
        task_status.started()
        async for _ in signals:
            scope.cancel()
