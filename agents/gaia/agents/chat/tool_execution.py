"""Runs the tool calls of one answer of a model. Whatever goes wrong is reported to the model as data."""

from __future__ import annotations

import json
import logging
import secrets
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import Context
from functools import partial
from typing import Any

import anyio
from msgspec import Struct
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from gaia.agents.base.tools import ToolEntry, get_tool_display_label, get_tool_display_name, show_tools_of
from gaia.agents.chat.confirmation import client_can_be_asked
from gaia.agents.chat.console_output import ConsoleOutput
from gaia.agents.chat.limits import ChatLimits
from gaia.agents.chat.messages import decoded, tool_message
from gaia.agents.chat.rendering import HEAVY, as_text, cut
from gaia.agents.chat.toolbox import Toolbox
from gaia_bridge.calls.editor_access import RunningTool, enter_tool, running_tool, tool_in_task
from gaia_bridge.calls.results.conversion import jsonable, words
from gaia_bridge.chat_types import ToolBegun, ToolCall, ToolEnded, TurnEvent
from gaia_bridge.errors import BridgeError
from gaia_bridge.runtime.agent_runner import AgentRunner
from gaia_bridge.text.escaping import one_line
from gaia_bridge.text.json_types import JSON, is_object

__all__ = ["ToolCallError", "ToolExecutor", "needs_confirmation", "parsed_arguments"]

logger = logging.getLogger(__name__)

_PROBLEMS = 10
"""Problems with the arguments of one call that are reported to the model."""

Confirm = Callable[[str, dict[str, Any]], bool]
"""Asks a person whether a tool may be used, given its key and arguments."""

Handled = Callable[[str, JSON], JSON | None]
"""Tools that are part of the conversation itself: the result, or `None` if the name is none of them."""


class _Result(Struct, frozen=True):
    text: str
    """For the model."""
    problem: str | None = None
    """For the person, where the result says that the tool failed."""
    value: Any = None
    """The value that the text was made of, for listeners to calls."""


class ToolCallError(Exception):
    """A tool call that cannot be made; the text says why, for the model."""


class ToolExecutor(Struct, frozen=True):
    """Runs tools for one turn.

    Tools run in the agent's threads, coroutines on its event loop, each under a deadline. A thread that overstays it
    cannot be stopped; it keeps its place in the pool until it ends.
    """

    runner: AgentRunner
    narrator: ConsoleOutput
    confirm: Confirm | None
    """Asked before a tool that may destroy something; `None` if the author of the agent wants no questions."""
    limits: ChatLimits
    context: Callable[[], Context]
    """Makes the context variables that tools see: those of whoever asked for the turn."""
    tell: Callable[[TurnEvent], Awaitable[None]] | None = None
    """Called when calls begin and end; `None` if nobody listens."""

    async def run(
        self, calls: Sequence[ToolCall], toolbox: Toolbox, handled: Handled, used: Callable[[str], None]
    ) -> list[JSON]:
        """Run calls side by side.

        Args:
            calls: What the model asked for.
            toolbox: The tools there are.
            handled: Tools that are looked at before all others.
            used: Called with the key of every tool that is run.

        Returns:
            One message of the role `tool` for each call, in their order.
        """
        results: list[JSON] = [{} for _ in calls]
        places = anyio.Semaphore(self.limits.parallel_tools)

        async def run(index: int, call: ToolCall) -> None:
            async with places:
                content = await self._answer_and_report(index, call, toolbox, handled, used)
            results[index] = tool_message(call, content)

        async with anyio.create_task_group() as tasks:
            for index, call in enumerate(calls):
                tasks.start_soon(run, index, call)
        return results

    async def _answer_and_report(
        self, index: int, call: ToolCall, toolbox: Toolbox, handled: Handled, used: Callable[[str], None]
    ) -> str:
        """Make a call, and report its start and end; of a cancelled call no end, since whoever cancels knows of it."""
        show_tools_of(toolbox.entries)  # in the task of this call
        if self.tell is None:
            return (await self._answer(index, call, toolbox, handled, used)).text
        begun = _begun(call, toolbox)
        await self.tell(begun)
        with tool_in_task(RunningTool(begun)):
            result = await self._answer(index, call, toolbox, handled, used)
        await self.tell(ToolEnded(begun.id, result.text, result.value, result.problem))
        return result.text

    async def _answer(
        self, index: int, call: ToolCall, toolbox: Toolbox, handled: Handled, used: Callable[[str], None]
    ) -> _Result:
        try:
            if index >= self.limits.calls:
                raise ToolCallError(f"not run: at most {self.limits.calls} tools can be called at once")
            arguments = parsed_arguments(call, toolbox)
            own = handled(call.name, arguments)
            if own is not None:
                self.narrator.tell("print_tool_usage", call.name)
                return _Result(as_text(own, self.limits.result_bytes), value=own)
            key = toolbox.find(call.name)
            if key is None:
                raise ToolCallError(_unknown(call.name, toolbox))
            used(key)
            return await self._run(key, toolbox.entries[key], arguments)
        except ToolCallError as problem:
            self.narrator.tell("print_tool_complete", call.name, str(problem))
            return self._failure(str(problem))
        except Exception as error:  # an entry that somebody wrote by hand, and that is none
            logger.exception("tool %r cannot be run", call.name)
            return self._failure(f"{call.name} cannot be run: {_error_text(error)}")

    def _failure(self, problem: str) -> _Result:
        """Make the result of a failed call for the model; the text is cut, as JSON makes it up to six times as long."""
        failure = {"status": "error", "error": cut(problem, self.limits.result_bytes // 6)}
        return _Result(json.dumps(failure, ensure_ascii=False), problem)

    def _result_of(self, value: Any) -> _Result:
        limit = self.limits.result_bytes
        if self.tell is None or value is None or isinstance(value, bytes | bytearray):
            return _Result(as_text(value, limit), _problem_in(value))
        plain, encoded = jsonable(value, HEAVY)  # once: it may be a generator
        return _Result(as_text(plain, limit), _problem_in(value), plain if len(encoded) <= limit else None)

    def _tool_context(self) -> Context:
        return enter_tool(self.context(), running_tool())

    async def _run(self, key: str, entry: ToolEntry, arguments: JSON) -> _Result:
        confirm = self.confirm
        if confirm is not None and needs_confirmation(entry):
            context = self.context()
            if (running := running_tool()) is not None:
                enter_tool(context, RunningTool(running.call, is_confirming=True))
            context.run(show_tools_of, {key: entry})
            is_client = context.run(client_can_be_asked)
            if not await self.narrator.confirm(partial(confirm, key, dict(arguments)), context, is_client=is_client):
                logger.warning(
                    "%s was not run: nobody confirmed it; Agent(confirm_destructive=False) does not ask", key
                )
                raise ToolCallError(
                    f"{key} was not run: it may destroy something, and nobody confirmed it. "
                    "Do not try again; say what you wanted to do."
                )
        self.narrator.tell("print_tool_usage", key)
        result = await self._call(key, entry, arguments)
        self.narrator.tell("print_tool_complete", key, result.problem)
        return result

    async def _call(self, key: str, entry: ToolEntry, arguments: JSON) -> _Result:
        timeout = float(entry.get("timeout") or self.limits.tool_timeout)
        has_begun = threading.Event()

        def call() -> Any:
            has_begun.set()
            return entry["function"](**arguments)

        with anyio.move_on_after(timeout):
            try:
                outcome = await self.runner.run(call, self._tool_context(), self._result_of)
            except BridgeError as error:  # the agent is busy
                raise ToolCallError(str(error)) from None
            if outcome.error is not None:
                _log_failure(key, outcome.error)
                raise ToolCallError(_explained(entry, outcome.error))
            result: _Result = outcome.value
            return result
        if has_begun.is_set():
            raise ToolCallError(f"{key} did not finish within {timeout:g} s; what it has begun may still be going on")
        raise ToolCallError(
            f"{key} was not run: within {timeout:g} s, no other tool came to an end to make room for it"
        )


def _begun(call: ToolCall, toolbox: Toolbox) -> ToolBegun:
    """Return the event of a call that begins, for people to read, whatever is wrong with the call."""
    key = toolbox.find(call.name)
    entry: Mapping[str, Any] = {} if key is None else toolbox.entries[key]
    arguments: JSON = {}
    with suppress(ToolCallError):
        arguments = parsed_arguments(call)
    name = call.name if key is None else key
    title = (key is not None and get_tool_display_label(key)) or get_tool_display_name(name)
    hints = entry.get("annotations")
    return ToolBegun(
        f"call_{secrets.token_hex(12)}", name, one_line(title), arguments, hints if is_object(hints) else {}
    )


def _problem_in(value: Any) -> str | None:
    """Return the error that a result reports in one of the ways of the specification's documents, if any."""
    if isinstance(value, str):
        return value if value.startswith("Error:") else None
    if not is_object(value):
        return None
    if value.get("status") == "error" or value.get("success") is False or value.keys() == {"error"}:
        return str(value.get("error"))
    return "" if value.get("isError") is True else None


def _log_failure(key: str, error: BaseException) -> None:
    """Log why a tool failed; an unexpected error with its traceback, for whoever runs the agent."""
    if isinstance(error, BridgeError | ValueError | TypeError):
        logger.info("tool %s failed: %s", key, words(error))
    else:
        logger.warning("tool %s failed", key, exc_info=error)


def needs_confirmation(entry: Mapping[str, Any]) -> bool:
    """Whether a tool says of itself that it may destroy something (MCP tool annotations; never asked where silent)."""
    hints = entry.get("annotations")
    return is_object(hints) and hints.get("destructiveHint") is True and hints.get("readOnlyHint") is not True


def parsed_arguments(call: ToolCall, toolbox: Toolbox | None = None) -> JSON:
    """Parse the arguments that a model wrote.

    Args:
        call: The call; no arguments at all are an empty object, and an object in a string is taken out of it.
        toolbox: Where the tool's schema is, to say what was expected.

    Raises:
        ToolCallError: They are no JSON object.
    """
    value: Any = {}
    problem = ""
    try:
        value = decoded(call.arguments) if call.arguments.strip() else {}
        if isinstance(value, str):
            value = decoded(value)
    except (ValueError, RecursionError) as error:
        problem = f"are not JSON ({error})"
    if is_object(value) and not problem:
        return value
    key = toolbox.find(call.name) if toolbox is not None else None
    expected = f" that fits {_schema_text(toolbox.entries[key])}" if toolbox is not None and key is not None else ""
    came = problem or f"are a {type(value).__name__}"
    raise ToolCallError(
        f"the arguments of {call.name} {came}: {call.arguments!r:.200}. Expected one JSON object{expected}"
    )


def _explained(entry: ToolEntry, error: BaseException) -> str:
    if isinstance(error, ValidationError) and _is_of_arguments(error, entry):
        return f"the arguments do not fit:\n{_problems(error)}\nExpected arguments: {_schema_text(entry)}"
    if isinstance(error, TypeError):
        return f"{_error_text(error)}\nExpected arguments: {_schema_text(entry)}"
    return _error_text(error)


def _error_text(error: BaseException) -> str:
    """Return an error's text: alone where it was written for readers, else with the error's type."""
    text = words(error)
    if text and isinstance(error, BridgeError | ValueError) and not isinstance(error, UnicodeError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _is_of_arguments(error: ValidationError, entry: ToolEntry) -> bool:
    """Whether the tool was not even begun, and has not found something wrong itself, in what it read."""
    function = entry["function"]
    name = getattr(function, "__name__", None)
    return error.title in (name, f"call[{name}]", getattr(function, "__qualname__", None))


def _problems(error: ValidationError) -> str:
    errors = error.errors(include_url=False, include_context=False)
    lines = [f"- {'.'.join(map(str, item['loc']))}: {item['msg']}{_got(item)}" for item in errors]
    more = [f"- and {len(lines) - _PROBLEMS:,} more"] if len(lines) > _PROBLEMS else []
    return "\n".join(lines[:_PROBLEMS] + more)


def _got(item: ErrorDetails) -> str:
    """Describe the value that came; nothing where it is missing, as pydantic has all arguments there instead."""
    return "" if item["type"].startswith("missing") else f"; got {item['input']!r:.100}"


def _schema_text(entry: ToolEntry) -> str:
    return json.dumps(entry.get("inputSchema") or entry.get("parameters") or {}, ensure_ascii=False, default=str)


def _unknown(name: str, toolbox: Toolbox) -> str:
    similar = toolbox.similar(name)
    hint = f"Did you mean {', '.join(similar)}?" if similar else "Use only the tools that you were given."
    return f"there is no tool {name!r:.100}. {hint}"
