"""One agent that does everything an agent can do, for every transport and both eras.

    gaia-bridge serve tests/interaction/everything_agent.py

What a test must see happen inside of it, it asks with a second tool call, because over stdio the agent lives in
another process.
"""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

from gaia.agents.base import MCPAgent, ResourceNotFoundError, ToolError, get_request_context
from gaia_bridge.content import (
    audio,
    elicitation_request,
    embedded_blob,
    embedded_text,
    image,
    input_required,
    resource_link,
    roots_request,
    sampling_request,
    text,
    tool_result,
    user_message,
)
from gaia_bridge.model import LOG_LEVELS
from gaia_bridge.text.json_types import JSON

__all__ = ["CONTENT", "INFO", "PNG", "PROMPTS", "RESOURCES", "TEMPLATES", "TOOLS", "EverythingAgent"]

PATIENCE = 10.0
"""Seconds an agent's thread waits for a test; only a broken one needs them."""

PNG: Final = b"\x89PNG\r\n\x1a\n"
ICON: Final[JSON] = {"src": "data:image/png;base64,iVBORw0KGgo=", "mimeType": "image/png", "sizes": ["48x48"]}

INFO: Final[JSON] = {
    "name": "everything",
    "version": "7.8.9",
    "title": "Everything there is",
    "description": "An agent for tests",
    "instructions": "Use it well — and only in tests.",
    "websiteUrl": "https://example.org/everything",
    "icons": [ICON],
}

CONTENT: Final[list[JSON]] = [
    text("plain") | {"annotations": {"audience": ["user"], "priority": 0.25}, "_meta": {"example.org/n": 1}},
    image(PNG, "image/png"),
    audio(b"RIFF", "audio/wav"),
    resource_link("note://1", "note", title="A note", mimeType="text/plain", size=3),
    embedded_text("note://1", "one"),
    embedded_blob("blob://1", b"\x00\xff"),
]
"""One block of every kind that MCP has (P-11)."""

KEY: Final[JSON] = {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]}
NUMBER: Final[JSON] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

TOOLS: Final[list[JSON]] = [
    {
        "name": "book-table",
        "title": "Book a table",
        "description": "Takes a booking — and gives it back.",
        "inputSchema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "title": "Booking",
            "properties": {
                "guests": {"type": "integer", "minimum": 1, "maximum": 8, "description": "How many"},
                "seat": {"enum": ["inside", "outside", None], "default": None},
                "place": {
                    "type": "object",
                    "properties": {"street": {"type": "string", "minLength": 1}, "zip": {"pattern": "^[0-9]{5}$"}},
                    "additionalProperties": False,
                },
                "friends": {"type": ["array", "null"], "items": {"$ref": "#/$defs/person"}},
                "$odd name": {"oneOf": [{"type": "string"}, {"type": "number"}]},
            },
            "required": ["guests"],
            "additionalProperties": False,
            "$defs": {"person": {"type": "object", "required": ["name"], "x-vendor": {"kept": True}}},
        },
        "icons": [ICON],
        "annotations": {
            "title": "Booker",
            "readOnlyHint": False,
            "destructiveHint": False,
            "idempotentHint": False,
            "openWorldHint": True,
        },
        "_meta": {"example.org/order": 1, "ui": {"resourceUri": "ui://book"}},
    },
    {"name": "take-anything", "description": "Gives its arguments back.", "inputSchema": {}},
    {"name": "who-asks", "description": "Tells about the request."},
    {"name": "say", "description": "Returns text."},
    {"name": "show", "description": "Returns every kind of content."},
    {"name": "say-nothing", "description": "Returns nothing."},
    {
        "name": "measure",
        "description": "Returns what its output schema promises.",
        "inputSchema": NUMBER,
        "outputSchema": {"type": "object", "properties": {"double": {"type": "integer"}}, "required": ["double"]},
    },
    {
        "name": "count",
        "description": "Returns a list, as its output schema promises.",
        "inputSchema": NUMBER,
        "outputSchema": {"type": "array", "items": {"type": "integer"}},
    },
    {
        "name": "break-promise",
        "description": "Returns something else than its output schema promises.",
        "inputSchema": {"type": "object", "properties": {}},
        "outputSchema": {"type": "object", "properties": {"double": {"type": "integer"}}, "required": ["double"]},
    },
    {
        "name": "fail",
        "description": "Fails in one of many ways.",
        "inputSchema": {"type": "object", "properties": {"how": {"type": "string"}}, "required": ["how"]},
    },
    {"name": "narrate", "description": "Reports progress and logs at every level."},
    {"name": "ask-user", "description": "Shows the user a form."},
    {"name": "ask-user-async", "description": "Shows the user a form, from a coroutine."},
    {"name": "ask-user-to-visit", "description": "Shows the user a link."},
    {"name": "ask-model", "description": "Asks the client's model."},
    {"name": "ask-roots", "description": "Asks for the client's root folders."},
    {"name": "interview", "description": "Asks two things, one after the other, and reports progress in between."},
    {"name": "plan-trip", "description": "Asks in rounds, and carries a state of its own."},
    {"name": "wait-for-cancel", "description": "Blocks until it is cancelled.", "inputSchema": KEY},
    {"name": "wait-for-cancel-async", "description": "Waits until it is cancelled.", "inputSchema": KEY},
    {"name": "hold", "description": "Blocks until it is released.", "inputSchema": KEY},
    {"name": "release", "description": "Ends a hold.", "inputSchema": KEY},
    {"name": "started", "description": "Blocks until a wait or a hold has begun.", "inputSchema": KEY},
    {"name": "ended", "description": "Blocks until a wait or a hold has ended.", "inputSchema": KEY},
    {"name": "meet", "description": "Blocks until so many calls wait here.", "inputSchema": NUMBER},
    {"name": "grow", "description": "Adds a tool, a prompt and a resource.", "inputSchema": KEY},
    {"name": "touch", "description": "Updates the resource of that URI.", "inputSchema": KEY},
]

PROMPTS: Final[list[JSON]] = [
    {
        "name": "write-letter",
        "title": "Write a letter",
        "description": "A letter to someone",
        "arguments": [
            {"name": "to", "title": "Recipient", "description": "To whom", "required": True},
            {"name": "tone", "description": "How"},
        ],
        "icons": [ICON],
        "_meta": {"example.org/order": 2},
    },
    {"name": "no-arguments"},
    {"name": "needs-form", "description": "Asks the user first"},
]

RESOURCES: Final[list[JSON]] = [
    {
        "uri": "note://1",
        "name": "note-1",
        "title": "The first note",
        "description": "Text",
        "mimeType": "text/plain",
        "size": 3,
        "annotations": {"audience": ["assistant"], "priority": 1, "lastModified": "2026-01-01T00:00:00Z"},
        "icons": [ICON],
        "_meta": {"example.org/order": 3},
    },
    {"uri": "blob://1", "name": "blob-1", "mimeType": "image/png"},
    {"uri": "data://1", "name": "data-1"},
]

TEMPLATES: Final[list[JSON]] = [
    {
        "uriTemplate": "note://{number}/{part}",
        "name": "note-part",
        "title": "A part of a note",
        "description": "Text",
        "mimeType": "text/plain",
        "_meta": {"example.org/order": 4},
    }
]

CITIES: Final = ("Paris", "Parma", "Oslo")


class EverythingAgent(MCPAgent):
    """See the module."""

    def __init__(self) -> None:
        super().__init__(silent_mode=True)
        self._grown: list[str] = []
        self._updates: dict[str, int] = defaultdict(int)
        self._events: dict[tuple[str, str], threading.Event] = {}
        self._was_cancelled: dict[str, bool] = {}
        self._meeting = threading.Condition()
        self._present = 0

    def get_mcp_server_info(self) -> JSON:
        return INFO

    def get_mcp_tool_definitions(self) -> list[JSON]:
        return [*TOOLS, *({"name": f"tool-{key}", "description": "Grown."} for key in self._grown)]

    def get_mcp_prompts(self) -> list[JSON]:
        return [*PROMPTS, *({"name": f"prompt-{key}"} for key in self._grown)]

    def get_mcp_resources(self) -> list[JSON]:
        return [*RESOURCES, *({"uri": f"grown://{key}", "name": key} for key in self._grown)]

    def get_mcp_resource_templates(self) -> list[JSON]:
        return TEMPLATES

    def execute_mcp_tool(self, tool_name: str, arguments: JSON) -> Any:
        handler = getattr(self, "_" + tool_name.replace("-", "_"), None)
        if handler is None:
            raise ValueError(f"Unknown tool: {tool_name}")
        return handler(**arguments)

    def get_mcp_prompt(self, name: str, arguments: dict[str, str]) -> Any:
        if name == "write-letter":
            picture = {"role": "assistant", "content": image(PNG, "image/png")}
            return [*user_message(f"Write to {arguments['to']}, {arguments.get('tone', 'kindly')}."), picture]
        if name == "needs-form":
            answer = get_request_context().elicit("About what?", {"topic": {"type": "string"}})
            return f"It is about {answer.content['topic']}."
        return "Just write."

    def read_mcp_resource(self, uri: str) -> Any:
        scheme, _, rest = uri.partition("://")
        match scheme:
            case "note":
                return f"{rest} was updated {self._updates[uri]} times"
            case "blob":
                return PNG
            case "data":
                return {"numbers": [1, 2, 3]}
            case "broken":
                raise RuntimeError("the password is hunter2")
            case _:
                raise ResourceNotFoundError(uri)

    def complete_mcp_argument(self, ref: JSON, argument: str, value: str, context: dict[str, str]) -> list[str]:
        if ref["type"] == "ref/prompt" and argument == "to":
            return [city for city in CITIES if city.startswith(value)]
        return [f"{argument}={value}", *(f"{key}={known}" for key, known in context.items())]

    # Results

    def _book_table(self, **booking: Any) -> Any:
        return {"booked": booking}

    def _take_anything(self, **arguments: Any) -> Any:
        return {"arguments": arguments}

    def _who_asks(self) -> Any:
        request = get_request_context()
        return {"capabilities": dict(request.client_capabilities), "meta": dict(request.meta)}

    def _say(self) -> Any:
        return "Grüße 🎉\nsecond line\u2028third"

    def _show(self) -> Any:
        return tool_result(*CONTENT, structured={"kinds": len(CONTENT), "none": None}) | {"_meta": {"example.org/m": 1}}

    def _say_nothing(self) -> Any:
        return None

    def _measure(self, n: int) -> Any:
        return {"double": 2 * n}

    def _count(self, n: int) -> Any:
        return list(range(n))

    def _break_promise(self) -> Any:
        return {"double": "two"}

    def _fail(self, how: str) -> Any:
        match how:
            case "tool error":
                raise ToolError("the oven is cold")
            case "value error":
                raise ValueError("no such dish")
            case "error result":
                return {"error": "the kitchen is closed"}
            case "flagged":
                return tool_result(text("burnt"), is_error=True)
            case "crash":
                raise RuntimeError("the password is hunter2")
            case "exit":
                raise SystemExit(3)
            case "interrupt":
                raise KeyboardInterrupt
            case "no json":
                return {"object": object()}
            case _:
                return {"nan": float("nan"), "surrogate": "\ud800", "nul": "\x00"}

    # What an agent says and asks while it works

    def _narrate(self) -> Any:
        request = get_request_context()
        for step, level in enumerate(LOG_LEVELS, 1):
            request.report_progress(step, len(LOG_LEVELS), f"step {step}")
            request.log({"level": level, "step": step}, level=level, logger="narrator")
        return "done"

    def _ask_user(self) -> Any:
        schema = {
            "type": "object",
            "properties": {
                "size": {"type": "integer", "minimum": 1, "title": "Size"},
                "color": {"type": "string", "enum": ["red", "green"], "default": "red"},
            },
            "required": ["size"],
        }
        answer = get_request_context().elicit("Which one?", schema)
        return {"action": answer.action, "content": dict(answer.content)}

    async def _ask_user_async(self) -> Any:
        answer = await get_request_context().aelicit("Sure?", {"sure": {"type": "boolean"}})
        return {"action": answer.action, "content": dict(answer.content)}

    def _ask_user_to_visit(self) -> Any:
        return {"action": get_request_context().elicit_url("Please sign in", "https://example.org/in").action}

    def _ask_model(self) -> Any:
        return {"answer": get_request_context().sample("Six times nine?", 50, systemPrompt="Be brief")}

    def _ask_roots(self) -> Any:
        return {"roots": get_request_context().list_roots()}

    def _interview(self) -> Any:
        request = get_request_context()
        request.report_progress(1, 3, "before the first question")
        first = request.elicit("First?", {"word": {"type": "string"}})
        request.report_progress(2, 3, "between the questions")
        second = request.elicit("Second?", {"word": {"type": "string"}})
        request.report_progress(3, 3, "after the last question")
        return {"words": [first.content["word"], second.content["word"]]}

    def _plan_trip(self) -> Any:
        request = get_request_context()
        answers = request.input_responses
        match request.request_state:
            case None:
                needed = {
                    "where": elicitation_request("Where to?", {"city": {"type": "string"}}),
                    "why": sampling_request("Why travel?", 20),
                    "from": roots_request(),
                }
                return input_required(needed, "asked where")
            case "asked where":
                told = [answers["where"]["content"]["city"], answers["why"]["content"]["text"]]
                told.append(answers["from"]["roots"][0]["uri"])
                when = elicitation_request("When?", {"day": {"type": "string"}})
                return input_required({"when": when}, "\n".join(told))
            case state:
                city, reason, root = state.split("\n")
                return {"city": city, "reason": reason, "root": root, "day": answers["when"]["content"]["day"]}

    # Waiting

    def _event(self, what: str, key: str) -> threading.Event:
        # In one step, as no defaultdict does it: one thread may wait for what another is about to say.
        return self._events.setdefault((what, key), threading.Event())

    def _wait_for_cancel(self, key: str) -> Any:
        request = get_request_context()
        with self._visit(key):
            request.wait_cancelled(PATIENCE)
            request.raise_if_cancelled()
        return {}

    async def _wait_for_cancel_async(self, key: str) -> Any:
        with self._visit(key):
            await asyncio.sleep(PATIENCE)
        return {}

    def _hold(self, key: str) -> Any:
        with self._visit(key):
            assert self._event("released", key).wait(PATIENCE)
        return {"held": key}

    def _release(self, key: str) -> Any:
        self._event("released", key).set()
        return {}

    def _started(self, key: str) -> Any:
        return {"started": self._event("started", key).wait(PATIENCE)}

    def _ended(self, key: str) -> Any:
        assert self._event("ended", key).wait(PATIENCE)
        return {"cancelled": self._was_cancelled[key]}

    @contextmanager
    def _visit(self, key: str) -> Generator[None]:
        """Lets others see that a call began, that it ended, and whether it had been cancelled by then."""
        request = get_request_context()
        self._event("started", key).set()
        request.report_progress(1)
        try:
            yield
        finally:
            self._was_cancelled[key] = request.cancelled
            self._event("ended", key).set()

    def _meet(self, n: int) -> Any:
        with self._meeting:
            self._present += 1
            self._meeting.notify_all()
            return {"met": self._meeting.wait_for(lambda: self._present >= n, PATIENCE)}

    # Changes

    def _grow(self, key: str) -> Any:
        if key not in self._grown:
            self._grown.append(key)
        self.notify_mcp_tools_changed()
        self.notify_mcp_prompts_changed()
        self.notify_mcp_resources_changed()
        return {}

    def _touch(self, key: str) -> Any:
        self._updates[key] += 1
        self.notify_mcp_resource_updated(key)
        return {}
