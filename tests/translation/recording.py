"""What a client of the official kind gets from a server, step by step, as plain data.

A recording holds what the protocol says and nothing of how it says it: results without what the eras wrap them in,
questions whether they came as requests or as results that need input, news whether subscribed to or listened for.
"""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import anyio
from pydantic import FileUrl

from gaia_bridge.text.json_types import JSON, is_array, is_object
from tests.interaction.connecting import client_of
from tests.interaction.results import older, wire
from tests.support.on_demand import mcp, mcp_types
from tests.translation.wiretap import Tapped

__all__ = ["LISTS", "LOG", "PROGRESS", "Recording", "Step", "call", "complete", "fill", "read", "record"]

Recording = dict[str, JSON]
"""By the names of the steps: `answers`, `asked` and `heard`."""

PATIENCE: Final = 8.0
"""Seconds for what is to be heard in one step, and `DEADLINE` for all of them; only what is broken needs them."""
DEADLINE: Final = 60.0
AGAIN: Final = 0.5
"""Seconds after which a change is made once more: what is said before a client has opened its stream is not heard."""
LEVEL: Final = "debug"
LOG: Final = "notifications/message"
PROGRESS: Final = "notifications/progress"
_NEWS: Final = re.compile(r"notifications/(\w+/list_changed|resources/updated)")
_ENVELOPE: Final = ("resultType", "ttlMs", "cacheScope")
_NO_STEP: Final = (
    "initialize",
    "server/discover",
    "logging/setLevel",
    "subscriptions/listen",
    "resources/subscribe",
    "resources/unsubscribe",
)
_BASE64_RESOURCE: Final = base64.b64encode(b"Resource ").decode()
"""How the resources begin that tell the time in Base64."""
_VOLATILE: Final = (
    (re.compile(r"\b\d{1,2}:\d{2}:\d{2}( [AP]M)?\b"), "TIME"),
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "ID"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "ID"),
    (re.compile(r"(?<=under reference )[0-9a-f]{8}\b"), "ID"),
    (re.compile(r"^\w+[ -]level[ -]message\b"), "Some message"),
)
"""Clock times, random ids, and messages picked at random."""
_CHANCE: Final = "Some message"


@dataclass(frozen=True)
class Step:
    """One thing that a client does.

    Args:
        name: In recordings.
        do: Does it.
        hears: The methods of notifications to wait for, each as often as it comes. News of changes that are not among
            them are left out: they come when they like.
        action: What the user does with every form and link.
        watched: The resource to hear about, if `hears` has its updates.
        shows: Text that comes to be in the result. A server of both eras has a list for each: a client is told as soon
            as one of them is another, and once more when its own is.
    """

    name: str
    do: Callable[[mcp.Client], Awaitable[object]]
    hears: Sequence[str] = ()
    action: str = "accept"
    watched: str = ""
    shows: str = ""


def call(tool: str, *, called: str = "", hears: Sequence[str] = (), action: str = "accept", **arguments: Any) -> Step:
    """Call a tool.

    Args:
        tool: Its name.
        called: What tells the step from others with the same tool.
        hears: As of `Step`.
        action: As of `Step`.
        arguments: Of the tool.
    """

    async def do(client: mcp.Client) -> None:
        meta: Any = {"example.org/trace": 7}
        await client.call_tool(tool, arguments, progress_callback=_ignore, meta=meta)

    return Step(f"call {tool} {called}".strip(), do, hears, action)


async def _ignore(progress: float, total: float | None, message: str | None) -> None:
    """Progress is taken from the wire."""


def fill(prompt: str, **arguments: str) -> Step:
    """Get a prompt."""
    return Step(f"prompt {prompt} {' '.join(arguments)}".strip(), lambda client: client.get_prompt(prompt, arguments))


def read(uri: str) -> Step:
    """Read a resource."""
    return Step(f"read {uri}", lambda client: client.read_resource(uri))


def complete(of: str, argument: str, value: str, **known: str) -> Step:
    """Complete an argument.

    Args:
        of: The name of a prompt or a URI template.
        argument: What is to be completed.
        value: What is there already.
        known: The other arguments.
    """
    half = {"name": argument, "value": value}

    async def ask(client: mcp.Client) -> object:
        reference = mcp_types.ResourceTemplateReference(uri=of) if "://" in of else mcp_types.PromptReference(name=of)
        return await client.complete(reference, half, known or None)

    return Step(f"complete {argument} of {of}", ask)


LISTS: Final = (
    Step("tools", lambda client: client.list_tools()),
    Step("prompts", lambda client: client.list_prompts()),
    Step("resources", lambda client: client.list_resources()),
    Step("resource templates", lambda client: client.list_resource_templates()),
)


class _User:
    """Sits in front of a client: answers everything, and remembers what was asked."""

    def __init__(self) -> None:
        self.asked: list[JSON] = []
        self.action: Any = "accept"

    async def elicited(self, context: object, params: mcp_types.ElicitRequestParams) -> mcp_types.ElicitResult:
        self.asked.append({"method": "elicitation/create", "params": _plain(wire(params))})
        if isinstance(params, mcp_types.ElicitRequestURLParams) or self.action != "accept":
            return mcp_types.ElicitResult(action=self.action)
        fields = params.requested_schema["properties"]
        return mcp_types.ElicitResult(
            action="accept", content={name: _value(name, field) for name, field in fields.items()}
        )

    async def sampled(
        self, context: object, params: mcp_types.CreateMessageRequestParams
    ) -> mcp_types.CreateMessageResult:
        self.asked.append({"method": "sampling/createMessage", "params": _plain(wire(params))})
        return mcp_types.CreateMessageResult(
            role="assistant", model="m-1", content=mcp_types.TextContent(text="for fun")
        )

    async def roots(self, context: object) -> mcp_types.ListRootsResult:
        self.asked.append({"method": "roots/list"})
        return mcp_types.ListRootsResult(roots=[mcp_types.Root(uri=FileUrl("file:///home/ada"), name="home")])


def _value(name: str, field: JSON) -> Any:
    """An answer that fits what is asked for."""
    examples = {"email": "ada@example.org", "uri": "https://example.org", "date": "2026-01-31"}
    match field:
        case {"enum": [first, *_]} | {"oneOf": [{"const": first}, *_]} | {"anyOf": [{"const": first}, *_]}:
            return first
        case {"type": "array"}:
            return [_value(name, field["items"])]
        case {"type": kind} if kind in (known := {"integer": 42, "number": 2.5, "boolean": True}):
            return known[kind]
        case _:
            return examples.get(field.get("format", ""), f"some {name}")


async def record(
    transport: Any, era: str, steps: Sequence[Step], *, greetings: Sequence[str] = (), logs: bool = True
) -> Recording:
    """Connect a client and let it do everything, one after the other.

    Args:
        transport: What to connect with.
        era: One of `ERAS`.
        steps: What to do.
        greetings: The methods of the notifications that the server sends by itself when somebody comes.
        logs: Whether to record log messages.
    """
    user, tap = _User(), Tapped(transport)
    options: dict[str, Any] = {
        "elicitation_callback": user.elicited,
        "sampling_callback": user.sampled,
        "list_roots_callback": user.roots,
        "log_level": LEVEL if era == "modern" else None,
    }
    with anyio.fail_after(DEADLINE):
        async with client_of(tap, era, **options) as client:
            recorder = _Recorder(client, era == "modern", user, tap, logs)
            recording = {"introduction": await recorder.introduction(greetings)}
            for step in steps:
                assert step.name not in recording, step.name
                recording[step.name] = await recorder.step(step)
            return recording


@dataclass
class _Recorder:
    """A client that does things.

    Args:
        client: The client.
        modern: Whether it speaks 2026-07-28.
        user: Who sits in front of it.
        tap: What it sends and receives.
        logs: Whether to record log messages.
    """

    client: mcp.Client
    modern: bool
    user: _User
    tap: Tapped
    logs: bool

    async def introduction(self, greetings: Sequence[str]) -> JSON:
        """What the server tells about itself, and what it does when somebody comes."""

        async def want_logs(client: mcp.Client) -> None:
            if not self.modern:
                await older(client).set_logging_level(LEVEL)

        done = await self.step(Step("introduction", want_logs, greetings))
        return {
            "server": _plain(wire(self.client.server_info)) if self.client.server_info is not None else None,
            "capabilities": _plain(wire(self.client.server_capabilities)),
            "instructions": self.client.instructions,
            **done,
        }

    async def step(self, step: Step) -> JSON:
        """Do it once; changes are made again and again until they were heard."""
        received = len(self.tap.received)
        self.user.asked.clear()
        self.user.action = step.action
        news = {method for method in step.hears if _NEWS.fullmatch(method)}
        others = Counter(method for method in step.hears if method not in news and (self.logs or method != LOG))
        async with self._watching(step.watched, news):
            deadline = anyio.current_time() + PATIENCE
            while True:
                sent = len(self.tap.sent)
                result: Any = None
                with suppress(mcp.MCPError):  # it is among the answers
                    result = await step.do(self.client)
                if step.shows and step.shows not in str(result) and anyio.current_time() < deadline:
                    await _comes_true(lambda: False, AGAIN / 10)
                    continue
                if await _comes_true(lambda: news <= self._said(received).keys(), AGAIN):
                    break
                if anyio.current_time() > deadline:
                    break
            answers = self._answers(sent)
        await _comes_true(lambda: others <= self._said(received), PATIENCE)
        return {"answers": answers, "asked": list(self.user.asked), "heard": self._heard(received, news)}

    @asynccontextmanager
    async def _watching(self, uri: str, news: set[str]) -> AsyncGenerator[None]:
        """Hear of changes, and of updates of one resource."""
        if self.modern and news:
            wishes: dict[str, Any] = {
                f"{kind}_list_changed": True
                for kind in ("tools", "prompts", "resources")
                if f"notifications/{kind}/list_changed" in news
            }
            async with self.client.listen(resource_subscriptions=[uri] if uri else [], **wishes):
                yield
        elif uri:
            await older(self.client).subscribe_resource(uri)
            yield
            await older(self.client).unsubscribe_resource(uri)
        else:
            yield

    def _said(self, received: int) -> Counter[str]:
        return Counter(message["method"] for message in self.tap.received[received:] if "method" in message)

    def _answers(self, sent: int) -> list[JSON]:
        """The results and errors of what was sent; questions in place of results are among what was asked."""
        answers = {answer.get("id"): answer for answer in self.tap.received if "method" not in answer}
        asked = [
            message
            for message in self.tap.sent[sent:]
            if "id" in message and message.get("method") not in (None, *_NO_STEP)
        ]
        return [
            {"to": question["method"], **_answer(answers[question["id"]])}
            for question in asked
            if question["id"] in answers and not _is_round(answers[question["id"]])
        ]

    def _heard(self, received: int, news: set[str]) -> dict[str, list[JSON]]:
        """What was said, by methods. How often something is said to have changed does not matter."""
        heard: dict[str, list[JSON]] = {}
        for message in self.tap.received[received:]:
            method, params = message.get("method", ""), _plain(message.get("params") or {})
            if method == PROGRESS or (method == LOG and self.logs) or method in news:
                known = heard.setdefault(method, [])
                if method not in news or params not in known:
                    known.append(params)
        return heard


async def _comes_true(holds: Callable[[], bool], seconds: float) -> bool:
    """Wait for what has no event."""
    with anyio.move_on_after(seconds):
        while not holds():  # noqa: ASYNC110
            await anyio.sleep(0.005)
        return True
    return False


def _is_round(answer: JSON) -> bool:
    result = answer.get("result")
    return is_object(result) and result.get("resultType") == "input_required"


def _answer(message: JSON) -> JSON:
    """A result or an error, without what the eras wrap it in."""
    if "error" in message:
        return {"error": _plain(message["error"])}
    return {"result": _plain({key: value for key, value in message["result"].items() if key not in _ENVELOPE})}


def _plain(value: Any) -> Any:
    """The same without what the protocol adds for itself, and without what is never the same twice."""
    if is_object(value):
        items = {key: _plain(item) for key, item in value.items() if not _is_own(key)}
        if str(items.get("data", "")).startswith(_CHANCE):
            items["level"] = "any"
        return {key: item for key, item in items.items() if not (key == "_meta" and not item)}
    if is_array(value):
        return [_plain(item) for item in value]
    return _steady(value) if isinstance(value, str) else value


def _is_own(key: str) -> bool:
    return key.startswith("io.modelcontextprotocol/") or key == "progressToken"


def _steady(text: str) -> Any:
    """A text without what is never the same twice; read, if it is an object in JSON."""
    if text.startswith("{") and text.endswith("}"):
        with suppress(ValueError):
            return _plain(json.loads(text))
    if text.startswith(_BASE64_RESOURCE):
        text = base64.b64decode(text).decode()
    for pattern, name in _VOLATILE:
        text = pattern.sub(name, text)
    return text
