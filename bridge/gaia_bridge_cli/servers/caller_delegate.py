"""Who `gaia-bridge call` is to a server: on a terminal, somebody who can be asked (MCP elicitation and sampling).

Who asks for its client's model is answered from the model of the settings, or by what is typed.
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
from gaia_bridge.constants import MODEL_CLASS
from gaia_bridge.errors import ModelError, ProtocolError
from gaia_bridge.protocol.vocabulary import LOG_MESSAGE
from gaia_bridge.text.escaping import one_line, printable
from gaia_bridge.text.json_types import JSON, is_array, is_object
from gaia_bridge_cli.servers.common import Activity
from gaia_bridge_cli.servers.form_fields import Field, FieldError
from gaia_bridge_cli.servers.terminal_lines import NoLineError, TerminalLines, say

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


_ASKS: Final[JSON] = {"elicitation": {"form": {}, "url": {}}, "sampling": {}}

_HELP: Final = "(Enter accepts the default; Ctrl-D declines, Ctrl-C cancels)"

_REJECTED: Final = -1
"""The code of MCP for a sampling request that the user rejects."""


class _DeclinedError(Exception):
    """The user does not want to answer."""


class CallerDelegate(ClientDelegate):
    """Shows on standard error what a server logs, and puts its questions to the user, one at a time.

    Args:
        name: What the server is called here.
        activity: What is shown meanwhile.
        asks: Whether there is somebody to ask; if not, nothing is declared.
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
        """Ask the user. Ctrl-C cancels the question, and not yet the command."""
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
                self._lines.forget()  # what was typed before is no answer
                try:
                    result = await asking
                except _DeclinedError:
                    result = {"action": "decline"}
                tasks.cancel_scope.cancel()
        finally:
            signal.signal(signal.SIGINT, before)  # which is that of the loop's runner again
        if result["action"] != "accept":
            say("", f"({result['action']}{'d' if result['action'] == 'decline' else 'led'})")
        return result

    async def _sample(self, params: JSON) -> JSON:
        return {"action": "accept", "content": await self._sampled.answer(params)}

    async def _link(self, params: JSON) -> JSON:
        """Somebody shall go somewhere, which only a person may decide."""
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
            field = Field(
                key, part if is_object(part) else {}, required=key in (required if is_array(required) else ())
            )
            say(*field.lines)
            found = await self._field(field)
            if found:
                content[key] = found[0]
        return {"action": "accept", "content": content}

    async def _field(self, field: Field) -> list[Any]:
        """The value that was typed, if any."""
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
