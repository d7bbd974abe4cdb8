"""Which reply of a script answers a request; what scripts mean is told by `model_server`. Pure."""

from __future__ import annotations

import json
import re
import string
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gaia_bridge.text.json_types import JSON, is_array, is_object

__all__ = ["Player", "ScriptError", "count_tokens", "filled", "prompt_tokens", "text_of"]


def count_tokens(text: str) -> int:
    """What a text costs: a token for every four bytes that have begun."""
    return -(-len(text.encode()) // 4)


def prompt_tokens(body: JSON) -> int:
    """What a request costs: its messages and tools as compact JSON."""
    asked = [body.get("messages", []), *([body["tools"]] if body.get("tools") else [])]
    return sum(count_tokens(json.dumps(part, separators=(",", ":"), ensure_ascii=False)) for part in asked)


class _Template(string.Template):
    idpattern = r"[a-z0-9_]+"


def filled(value: Any, values: Mapping[str, str]) -> Any:
    """A JSON value with the `$names` in its texts replaced; unknown ones stay."""
    if isinstance(value, str):
        return _Template(value).safe_substitute(values)
    if is_object(value):
        return {key: filled(item, values) for key, item in value.items()}
    if is_array(value):
        return [filled(item, values) for item in value]
    return value


def text_of(message: JSON) -> str:
    """A message's text, also where it is a list of parts."""
    content = message.get("content")
    if is_array(content):
        return "".join(str(part.get("text", "")) for part in content if is_object(part))
    return content if isinstance(content, str) else ""


class ScriptError(Exception):
    """The script has nothing for a request."""


class Player:
    """Chooses the reply for each request.

    Args:
        script: See the module.
    """

    def __init__(self, script: JSON) -> None:
        self._rules: list[JSON] = script.get("rules", [])
        self._replies: list[JSON] = script.get("replies", [])
        self._by_requests = script.get("order") == "requests"
        self._turns: Counter[Any] = Counter()
        self._tries: Counter[Any] = Counter()

    def reply_to(self, messages: Sequence[JSON]) -> JSON:
        """The reply, filled in.

        Raises:
            ScriptError: There is none.
        """
        last = messages[-1] if messages else {}
        spoken = [number for number, message in enumerate(messages) if message.get("role") == "assistant"]
        asked = max((number for number, message in enumerate(messages) if message.get("role") == "user"), default=-1)
        user = text_of(messages[asked]) if asked >= 0 else ""
        since = messages[spoken[-1] + 1 if spoken else 0 :]
        values = {
            "user": user,
            "result": text_of(last),
            "results": "\n".join(text_of(message) for message in since if message.get("role") == "tool"),
        }
        for number, rule in enumerate(self._rules):
            on_tool = rule.get("on") == "tool"
            if on_tool and last.get("role") != "tool":
                continue
            if found := re.search(rule["when"], text_of(last) if on_tool else user):
                step = 0 if on_tool else sum(position > asked for position in spoken)
                conversation = (number, json.dumps(messages[: asked + 1]))
                reply = self._step(rule["replies"], step, conversation, loop=rule.get("loop", False))
                groups = {str(index): value or "" for index, value in enumerate((found[0], *found.groups()))}
                named = {name: value or "" for name, value in found.groupdict().items()}
                return self._filled(reply, {**values, **groups, **named})
        if self._by_requests:
            step, self._turns["requests"] = self._turns["requests"], self._turns["requests"] + 1
            replies = [reply for reply in self._replies for _ in range(reply.get("times", 1))]
            if step >= len(replies):
                raise ScriptError(f"the script has {len(replies)} replies, and this is request {step + 1}")
            return self._filled(replies[step], values)
        first = next((text_of(message) for message in messages if message.get("role") == "user"), "")
        return self._filled(self._step(self._replies, len(spoken), ("replies", first)), values)

    def _step(self, replies: Sequence[JSON], step: int, conversation: Any, *, loop: bool = False) -> JSON:
        """The reply at a place, or the fault before it if that was not played often enough."""
        steps = list(_steps(replies))
        if loop and steps:
            step %= len(steps)
        if step >= len(steps):
            raise ScriptError(f"the script has {len(steps)} replies for this conversation, and this is {step + 1}")
        tries = self._tries[conversation, step]
        attempts = steps[step]
        if tries + 1 < len(attempts):
            self._tries[conversation, step] += 1
        else:
            self._tries.pop((conversation, step), None)
        return attempts[min(tries, len(attempts) - 1)]

    @staticmethod
    def _filled(reply: JSON, values: Mapping[str, str]) -> JSON:
        found: JSON = filled(reply, values)
        return found


def _steps(replies: Sequence[JSON]) -> Iterator[list[JSON]]:
    """Replies by assistant message: each with the faults before it."""
    group: list[JSON] = []
    for reply in replies:
        group += [reply] * reply.get("times", 1)
        if "fault" not in reply:
            yield group
            group = []
    if group:
        yield group
