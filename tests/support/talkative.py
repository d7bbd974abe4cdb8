"""A server that says all that any revision has, and more, in whichever era it speaks."""

from __future__ import annotations

import json
from typing import Final

from gaia_bridge.protocol.revisions import is_modern
from gaia_bridge.text.json_types import JSON
from tests.bridge.client.scripted import Script, Wire
from tests.servers.talkative_agent import (
    CAPABILITIES,
    COMPLETION,
    CONTENTS,
    INTRODUCTION,
    LISTS,
    MESSAGES,
    META,
    NOTIFICATIONS,
    OF_NEWER_RESULTS,
    QUESTIONS,
    RESULT,
    TASK,
)

__all__ = ["talkative"]

_TASK_NOW: Final[JSON] = {**TASK, "_meta": META}
_ANSWERS: Final[dict[str, JSON]] = {
    "completion/complete": COMPLETION,
    "prompts/get": MESSAGES,
    "resources/read": {"contents": CONTENTS, "_meta": META},
    "resources/templates/list": {"resourceTemplates": LISTS["resourceTemplates"], "_meta": META, "x-list": 1},
    "tasks/cancel": _TASK_NOW,
    "tasks/get": _TASK_NOW,
    "tasks/list": {"tasks": [TASK], "_meta": META},
    "tasks/result": RESULT,
    **{f"{kind}/list": {kind: LISTS[kind], "_meta": META, "x-list": 1} for kind in ("tools", "prompts", "resources")},
    **dict.fromkeys(("logging/setLevel", "ping", "resources/subscribe", "resources/unsubscribe"), {}),
}
"""What the server says to all else."""


def _introduction(revision: str) -> JSON:
    """What it says of itself."""
    said: JSON = {"capabilities": CAPABILITIES, "instructions": "Ask.", "_meta": META, "x-introduction": 1}
    if not is_modern(revision):
        return {**said, "protocolVersion": revision, "serverInfo": INTRODUCTION}
    stamp = {"io.modelcontextprotocol/serverInfo": INTRODUCTION}
    return {**said, "supportedVersions": [revision], "_meta": {**META, **stamp}}


class _Server:
    def __init__(self, wire: Wire, revision: str) -> None:
        self._wire = wire
        self._revision = revision
        self._modern = is_modern(revision)
        self._asked: dict[str, JSON] = {}

    async def run(self) -> None:
        while True:
            message = await self._wire.next()
            if "method" not in message:
                call = self._asked.pop(message["id"])
                self._answer(call, self._text(message.get("result", message.get("error"))))
            elif "id" in message:
                self._take(message)

    def _answer(self, request: JSON, result: JSON) -> None:
        self._wire.answer(request, {**OF_NEWER_RESULTS, **result})

    def _text(self, value: object) -> JSON:
        return {"content": [{"type": "text", "text": json.dumps(value)}]}

    def _take(self, request: JSON) -> None:
        method: str = request["method"]
        params: JSON = request.get("params") or {}
        if method == ("server/discover" if self._modern else "initialize"):
            self._answer(request, _introduction(self._revision))
        elif method == "tools/call":
            self._call(request, params)
        elif (result := _ANSWERS.get(method)) is not None:
            self._answer(request, result)
        else:
            self._wire.refuse(request)

    def _call(self, request: JSON, params: JSON) -> None:
        verb, _, what = params["name"].partition("-")
        if "task" in params:
            self._wire.answer(request, {"task": TASK, "_meta": META})
        elif verb == "tell":
            if "progressToken" in params.get("_meta", {}):
                self._wire.progress(request, 1, total=2, message="half", _meta=META)
            self._answer(request, RESULT)
        elif verb == "list":
            self._answer(request, {**RESULT, "structuredContent": [1]})
        elif verb == "announce":
            for method, told in NOTIFICATIONS.items():
                self._wire.notify(method, told)
            self._answer(request, self._text("announced"))
        elif "inputResponses" in params:
            self._answer(request, self._text(params["inputResponses"]["it"]))
        elif what in QUESTIONS:
            self._ask(request, QUESTIONS[what])
        else:
            self._wire.refuse(request, -32602, "Unknown tool")

    def _ask(self, request: JSON, question: JSON) -> None:
        if self._modern:
            self._answer(request, {"resultType": "input_required", "inputRequests": {"it": question}})
        else:
            number = f"{question['method']} {len(self._wire.received)}"
            self._asked[number] = request
            self._wire.ask(number, question["method"], question["params"], during=request["id"])


def talkative(revision: str) -> Script:
    """A server.

    Args:
        revision: What it speaks.
    """

    async def run(wire: Wire) -> None:
        await _Server(wire, revision).run()

    return run
