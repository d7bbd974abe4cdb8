"""Prints a line for each call, with its arguments and result, shortened: for the author of an agent."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

import click

from gaia_bridge.errors import RequestError
from gaia_bridge.middleware.base import CallNext, McpRequest, Middleware
from gaia_bridge.text.escaping import one_line
from gaia_bridge.text.json_text import to_json
from gaia_bridge.text.json_types import JSON, is_array, is_object
from gaia_bridge_cli.logs import without_secrets

_VALUE: Final = 60
"""Characters of one argument that are shown."""

_RESULT: Final = 160
"""Characters of a result that are shown."""

_ITEMS: Final = 40
"""Blocks of a result that are shown."""


class CallLines(Middleware):
    """Writes calls to standard error, with secrets masked as in the log:

    12:03:44 add(a=1, b=2) -> 3  (1.2 ms, vscode 1.139)
    """

    async def on_call_tool(self, request: McpRequest, call_next: CallNext) -> JSON:
        """Show a call."""
        return await _shown(f"{one_line(request.name, _VALUE)}({_arguments(request.arguments)})", request, call_next)

    async def on_read_resource(self, request: McpRequest, call_next: CallNext) -> JSON:
        """Show the reading of a resource."""
        return await _shown(f"read {_short(request.name, _RESULT)}", request, call_next)

    async def on_get_prompt(self, request: McpRequest, call_next: CallNext) -> JSON:
        """Show the filling-in of a prompt."""
        what = f"prompt {one_line(request.name, _VALUE)}({_arguments(request.arguments)})"
        return await _shown(what, request, call_next)


async def _shown(what: str, request: McpRequest, call_next: CallNext) -> JSON:
    began, outcome = time.perf_counter(), click.style("cancelled", fg="yellow")
    try:
        result = await call_next(request)
        outcome = _outcome(result)
    except RequestError as error:
        outcome = click.style(_short(str(error), _RESULT), fg="red")
        raise
    except Exception as error:
        outcome = click.style(type(error).__name__, fg="red")
        raise
    finally:
        took = round(1000 * (time.perf_counter() - began), 1)
        again = ", continued" if request.is_continued else ""
        who = one_line(request.client, _VALUE)
        click.echo(f"{time.strftime('%H:%M:%S')} {what} -> {outcome}  ({took:g} ms, {who}{again})", err=True)
    return result


def _outcome(result: JSON) -> str:
    if result.get("resultType") == "input_required":
        return click.style("asks the client", fg="yellow")
    key = next((key for key in ("content", "contents", "messages") if key in result), "content")
    items = result.get(key)
    texts = [_item(item) for item in items[:_ITEMS]] if is_array(items) else []
    if not texts and is_object(task := result.get("task")):
        texts = [f"task {task.get('taskId')}"]
    elif not texts and "structuredContent" in result:
        texts = [to_json(result["structuredContent"]).decode(errors="replace")]
    shown = _short(" ".join(texts), _RESULT) or "nothing"
    return click.style(shown, fg="red") if result.get("isError") is True else shown


def _item(item: Any) -> str:
    """Return a block of content, a message or the contents of a resource as short text for people."""
    match item:
        case {"text": str(text)} | {"content": {"text": str(text)}}:
            return text[: 2 * _RESULT]
        case {"type": str(kind)} | {"content": {"type": str(kind)}}:
            return f"[{kind}]"
        case {"uri": str(uri)}:
            return f"[{uri}]"
        case _:
            return "[?]"


def _arguments(arguments: Mapping[str, Any]) -> str:
    pairs = (f"{key}={to_json(value).decode(errors='replace')}" for key, value in arguments.items())
    return ", ".join(_short(text, _VALUE) for text in pairs)


def _short(text: str, limit: int) -> str:
    # Mask before cutting: half of a secret would not be recognized.
    return one_line(without_secrets(text[: 2 * limit]), limit)
