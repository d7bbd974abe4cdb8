"""Several sources, one view: every public name leads home, and what changed is told."""

from __future__ import annotations

import gc
import logging
import weakref
from collections.abc import Iterable, Mapping
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gaia_bridge.errors import ProtocolError, PublishError
from gaia_bridge.model import (
    Change,
    ChangeKind,
    NamingPolicy,
    Notification,
    ServerInfo,
    SourceKind,
    SourceState,
    SourceStatus,
)
from gaia_bridge.protocol.names import SourceName, assign_names
from gaia_bridge.server.catalog import Catalog
from gaia_bridge.server.methods import target_of
from gaia_bridge.text.json_types import JSON
from tests.support.agents import tool
from tests.support.fixed_sources import FixedSource
from tests.support.waiting import PATIENCE

INFO = ServerInfo("bridge", "9", "Bridge", "Everything")
TOOLS, PROMPTS, RESOURCES = ChangeKind.TOOLS, ChangeKind.PROMPTS, ChangeKind.RESOURCES


def catalog(*sources: FixedSource, policy: NamingPolicy = NamingPolicy.DEFAULT) -> Catalog:
    made = Catalog(INFO, policy)
    for source in sources:
        made.add(source)
    return made


def names(view: Catalog, kind: str = "tool", *, modern: bool = True) -> list[str]:
    return [item.get("name", "") for item in view.definitions(kind, modern=modern)]


@pytest.mark.requirement("S1-19")
def test_a_public_name_leads_to_its_source_and_original_name() -> None:
    one, two = FixedSource("one", "get-status", "a"), FixedSource("two", "get-status")
    server = FixedSource("up", "get-status", kind=SourceKind.SERVER)
    view = catalog(one, two, server)
    assert names(view) == ["get-status", "a", "two__get-status", "up__get-status"]
    assert view.tool("get-status") == (one, "get-status")
    assert view.tool("two__get-status") == (two, "get-status")
    assert view.tool("up__get-status") == (server, "get-status")


@pytest.mark.requirement("S1-13", "F-082")
@pytest.mark.parametrize("name", ["", "up__", "one__a", "a\x00"])
def test_a_name_that_was_not_given_out_leads_nowhere(name: str) -> None:
    view = catalog(FixedSource("one", "a"), FixedSource("up", "b", kind=SourceKind.SERVER))
    for find in (view.tool, view.prompt):
        with pytest.raises(ProtocolError) as caught:
            find(name)
        assert caught.value.code == -32602
    assert view.tool_definition(name) is None


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("forecast", "Unknown tool: forecast; did you mean 'up__forecast'?"),
        ("Get_Status", "Unknown tool: Get_Status; did you mean 'get-status'?"),
        ("zebra", "Unknown tool: zebra"),
    ],
)
def test_who_calls_a_tool_by_nearly_its_name_is_told_the_name(name: str, said: str) -> None:
    view = catalog(FixedSource("one", "get-status"), FixedSource("up", "forecast", kind=SourceKind.SERVER))
    with pytest.raises(ProtocolError) as caught:
        view.tool(name)
    assert caught.value.message == said


def test_a_name_is_compared_with_a_few_others_only() -> None:
    view = catalog(FixedSource("one", *(f"get-status-{number}" for number in range(40))))
    with pytest.raises(ProtocolError) as caught:
        view.tool("get-status")
    assert caught.value.message == "Unknown tool: get-status"


@given(st.lists(st.lists(st.sampled_from(["a", "b", "s0__a", "s1__a", "s0", "x" * 70]), unique=True), max_size=4))
@pytest.mark.requirement("S1-10", "S1-19")
def test_every_tool_of_every_source_can_be_called_by_exactly_one_name(tools: list[list[str]]) -> None:
    sources = [FixedSource(f"s{number}", *listed) for number, listed in enumerate(tools)]
    view = catalog(*sources)
    found = {(source.name, name) for source, name in map(view.tool, names(view))}
    assert found == {(source.name, name) for source, listed in zip(sources, tools, strict=True) for name in listed}
    assert len(names(view)) == len(found)


def test_a_collision_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    names(catalog(FixedSource("one", "a"), FixedSource("two", "a")))
    assert [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING] == [
        "tool a of two is published under a qualified name: its own is taken"
    ]


def test_a_collision_is_logged_once_while_it_lasts_and_again_when_it_comes_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    two = FixedSource("two", "a")
    view = catalog(FixedSource("one", "a"), two)
    for name in ("three", "four"):
        view.add(FixedSource(name, name))
        names(view)
    assert len(caplog.records) == 1
    view.remove(two.name)
    names(view)
    view.add(two)
    names(view)
    assert len(caplog.records) == 2


def test_what_nobody_looks_at_is_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[int] = []

    def assign(items: Iterable[SourceName], policy: NamingPolicy, prefixes: Mapping[str, str]) -> Any:
        compiled.append(len(found := list(items)))
        return assign_names(found, policy, prefixes)

    monkeypatch.setattr("gaia_bridge.server.catalog.assign_names", assign)
    sources = [FixedSource(f"s{number}", "a", "b") for number in range(100)]
    view = catalog(*sources)
    for source in sources:
        source.change(Change(TOOLS))
    assert view.capabilities == {"tools"}
    assert not compiled
    assert len(names(view)) == 200
    for name in names(view):
        view.tool(name)
    assert compiled == [200]


def test_a_source_that_is_gone_is_not_kept() -> None:
    source = FixedSource("one", "a", prompts=("p",), resources=("u:a",))
    view = catalog(source, FixedSource("two"))
    assert names(view) == ["a"] and names(view, "prompt") == ["p"] and names(view, "resource")
    gone = weakref.ref(source)
    view.remove("one")
    del source
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("modern", [True, False])
def test_a_definition_that_did_not_change_is_not_made_again(modern: bool) -> None:
    one, two = FixedSource("one", "a", "b"), FixedSource("two", "c")
    view = catalog(one, two)
    before = view.definitions("tool", modern=modern)
    two.change(Change(TOOLS), two.offering({**tool("c"), "title": "C"}, "d"))
    after = view.definitions("tool", modern=modern)
    assert after == [tool("a"), tool("b"), {**tool("c"), "title": "C"}, tool("d")]
    assert [item is old for item, old in zip(after, before, strict=False)] == [True, True, False]


BARE: JSON = {"name": "bare", "inputSchema": {"type": "object", "additionalProperties": False}}


@pytest.mark.requirement("F-372")
@pytest.mark.parametrize("modern", [True, False])
@pytest.mark.parametrize("kind", SourceKind)
@pytest.mark.parametrize("merges", [True, False])
def test_a_tool_without_properties_is_given_them_unless_it_is_on_the_endpoint_of_its_server(
    modern: bool, kind: SourceKind, merges: bool
) -> None:
    source = FixedSource("one", kind=kind)
    source.features = source.offering(BARE)
    view = Catalog(ServerInfo("test", "1"), NamingPolicy.DEFAULT, merges=merges)
    view.add(source)
    [shown] = view.definitions("tool", modern=modern)
    unchanged = kind is SourceKind.SERVER and not merges
    assert shown["inputSchema"] == BARE["inputSchema"] | ({} if unchanged else {"properties": {}})
    assert "properties" not in BARE["inputSchema"]


@pytest.mark.requirement("S1-10")
def test_a_definition_is_shown_as_declared_but_for_its_public_name() -> None:
    schema: JSON = {"type": "object", "properties": {"x": {"$ref": "#/$defs/x"}}, "$defs": {"x": True}}
    rich: JSON = {"name": "a", "title": "A", "inputSchema": schema, "_meta": {"k": 1}}
    source = FixedSource("one")
    source.features = source.offering(rich)
    view = catalog(FixedSource("zero", "a"), source)
    assert view.definitions("tool", modern=True)[1] == {**rich, "name": "one__a"}
    assert view.tool_definition("one__a") == {**rich, "name": "one__a"}
    assert rich["name"] == "a"


@pytest.mark.requirement("S1-10")
def test_earlier_revisions_are_shown_what_they_can_read() -> None:
    source = FixedSource("one")
    listing: JSON = {**tool("list"), "outputSchema": {"type": "array"}}
    odd: JSON = {"name": "odd", "inputSchema": {"type": "object", "properties": {"a": None}}}
    source.features = source.offering("plain", listing, odd)
    view = catalog(source)
    assert names(view) == ["plain", "list", "odd"]
    assert view.definitions("tool", modern=False) == [tool("plain"), tool("list")]


def test_prompts_are_named_like_tools() -> None:
    one, two = FixedSource("one", prompts=("p",)), FixedSource("two", prompts=("p", "q"))
    view = catalog(one, two)
    assert names(view, "prompt") == ["p", "two__p", "q"]
    assert view.prompt("two__p") == (two, "p")


def test_a_resource_that_cannot_keep_its_uri_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    view = catalog(FixedSource("one", resources=("u:a",)), FixedSource("two", resources=("u:a", "u:b")))
    assert names(view, "resource") == ["u:a of one", "u:a of two", "u:b of two"]
    assert "u:a of two is published under another URI: its own is taken" in caplog.text


@pytest.mark.requirement("S1-16")
def test_one_source_alone_speaks_for_itself_and_several_as_the_bridge() -> None:
    one, two = FixedSource("one", "a", instructions="Ask one."), FixedSource("two", instructions="Ask two.")
    view = catalog(one)
    assert view.info(modern=True) == one.features.info
    view.add(two)
    merged = view.info(modern=True)
    assert (merged.name, merged.version, merged.title) == ("bridge", "9", "Bridge")
    assert merged.instructions == "## one\n\nAsk one.\n\n## two\n\nAsk two."
    view.remove("two")
    assert view.info(modern=True) == one.features.info
    assert catalog().info(modern=True).instructions is None
    assert catalog(FixedSource("up", kind=SourceKind.SERVER)).info(modern=True).name == "I am up"


@pytest.mark.requirement("P-10")
def test_a_capability_is_there_exactly_while_a_source_has_it() -> None:
    view = catalog(FixedSource("one", "a"))
    assert view.capabilities == {"tools"}
    view.add(FixedSource("two", prompts=("p",)))
    assert view.capabilities == {"tools", "prompts"}
    view.remove("two")
    assert view.capabilities == {"tools"}
    view.remove("one")
    assert view.capabilities == frozenset()


@pytest.mark.requirement("P-10")
def test_clients_are_told_when_a_source_comes_or_goes_of_what_it_brings_or_takes() -> None:
    heard: list[ChangeKind] = []
    view = catalog()
    view.listen(lambda change: heard.append(change.kind))
    view.add(FixedSource("one", "a"))
    assert heard == [TOOLS]
    view.add(FixedSource("two", prompts=("p",), resources=("u:x",)))
    assert heard[1:] == [PROMPTS, RESOURCES, TOOLS]
    view.remove("two")
    assert heard[4:] == [PROMPTS, RESOURCES, TOOLS]
    view.remove("one")
    assert heard[7:] == [TOOLS]
    view.remove("one")
    assert len(heard) == 8


@pytest.mark.requirement("P-10", "F-294")
@pytest.mark.parametrize("others", [(), ("tools",), ("prompts", "resources")])
def test_a_source_that_only_has_tools_announces_tools_only_whatever_the_others_have(others: tuple[str, ...]) -> None:
    prompts, resources = ("p",) * ("prompts" in others), ("u:x",) * ("resources" in others)
    view = catalog(FixedSource("one", "a", prompts=prompts, resources=resources), FixedSource("two", "a"))
    heard: list[ChangeKind] = []
    view.listen(lambda change: heard.append(change.kind))
    view.add(FixedSource("three", "a", "b"))
    assert heard == [TOOLS]
    view.remove("three")
    assert heard == [TOOLS, TOOLS]


@pytest.mark.requirement("F-294")
def test_a_source_announces_the_lists_that_it_has_and_what_the_endpoint_can_do_since() -> None:
    view = catalog(FixedSource("one", "a", prompts=("p",)))
    heard: list[ChangeKind] = []
    view.listen(lambda change: heard.append(change.kind))
    view.add(FixedSource("two", prompts=("q",)))
    assert heard == [PROMPTS, TOOLS]
    view.remove("one")
    assert heard[2:] == [PROMPTS, TOOLS]
    view.remove("two")
    assert heard[4:] == [PROMPTS, TOOLS]


def test_a_change_is_in_the_view_before_it_is_told() -> None:
    source = FixedSource("one", "a")
    view = catalog(source)
    seen: list[tuple[Change, list[str]]] = []
    view.listen(lambda change: seen.append((change, names(view))))
    source.change(Change(TOOLS), source.offering("a", "b"))
    update = Change(ChangeKind.RESOURCE_UPDATED, "u:x")
    source.change(update)
    assert seen == [(Change(TOOLS), ["a", "b"]), (update, ["a", "b"])]


def test_a_source_that_is_gone_is_not_listened_to() -> None:
    source = FixedSource("one", "a")
    view = catalog(source)
    view.remove("one")
    assert source.listeners == []
    assert view.sources == []


def test_a_removed_name_is_free_and_the_next_in_line_takes_it() -> None:
    one, two = FixedSource("one", "a"), FixedSource("two", "a")
    view = catalog(one, two)
    view.remove("one")
    assert names(view) == ["a"]
    assert view.tool("a") == (two, "a")


@pytest.mark.requirement("C-12")
@pytest.mark.parametrize("name", ["", "a/b", "..", "a b", "x" * 65])
def test_an_agent_needs_a_name_that_fits_in_a_path(name: str) -> None:
    view = catalog()
    with pytest.raises(PublishError, match="1 to 64 characters"):
        view.add(FixedSource(name))
    assert view.sources == []


@pytest.mark.requirement("C-12")
@pytest.mark.parametrize("name", ["", "..", "a\nb", "-x", "x" * 129])
def test_a_server_needs_a_name_that_can_be_seen(name: str) -> None:
    view = catalog()
    with pytest.raises(PublishError, match="the name of a server has 1 to 128 characters"):
        view.add(FixedSource(name, kind=SourceKind.SERVER))
    assert view.sources == []


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (NamingPolicy.DEFAULT, "scope_my_server__find"),
        (NamingPolicy.DOUBLE, "scope_my_server__find"),
        (NamingPolicy.GAIA, "mcp_scope_my_server_find"),
        (NamingPolicy.BARE, "find"),
    ],
)
def test_a_server_with_any_name_has_a_prefix_that_models_take(policy: NamingPolicy, expected: str) -> None:
    server = FixedSource("@scope/my server", "find", kind=SourceKind.SERVER)
    view = catalog(server, policy=policy)
    assert names(view) == [expected]
    assert view.tool(expected) == (server, "find")


def test_names_whose_prefixes_meet_have_different_ones_whatever_they_offer(caplog: pytest.LogCaptureFixture) -> None:
    one = FixedSource("my server", "a", kind=SourceKind.SERVER)
    other = FixedSource("my/server", "b", prompts=("p",), kind=SourceKind.SERVER)
    view = catalog(one, other)
    first, second = names(view)
    assert first == "my_server__a"
    prefix = second.removesuffix("__b")
    assert prefix.startswith("my_server_") and names(view, "prompt") == [f"{prefix}__p"]
    assert (view.tool(first), view.tool(second)) == ((one, "a"), (other, "b"))
    assert caplog.messages == [
        f"names of tools of 'my/server' begin with {prefix}: my_server stands for 'my server'",
    ]
    one.features = one.offering()
    one.change(Change(TOOLS))
    assert names(view) == [second]


def test_who_asks_for_a_tool_of_a_server_that_is_not_ready_is_told_its_name() -> None:
    server = FixedSource("@scope/my server", kind=SourceKind.SERVER)
    server.status = SourceStatus(SourceState.FAILED, "it exited")
    view = catalog(server, FixedSource("other", "a"))
    with pytest.raises(ProtocolError, match="server '@scope/my server' is not ready: it exited"):
        view.tool("scope_my_server__find")


def test_a_source_needs_a_name_of_its_own() -> None:
    one = FixedSource("one", "a")
    view = catalog(one)
    with pytest.raises(PublishError, match="has that name"):
        view.add(FixedSource("one", "b"))
    assert view.sources == [one]
    assert names(view) == ["a"]


@pytest.mark.anyio
async def test_all_sources_look_again_at_once() -> None:
    class Slow(FixedSource):
        async def refresh(self) -> None:
            waiting.append(self.name)
            if len(waiting) == 3:
                together.set()
            await together.wait()
            await super().refresh()

    waiting: list[str] = []
    together = anyio.Event()
    sources = [Slow(name) for name in ("one", "two", "three")]
    with anyio.fail_after(PATIENCE):
        await catalog(*sources).refresh()
        await catalog().refresh()
    assert [source.refreshed for source in sources] == [1, 1, 1]


def test_a_tool_of_a_server_that_is_not_ready_is_unknown_and_the_reason_is_told() -> None:
    server = FixedSource("up", kind=SourceKind.SERVER)
    server.status = SourceStatus(SourceState.FAILED, "cannot start 'npx': not found")
    with pytest.raises(ProtocolError, match="Unknown tool: up__echo; server 'up' is not ready: cannot start 'npx'"):
        catalog(server).tool("up__echo")
    with pytest.raises(ProtocolError, match="^Unknown tool: echo$"):
        catalog(server).tool("echo")
    server.status = SourceStatus(SourceState.READY)
    with pytest.raises(ProtocolError, match="^Unknown tool: up__echo$"):
        catalog(server).tool("up__echo")


class SlowSource(FixedSource):
    """A server that has not said yet what it offers."""

    def __init__(self, name: str, *tools: str) -> None:
        super().__init__(name, kind=SourceKind.SERVER)
        self.features = replace(self.features, is_known=False)
        self.learnt = 0
        self._tools = tools

    async def learn(self) -> None:
        self.learnt += 1
        self.change(Change(ChangeKind.TOOLS), self.offering(*self._tools))


@pytest.mark.anyio
@pytest.mark.requirement("F-285")
async def test_what_is_called_by_the_name_of_a_server_that_is_starting_waits_for_it_and_for_no_other() -> None:
    slow, slower = SlowSource("slow", "echo"), SlowSource("other", "echo")
    catalog = Catalog(ServerInfo("c", "1"), NamingPolicy.DEFAULT)
    for source in (FixedSource("agent", "act"), slow, slower):
        catalog.add(source)
    assert await catalog.lookup(lambda: catalog.tool("slow__echo"), "slow__echo") == (slow, "echo")
    assert (slow.learnt, slower.learnt) == (1, 0)
    with pytest.raises(ProtocolError, match="Unknown tool: none"):
        await catalog.lookup(lambda: catalog.tool("none"), "none")
    assert slower.learnt == 0


def test_the_id_of_a_task_leads_to_its_server_whatever_that_is_called() -> None:
    names = ("a", "a:b", "@scope/my server", "%3A")
    servers = [FixedSource(name, kind=SourceKind.SERVER, extras={"tasks": {"cancel": {}}}) for name in names]
    view = catalog(*servers)
    for server in servers:
        public = view.task_prefix(server) + "t:1"
        assert target_of(view, "tasks/get", {"taskId": public}, "2025-11-25") == (server, {"taskId": "t:1"})


def test_the_ids_of_tasks_say_whose_they_are_as_soon_as_there_are_two_sources() -> None:
    one, two = (FixedSource(name, extras={"tasks": {"cancel": {}}}) for name in ("one", "two"))
    view = catalog(one)
    assert view.task_prefix(one) == ""
    view.add(two)
    heard: list[Any] = []
    view.listen(heard.append)
    two.change(Change(ChangeKind.NOTIFIED, notification=Notification("notifications/tasks/status", {"taskId": "t"})))
    assert [view.task_prefix(source) for source in (one, two)] == ["one:", "two:"]
    assert heard[0].notification.params == {"taskId": "two:t"}
