"""What MCP has, as checks of one connection: each tells nothing if it works, and raises if it does not."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import anyio
import pytest

from gaia_bridge.model import LOG_LEVELS
from gaia_bridge.text.json_types import JSON
from tests.interaction.connecting import client_of
from tests.interaction.everything_agent import CONTENT, INFO, PNG, PROMPTS, RESOURCES, TEMPLATES, TOOLS
from tests.interaction.results import call, older, text_of, wire, wire_list
from tests.interaction.test_changes import Ear, listening
from tests.interaction.test_introduction import seen
from tests.interaction.test_talking import Person
from tests.support.on_demand import mcp, mcp_types
from tests.translation.through import ThroughLink
from tests.translation.wiretap import Tapped

__all__ = ["FEATURES", "Session", "open_session"]

INVALID_PARAMS: Final = -32602
LEGACY_RESOURCE_NOT_FOUND: Final = -32002
LEVEL: Final = "warning"
PICTURE: Final = base64.b64encode(PNG).decode()
TRACE: Final[JSON] = {"example.org/trace": {"id": 7, "none": None}}


@dataclass
class Session:
    """One client that is connected, and who sits in front of it.

    Args:
        link: How it is connected.
        client: The client; its log level is `LEVEL`.
        person: Answers its questions.
        ear: Hears of changes, as long as `listening`.
        logs: Level, data and logger of each log message that it heard.
    """

    link: ThroughLink
    client: mcp.Client
    person: Person
    ear: Ear
    logs: list[tuple[str, Any, str | None]]


Check = Callable[[Session], Awaitable[None]]
FEATURES: dict[str, Check] = {}
"""In the order of the table."""


@asynccontextmanager
async def open_session(link: ThroughLink) -> AsyncGenerator[Session]:
    """A connection to the everything agent, through a bridge, with everything that a client can have."""
    person, ear, logs = Person(), Ear(), list[tuple[str, Any, str | None]]()

    async def on_message(message: object) -> None:
        if not link.modern:
            ear.hear(message)

    async def on_log(params: mcp_types.LoggingMessageNotificationParams) -> None:
        logs.append((params.level, params.data, params.logger))

    options: dict[str, Any] = {**person.callbacks, "message_handler": on_message, "logging_callback": on_log}
    async with link.reachable() as reach:
        transport = Tapped(reach())
        async with client_of(transport, link.era, log_level=LEVEL if link.modern else None, **options) as client:
            yield Session(link, client, person, ear, logs)


def feature(name: str) -> Callable[[Check], Check]:
    """Name a check."""

    def named(check: Check) -> Check:
        FEATURES[name] = check
        return check

    return named


async def structured(session: Session, name: str, **arguments: object) -> Any:
    """The structured content of a call that did not fail."""
    result = await call(session.client, name, **arguments)
    assert not result.get("isError"), result
    return result["structuredContent"]


# Introductions


@feature("server info")
async def _server_info(session: Session) -> None:
    assert session.link.alone
    assert session.client.server_info is not None
    assert wire(session.client.server_info) == {key: value for key, value in INFO.items() if key != "instructions"}


@feature("instructions")
async def _instructions(session: Session) -> None:
    assert INFO["instructions"] in (session.client.instructions or "")


@feature("capabilities")
async def _capabilities(session: Session) -> None:
    assert wire(session.client.server_capabilities) == {
        "completions": {},
        "logging": {},
        "prompts": {"listChanged": True},
        "resources": {"listChanged": True, "subscribe": True},
        "tools": {"listChanged": True},
    }


@feature("ping")
async def _ping(session: Session) -> None:
    await older(session.client).send_ping()


# Tools


@feature("tools: descriptions, schemas, annotations, icons")
async def _tools(session: Session) -> None:
    whole = [tool for tool in TOOLS if tool["name"] != "count"]
    listed = session.link.own(wire_list((await session.client.list_tools()).tools))
    assert [tool for tool in listed if tool["name"] in {known["name"] for known in whole}] == [
        seen(tool, modern=True) for tool in whole
    ]


@feature("tools: every kind of content")
async def _content(session: Session) -> None:
    assert (await call(session.client, "show"))["content"] == CONTENT
    assert text_of(await call(session.client, "say")) == "Grüße 🎉\nsecond line\u2028third"
    assert await call(session.client, "say-nothing") == {"content": []}


@feature("tools: structured content and output schemas")
async def _structured(session: Session) -> None:
    assert await structured(session, "show") == {"kinds": len(CONTENT), "none": None}
    assert await structured(session, "measure", n=21) == {"double": 42}


@feature("tools: structured content that is no object, and its schema")
async def _unstructured(session: Session) -> None:
    [tool] = [tool for tool in (await session.client.list_tools()).tools if tool.name == "count"]
    assert tool.output_schema == {"type": "array", "items": {"type": "integer"}}
    assert await structured(session, "count", n=3) == [0, 1, 2]


@feature("tools: failed calls")
async def _failures(session: Session) -> None:
    for how, said in {"tool error": "the oven is cold", "flagged": "burnt"}.items():
        failed = await call(session.client, "fail", how=how)
        assert failed["isError"] is True
        assert said in text_of(failed)
    wrong = await call(session.client, "book-table", guests=0)
    assert wrong["isError"] is True
    assert "/guests" in text_of(wrong)


@feature("JSON-RPC errors")
async def _errors(session: Session) -> None:
    client, modern = session.client, session.link.modern
    with pytest.raises(mcp.MCPError, match="Unknown tool: no-such-tool") as unknown:
        await client.call_tool("no-such-tool")
    assert unknown.value.code == INVALID_PARAMS
    with pytest.raises(mcp.MCPError, match="needs the arguments: to") as missing:
        await client.get_prompt("write-letter")
    assert missing.value.code == INVALID_PARAMS
    with pytest.raises(mcp.MCPError) as absent:
        await client.read_resource("note-on-nothing://1")
    assert absent.value.code == (INVALID_PARAMS if modern else LEGACY_RESOURCE_NOT_FOUND)
    assert absent.value.data == {"uri": "note-on-nothing://1"}


@feature("`_meta` of requests and results, whatever is in it")
async def _meta(session: Session) -> None:
    asked = await session.client.call_tool("who-asks", meta=TRACE)  # type: ignore[arg-type]  # any keys are allowed
    assert asked.structured_content["meta"]["example.org/trace"] == TRACE["example.org/trace"]
    shown = wire(await session.client.call_tool("show"))
    assert shown["_meta"]["example.org/m"] == 1


# Prompts, resources, completions


@feature("prompts")
async def _prompts(session: Session) -> None:
    listed = session.link.own(wire_list((await session.client.list_prompts()).prompts))
    assert listed[: len(PROMPTS)] == PROMPTS
    letter = wire(await session.client.get_prompt("write-letter", {"to": "Ada", "tone": "briefly"}))
    assert letter["description"] == "A letter to someone"
    assert [message["content"] for message in letter["messages"]] == [
        {"type": "text", "text": "Write to Ada, briefly."},
        {"type": "image", "data": PICTURE, "mimeType": "image/png"},
    ]


@feature("resources: text, binary, JSON")
async def _resources(session: Session) -> None:
    listed = session.link.own(wire_list((await session.client.list_resources()).resources))
    assert listed[: len(RESOURCES)] == RESOURCES
    [note] = wire(await session.client.read_resource("note://1"))["contents"]
    assert note["text"].startswith("1 was updated")
    [blob] = wire(await session.client.read_resource("blob://1"))["contents"]
    assert blob == {"uri": "blob://1", "mimeType": "image/png", "blob": PICTURE}
    [data] = wire(await session.client.read_resource("data://1"))["contents"]
    assert (data["mimeType"], json.loads(data["text"])) == ("application/json", {"numbers": [1, 2, 3]})


@feature("resource templates")
async def _templates(session: Session) -> None:
    templates = wire_list((await session.client.list_resource_templates()).resource_templates)
    assert session.link.own(templates) == TEMPLATES
    [part] = wire(await session.client.read_resource("note://1/head"))["contents"]
    assert part["text"].startswith("1/head was updated")


@feature("completions")
async def _completions(session: Session) -> None:
    cities = await session.client.complete(
        mcp_types.PromptReference(name="write-letter"), {"name": "to", "value": "Pa"}
    )
    assert (cities.completion.values, cities.completion.total) == (["Paris", "Parma"], 2)
    template = mcp_types.ResourceTemplateReference(uri="note://{number}/{part}")
    known = await session.client.complete(template, {"name": "part", "value": "he"}, {"number": "1"})
    assert known.completion.values == ["part=he", "number=1"]


# While a tool runs


@feature("progress")
async def _progress(session: Session) -> None:
    told: list[tuple[Any, ...]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    await session.client.call_tool("narrate", progress_callback=on_progress)
    assert told == [(step, 8, f"step {step}") for step in range(1, 9)]


@feature("log messages, of the level that the client wants")
async def _logs(session: Session) -> None:
    if not session.link.modern:
        await older(session.client).set_logging_level(LEVEL)
    session.logs.clear()
    await session.client.call_tool("narrate")
    wanted = LOG_LEVELS[LOG_LEVELS.index(LEVEL) :]
    assert session.logs == [
        (level, {"level": level, "step": LOG_LEVELS.index(level) + 1}, "narrator") for level in wanted
    ]


@feature("cancellation")
async def _cancellation(session: Session) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(session.client.call_tool, "wait-for-cancel", {"key": "cancelled"})
        assert await structured(session, "started", key="cancelled") == {"started": True}
        tasks.cancel_scope.cancel()
    assert await structured(session, "ended", key="cancelled") == {"cancelled": True}


@feature("elicitation: forms")
async def _form(session: Session) -> None:
    assert await structured(session, "ask-user") == {"action": "accept", "content": {"size": 42, "color": "some color"}}
    [asked] = session.person.asked
    assert (asked["message"], asked["requestedSchema"]["required"]) == ("Which one?", ["size"])
    assert asked["requestedSchema"]["properties"]["color"]["default"] == "red"


@feature("elicitation: URLs")
async def _visit(session: Session) -> None:
    assert await structured(session, "ask-user-to-visit") == {"action": "accept"}
    [asked] = session.person.asked
    assert (asked["mode"], asked["url"]) == ("url", "https://example.org/in")


@feature("elicitation: refusals")
async def _refusal(session: Session) -> None:
    session.person.action = "decline"
    assert await structured(session, "ask-user") == {"action": "decline", "content": {}}
    assert await structured(session, "ask-user-to-visit") == {"action": "decline"}


@feature("sampling")
async def _sampling(session: Session) -> None:
    answer = (await structured(session, "ask-model"))["answer"]
    assert (answer["model"], answer["content"]) == ("m-1", {"type": "text", "text": "for fun"})
    [asked] = session.person.asked
    assert (asked["maxTokens"], asked["systemPrompt"]) == (50, "Be brief")


@feature("roots")
async def _roots(session: Session) -> None:
    assert await structured(session, "ask-roots") == {"roots": [{"uri": "file:///home/ada", "name": "home"}]}


@feature("questions in rounds, several at once, and from prompts")
async def _rounds(session: Session) -> None:
    trip = await structured(session, "plan-trip")
    assert trip == {"city": "some city", "reason": "for fun", "root": "file:///home/ada", "day": "some day"}
    assert await structured(session, "interview") == {"words": ["some word", "some word"]}
    prompt = wire(await session.client.get_prompt("needs-form"))
    assert prompt["messages"][0]["content"]["text"] == "It is about some topic."


# Changes


@feature("changed lists of tools")
async def _tool_changes(session: Session) -> None:
    async def names() -> set[str]:
        return {tool.name for tool in (await session.client.list_tools()).tools}

    await _list_changes(session, "tools", "tool-tools", names)


@feature("changed lists of prompts")
async def _prompt_changes(session: Session) -> None:
    async def names() -> set[str]:
        return {prompt.name for prompt in (await session.client.list_prompts()).prompts}

    await _list_changes(session, "prompts", "prompt-prompts", names)


@feature("changed lists of resources")
async def _resource_changes(session: Session) -> None:
    async def uris() -> set[str]:
        return {resource.uri for resource in (await session.client.list_resources()).resources}

    await _list_changes(session, "resources", "grown://resources", uris)


async def _list_changes(session: Session, what: str, item: str, listed: Callable[[], Awaitable[set[str]]]) -> None:
    """Something is added, that is told, and it is in the list. What is told first may have been there before."""
    assert item not in await listed()
    async with listening(session.link, session.client, session.ear):
        known = set[str]()
        while item not in known:
            session.ear.heard.clear()
            await session.ear.until({what}, lambda: call(session.client, "grow", key=what))
            known = await listed()


@feature("updates of a resource, as long as it is subscribed to")
async def _updates(session: Session) -> None:
    watched, other = "note://1", "note://2"
    session.ear.heard.clear()
    async with listening(session.link, session.client, session.ear):
        await call(session.client, "touch", key=other)
        await session.ear.until({watched}, lambda: call(session.client, "touch", key=watched))
        assert other not in session.ear.heard
    [note] = wire(await session.client.read_resource(watched))["contents"]
    assert note["text"] != "1 was updated 0 times"
    if session.link.modern:  # what is heard ends with the stream that it was heard on
        return
    await older(session.client).unsubscribe_resource(watched)
    await older(session.client).subscribe_resource(other)
    await session.ear.until({other}, lambda: call(session.client, "touch", key=other))
    session.ear.heard.clear()
    await call(session.client, "touch", key=watched)
    await session.ear.until({other}, lambda: call(session.client, "touch", key=other))
    assert watched not in session.ear.heard
