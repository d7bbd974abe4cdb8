"""A composed source delegates: what it passes on, what it keeps back, and when it looks again."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import anyio
import pytest
from anyio.abc import TaskStatus
from msgspec.structs import replace

from gaia_bridge import Composition, source
from gaia_bridge.calls.results.conversion import error_result
from gaia_bridge.contract import ClientRequest, FollowsRoots, Introducible, Starts
from gaia_bridge.errors import ProtocolError, ResourceNotFoundError
from gaia_bridge.model import Change, ChangeKind, ServerFeatures, SourceKind
from gaia_bridge.sources.composition.composed import ComposedServer, ComposedSource, composed, innermost
from gaia_bridge.text.json_types import JSON
from tests.support.agents import tool
from tests.support.fixed_sources import FixedSource
from tests.support.upstreams import FakeRequest

pytestmark = pytest.mark.anyio

REQUEST = FakeRequest()
EVERYTHING: Any = {"prompts": ("p",), "resources": ("demo://x", "demo://secret"), "templates": ("demo://in/{n}",)}


class Recording(FixedSource):
    """A source that remembers what it was asked."""

    def __init__(self, *tools: str, kind: SourceKind = SourceKind.AGENT, **offered: Any) -> None:
        super().__init__("up", *tools, kind=kind, **offered)
        self.asked: list[tuple[Any, ...]] = []
        self.found: ServerFeatures | None = None
        """What it has found when it has looked again."""

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        task_status.started()

    async def seek(self) -> None:
        self.asked.append(("seek",))
        self.features = self.found or self.features

    async def learn(self) -> None:
        self.asked.append(("learn",))

    async def call_tool(self, name: str, arguments: JSON, request: ClientRequest) -> JSON:
        return self._asked(name, arguments)

    async def get_prompt(self, name: str, arguments: dict[str, str], request: ClientRequest) -> JSON:
        return self._asked(name, arguments)

    async def read_resource(self, uri: str, request: ClientRequest) -> JSON:
        return self._asked(uri)

    async def forward(self, method: str, params: JSON, request: ClientRequest) -> JSON:
        self._asked(method, params)
        return {"tools": [tool("a"), tool("b"), tool("unheard")]} if method == "tools/list" else {"method": method}

    async def complete(self, ref: JSON, argument: JSON, context: dict[str, str], request: ClientRequest) -> JSON:
        return self._asked(ref, argument, context)

    async def subscribe(self, uri: str) -> None:
        self._asked("subscribe", uri)

    async def unsubscribe(self, uri: str) -> None:
        self._asked("unsubscribe", uri)

    def _asked(self, *asked: Any) -> JSON:
        self.asked.append(asked)
        return {"asked": asked}


class RecordingServer(Recording):
    """One with all that a source may have beside."""

    awaited = True

    def roots_changed(self, request: ClientRequest) -> None:
        self._asked("roots")

    async def meet(self, request: ClientRequest) -> None:
        self._asked("meet")

    async def started(self) -> None:
        self._asked("started")


def compose(wrapped: Recording, description: Composition) -> ComposedSource:
    found = composed(wrapped, description.steps)
    assert isinstance(found, ComposedSource)
    return found


def test_a_source_without_steps_is_itself() -> None:
    own = Recording("a")
    assert composed(own, ()) is own
    assert innermost(own) is own
    assert innermost(compose(own, source(own).prefixed("x_"))) is own


async def test_a_composed_source_is_what_the_source_is_and_nothing_else() -> None:
    one = compose(Recording("a"), source(None).prefixed("x_"))
    other = compose(RecordingServer("a", kind=SourceKind.SERVER), source(None).prefixed("x_"))
    for protocol in (FollowsRoots, Introducible, Starts):
        assert (isinstance(one, protocol), isinstance(other, protocol)) == (False, True)
    assert (one.kind, other.kind, other.name, other.status) == (
        SourceKind.AGENT,
        SourceKind.SERVER,
        "up",
        other.wrapped.status,
    )
    assert isinstance(other, ComposedServer) and isinstance(other.wrapped, RecordingServer)
    other.roots_changed(REQUEST)
    await other.meet(REQUEST)
    await other.started()
    assert (other.wrapped.asked, other.awaited) == ([("roots",), ("meet",), ("started",)], True)


def test_an_offer_is_composed_once_for_each_change() -> None:
    own, asked = Recording("a"), list[str]()

    def when(kind: str, definition: Mapping[str, Any]) -> bool:
        asked.append(definition["name"])
        return True

    found = compose(own, source(None).filtered(when=when))
    first = found.features
    assert found.features is first and asked == ["a"]
    own.change(Change(ChangeKind.TOOLS), own.offering("b"))
    assert [item["name"] for item in found.features.tools] == ["b"]
    assert asked == ["a", "b"]


async def test_what_is_asked_for_by_an_unknown_name_is_looked_for_once_more() -> None:
    own = Recording("a")
    found = compose(own, source(None).prefixed("x_"))
    with pytest.raises(ProtocolError, match="Unknown tool: x_new"):
        await found.call_tool("x_new", {}, REQUEST)
    assert own.asked == [("seek",)]
    own.found = replace(own.offering("new"), is_known=False)
    assert await found.call_tool("x_new", {}, REQUEST) == {"asked": ("new", {})}
    assert own.asked[1:] == [("seek",), ("learn",), ("new", {})]


async def test_what_cannot_be_called_so_is_told_by_its_public_name_and_does_not_reach_the_source() -> None:
    own = Recording()
    own.features = own.offering(tool("a", key={"type": "string"}))
    found = compose(own, source(None).with_defaults({"a": {"key": "k"}}, hidden=True).prefixed("x_"))
    assert await found.call_tool("x_a", {"key": "mine"}, REQUEST) == error_result("tool 'x_a' has no argument 'key'")
    assert own.asked == []


async def test_requests_beyond_the_core_are_passed_on_but_show_and_reach_nothing_that_is_filtered_out() -> None:
    own = Recording("a", "b", **EVERYTHING)
    found = compose(own, source(None).filtered(deny=["b", "*secret*"]).prefixed("x_"))
    assert await found.forward("tools/list", {"cursor": "2"}, REQUEST) == {"tools": [tool("x_a")]}
    assert await found.forward("ours/ask", {"uri": "demo://secret"}, REQUEST) == {"method": "ours/ask"}
    assert await found.forward("resources/subscribe", {"uri": "demo://x"}, REQUEST) == {"method": "resources/subscribe"}
    with pytest.raises(ResourceNotFoundError):
        await found.forward("resources/subscribe", {"uri": "demo://secret"}, REQUEST)


async def test_only_resources_that_are_offered_are_subscribed_to_and_told_of() -> None:
    own, heard = Recording(**EVERYTHING), list[Change]()
    found = compose(own, source(None).filtered(deny=["*secret*"]))
    stop = found.listen(heard.append)
    await found.subscribe("demo://x")
    await found.unsubscribe("demo://x")
    with pytest.raises(ResourceNotFoundError):
        await found.subscribe("demo://secret")
    assert own.asked == [("subscribe", "demo://x"), ("unsubscribe", "demo://x")]
    told = [
        Change(ChangeKind.RESOURCE_UPDATED, uri) for uri in ("demo://secret", "demo://x", "demo://in/5", "demo://other")
    ]
    for change in (*told, Change(ChangeKind.PROMPTS)):
        own.change(change)
    assert heard == [told[1], told[2], Change(ChangeKind.PROMPTS)]
    stop()
    own.change(Change(ChangeKind.TOOLS))
    assert len(heard) == 3


async def test_completions_are_asked_for_by_the_names_of_the_source() -> None:
    own = Recording(**EVERYTHING)
    found = compose(own, source(None).filtered(deny=["demo://in/*"]).renamed({"p": "q"}))
    argument = {"name": "n", "value": ""}
    await found.complete({"type": "ref/prompt", "name": "q"}, argument, {"m": "1"}, REQUEST)
    assert own.asked == [({"type": "ref/prompt", "name": "p"}, argument, {"m": "1"})]
    for ref in ({"type": "ref/prompt", "name": "p"}, {"type": "ref/resource", "uri": "demo://in/{n}"}):
        with pytest.raises(ProtocolError):
            await found.complete(ref, argument, {}, REQUEST)


def test_what_is_left_out_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    own = Recording("a")
    found = compose(own, source(None).renamed({"gone": "new"}))
    with caplog.at_level(logging.WARNING):
        assert found.features.left_out
        own.change(Change(ChangeKind.TOOLS), own.offering("b"))
        assert found.features.left_out
    assert caplog.messages == [
        "up: tool 'gone' is left out: there is no tool and no prompt of that name to be called 'new'"
    ]
