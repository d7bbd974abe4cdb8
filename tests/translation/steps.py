"""What clients do that compare a server with what a bridge makes of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from gaia_bridge.text.json_types import JSON
from tests.support.on_demand import mcp
from tests.translation.recording import LISTS, LOG, Step, call, complete, fill, read

__all__ = ["AGENT_STEPS", "everything_steps"]

_UPDATED: Final = "notifications/resources/updated"
_CHANGED: Final = tuple(f"notifications/{kind}/list_changed" for kind in ("tools", "prompts", "resources"))
_DOCUMENT: Final = "demo://resource/static/document/architecture.md"


def _calling(*tools: str, **arguments: Any) -> Any:
    """Calls of several tools, one after the other."""

    async def do(client: mcp.Client) -> None:
        for tool in tools:
            await client.call_tool(tool, arguments)

    return do


def _again(step: Step, name: str, shows: str) -> Step:
    return Step(name, step.do, shows=shows)


def everything_steps(*, directly: bool) -> Sequence[Step]:
    """For `@modelcontextprotocol/server-everything`.

    Args:
        directly: Whether the server was told the client's roots when that came, so that it does not ask again and does
            not log that it did.
    """
    return (
        *LISTS,
        call("echo", message="milk — ☕"),
        call("echo", called="without arguments"),
        call("get-annotated-message", messageType="error", includeImage=True),
        call("get-env"),
        call("get-resource-links", count=3),
        call("get-resource-reference", resourceType="Text", resourceId=1),
        call("get-resource-reference", called="in Base64", resourceType="Blob", resourceId=2),
        call("get-resource-reference", called="that is none", resourceType="Text", resourceId=-1),
        call("get-structured-content", location="Chicago"),
        call("get-sum", a=1, b=2.5),
        call("get-sum", called="of text", a="one", b=2),
        call("get-tiny-image"),
        call("trigger-long-running-operation", duration=0.03, steps=3),
        call("trigger-elicitation-request"),
        call("trigger-elicitation-request", called="declined", action="decline"),
        call("trigger-elicitation-request", called="cancelled", action="cancel"),
        call("trigger-url-elicitation", url="https://example.org/in", elicitationId="e-1"),
        call("trigger-url-elicitation", called="as an error", url="https://example.org/in", errorPath=True),
        call("trigger-sampling-request", prompt="Six times nine?", maxTokens=50),
        call("get-roots-list", hears=() if directly else (LOG,)),
        call("simulate-research-query", topic="milk"),
        call("no-such-tool"),
        fill("simple-prompt"),
        fill("args-prompt", city="Ulm"),
        fill("args-prompt", city="Ulm", state="Bavaria"),
        fill("args-prompt"),
        fill("completable-prompt", department="Sales", name="Eve"),
        fill("resource-prompt", resourceType="Text", resourceId="1"),
        fill("no-such-prompt"),
        read(_DOCUMENT),
        read("demo://resource/dynamic/text/1"),
        read("demo://resource/dynamic/blob/1"),
        read("demo://resource/dynamic/text/none"),
        read("nothing://at-all"),
        complete("completable-prompt", "department", "E"),
        complete("completable-prompt", "name", "", department="Sales"),
        complete("demo://resource/dynamic/text/{resourceId}", "resourceId", "7"),
        complete("no-such-prompt", "name", ""),
        Step(
            "subscriber updates", _calling(*["toggle-subscriber-updates"] * 2), (_UPDATED, LOG, LOG), watched=_DOCUMENT
        ),
        Step("simulated logging", _calling(*["toggle-simulated-logging"] * 2), (LOG,)),
        call(
            "gzip-file-as-resource",
            hears=[_CHANGED[2]],
            name="milk.gz",
            data="data:text/plain,milk",
            outputType="resource",
        ),
        _again(LISTS[2], "resources with one more", "milk.gz"),
        read("demo://resource/session/milk.gz"),
    )


_FAILURES: Final = ("tool error", "value error", "error result", "flagged", "crash", "exit", "interrupt", "no json", "")
_BOOKING: Final[JSON] = {"guests": 2, "seat": None, "place": {"street": "x", "zip": "12345"}, "$odd name": 1.5}

AGENT_STEPS: Final = (
    *LISTS,
    call("book-table", **_BOOKING),
    call("book-table", called="for nobody", guests=0),
    call("take-anything", n=None, list=[1, {"two": 2.5}], text="Grüße 🎉\u2028"),
    *(call(tool) for tool in ("who-asks", "say", "show", "say-nothing", "break-promise", "narrate", "no-such-tool")),
    call("measure", n=21),
    call("measure", called="text", n="x"),
    call("count", n=3),
    *(call("fail", called=f"with {how or 'odd values'}", how=how) for how in _FAILURES),
    *(call(tool) for tool in ("ask-user-async", "ask-model", "ask-roots", "interview", "plan-trip")),
    *(
        call(tool, called=action, action=action)
        for tool in ("ask-user", "ask-user-to-visit")
        for action in ("accept", "decline", "cancel")
    ),
    fill("write-letter", to="Ada", tone="briefly"),
    fill("write-letter"),
    fill("no-arguments"),
    fill("needs-form"),
    fill("no-such-prompt"),
    *(read(uri) for uri in ("note://1", "blob://1", "data://1", "note://1/head", "broken://1", "nothing://1")),
    complete("write-letter", "to", "Pa"),
    complete("note://{number}/{part}", "part", "he", number="1"),
    complete("no-such-prompt", "to", ""),
    call("grow", hears=_CHANGED, key="x"),
    *(
        _again(step, f"{step.name} with one more", shows)
        for step, shows in zip(LISTS, ("tool-x", "prompt-x", "grown://x", ""), strict=True)
    ),
    Step("updates", _calling("touch", key="note://1"), (_UPDATED,), watched="note://1"),
)
