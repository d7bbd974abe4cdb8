"""Word of changes from modern servers."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from gaia_bridge.client import RequestTimeoutError
from gaia_bridge.client.transport import ConnectionLostError, UnreachableError, UpstreamError
from gaia_bridge.errors import ProtocolError
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.text.json_types import JSON
from tests.bridge.client.scripted import QUICK, Role, Wire, connected, modern
from tests.support.on_demand import mcp_types

pytestmark = pytest.mark.anyio

ID = "io.modelcontextprotocol/subscriptionId"
ALL: JSON = {"tools": {"listChanged": True}, "prompts": {"listChanged": True}, "resources": {"listChanged": True}}
SUBSCRIBABLE: JSON = {"resources": {"subscribe": True}}
TOOLS: JSON = {"tools": {"listChanged": True}}
TOOLS_CHANGED: tuple[str, JSON] = ("notifications/tools/list_changed", {})


def event(wire: Wire, request: JSON, method: str, **params: Any) -> None:
    """What a server sends on the stream that a request opened."""
    wire.notify(f"notifications/{method}", params | {"_meta": {ID: request["id"]}})


async def acknowledged(wire: Wire) -> JSON:
    """Confirm the next listening; returns the request."""
    request = await wire.next("subscriptions/listen")
    event(wire, request, "subscriptions/acknowledged", notifications=request["params"]["notifications"])
    return request


@pytest.mark.requirement("P-5")
async def test_what_a_server_announces_is_listened_to_and_told_under_the_legacy_names() -> None:
    async def changes(wire: Wire) -> None:
        request = await acknowledged(wire)
        for name in ("tools", "prompts", "resources"):
            event(wire, request, f"{name}/list_changed")

    delegate = Role()
    async with connected(modern(changes, ALL), delegate=delegate) as (_, wire):
        await delegate.until(lambda: len(delegate.heard) == 3)
        params = wire.received[1]["params"]
        wanted = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}
        assert params["notifications"] == wanted
        assert mcp_types.PROTOCOL_VERSION_META_KEY in params["_meta"]
    assert [method for method, _ in delegate.heard] == [
        "notifications/tools/list_changed",
        "notifications/prompts/list_changed",
        "notifications/resources/list_changed",
    ]
    assert not any(ID in params.get("_meta", {}) for _, params in delegate.heard)


@pytest.mark.parametrize("capabilities", [{}, {"tools": {}}, {"tools": {"listChanged": False}}, {"tools": True}])
async def test_a_server_that_announces_nothing_is_not_listened_to(capabilities: JSON) -> None:
    async with connected(modern(capabilities=capabilities)) as (connection, wire):
        await connection.subscribe("a:b")
        await connection.unsubscribe("a:b")
        assert [sent["method"] for sent in wire.received] == ["server/discover"]


async def test_the_connection_is_open_once_the_listening_is_confirmed() -> None:
    confirmed = False

    async def slow(wire: Wire) -> None:
        nonlocal confirmed
        request = await wire.next("subscriptions/listen")
        await anyio.wait_all_tasks_blocked()
        confirmed = True
        event(wire, request, "subscriptions/acknowledged")

    delegate = Role()
    async with connected(modern(slow, TOOLS), delegate=delegate):
        assert confirmed
    assert delegate.heard == []


async def test_a_server_that_confirms_late_delays_nobody_and_what_may_have_been_missed_is_announced() -> None:
    async def late(wire: Wire) -> None:
        request = await wire.next("subscriptions/listen")
        await wire.next("go")
        event(wire, request, "subscriptions/acknowledged")

    delegate = Role()
    async with connected(modern(late, TOOLS), delegate=delegate, limits=UpstreamLimits(probe_timeout=0.01)) as (
        connection,
        _,
    ):
        assert delegate.heard == []
        await connection.notify("go")
        await delegate.until(lambda: delegate.heard == [TOOLS_CHANGED])


async def test_a_server_that_does_not_serve_listening_is_left_alone() -> None:
    async def refuses(wire: Wire) -> None:
        wire.refuse(await wire.next("subscriptions/listen"))

    async with connected(modern(refuses, TOOLS | SUBSCRIBABLE)) as (connection, wire):
        await anyio.wait_all_tasks_blocked()
        await connection.subscribe("a:b")
        await anyio.wait_all_tasks_blocked()
        assert [sent["method"] for sent in wire.received] == ["server/discover", "subscriptions/listen"]


async def test_nothing_counts_before_the_confirmation_or_on_a_stream_that_is_not_ours() -> None:
    async def early(wire: Wire) -> None:
        request = await wire.next("subscriptions/listen")
        event(wire, request, "tools/list_changed")
        event(wire, {"id": 999}, "subscriptions/acknowledged")
        event(wire, {"id": 999}, "tools/list_changed")
        event(wire, {"id": "x"}, "tools/list_changed")
        event(wire, request, "subscriptions/acknowledged")
        event(wire, request, "tools/list_changed", x=1)

    delegate = Role()
    async with connected(modern(early, TOOLS), delegate=delegate):
        await delegate.until(lambda: len(delegate.heard) > 0)
    assert [params.get("x") for _, params in delegate.heard] == [1]


async def test_a_confirmation_may_be_known_by_the_stream_on_which_it_came() -> None:
    async def nameless(wire: Wire) -> None:
        request = await wire.next("subscriptions/listen")
        wire.notify("notifications/subscriptions/acknowledged", {}, during=request["id"])
        wire.notify("notifications/tools/list_changed", {}, during=request["id"])

    delegate = Role()
    async with connected(modern(nameless, TOOLS), delegate=delegate):
        await delegate.until(lambda: delegate.heard == [TOOLS_CHANGED])


@pytest.mark.parametrize("end", ["gracefully", "dropped", "cancelled", "refused"])
async def test_a_stream_that_ends_is_opened_again_and_what_may_have_been_missed_is_announced(end: str) -> None:
    async def drops(wire: Wire) -> None:
        request = await acknowledged(wire)
        match end:
            case "gracefully":
                wire.answer(request, {"resultType": "complete"})
            case "dropped":
                wire.fail(request, UpstreamError("broke off"))
            case "cancelled":
                wire.notify("notifications/cancelled", {"requestId": request["id"]})
                await wire.next("notifications/cancelled")
            case _:
                wire.refuse(request, -32603, "Subscription limit reached")
        again = await acknowledged(wire)
        assert again["id"] != request["id"]
        event(wire, request, "prompts/list_changed")
        event(wire, again, "prompts/list_changed")

    delegate = Role()
    async with connected(modern(drops, TOOLS), delegate=delegate):
        await delegate.until(lambda: len(delegate.heard) == 2)
    assert [method for method, _ in delegate.heard] == [TOOLS_CHANGED[0], "notifications/prompts/list_changed"]


@pytest.mark.requirement("F-050")
async def test_a_server_that_is_not_there_any_more_when_its_stream_is_opened_again_is_doubted() -> None:
    async def goes_away(wire: Wire) -> None:
        wire.fail(await acknowledged(wire), UpstreamError("broke off"))
        wire.fail(await wire.next("subscriptions/listen"), UnreachableError("cannot be reached"))
        await acknowledged(wire)

    doubts: list[str] = []

    class Doubting(Role):
        def doubted(self, why: str) -> None:
            doubts.append(why)

    delegate = Doubting()
    async with connected(modern(goes_away, TOOLS), delegate=delegate):
        await delegate.until(lambda: delegate.heard == [TOOLS_CHANGED])
    assert doubts == ["the stream of its changes ended, and it could not be reached"]


async def test_a_stream_that_cannot_be_opened_is_tried_again_after_growing_pauses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []
    enough = anyio.Event()

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 5:
            enough.set()
            await anyio.sleep_forever()

    monkeypatch.setattr("gaia_bridge.client.subscriptions.sleep", sleep)

    async def fails(wire: Wire) -> None:
        while True:
            wire.fail(await wire.next("subscriptions/listen"), UpstreamError("answered with HTTP status 500"))

    async with connected(modern(fails, TOOLS), limits=UpstreamLimits(retry_floor=0.5, retry_cap=3)):
        await enough.wait()
    assert pauses == [0.5, 1, 2, 3, 3]


async def test_a_subscription_replaces_the_stream_without_a_gap() -> None:
    async def changes(wire: Wire) -> None:
        first = await acknowledged(wire)
        second = await wire.next("subscriptions/listen")
        event(wire, first, "tools/list_changed")
        event(wire, second, "subscriptions/acknowledged")
        cancelled = await wire.next("notifications/cancelled")
        assert cancelled["params"]["requestId"] == first["id"]
        event(wire, first, "tools/list_changed")
        event(wire, second, "resources/updated", uri="a:b")

    delegate = Role()
    async with connected(modern(changes, TOOLS | SUBSCRIBABLE), delegate=delegate) as (connection, wire):
        await connection.subscribe("a:b")
        await delegate.until(lambda: len(delegate.heard) == 2)
        wanted = [sent["params"]["notifications"] for sent in wire.received if sent["method"] == "subscriptions/listen"]
        assert wanted == [
            {"toolsListChanged": True},
            {"toolsListChanged": True, "resourceSubscriptions": ["a:b"]},
        ]
    assert [method for method, _ in delegate.heard] == [
        "notifications/tools/list_changed",
        "notifications/resources/updated",
    ]
    assert delegate.heard[1][1]["uri"] == "a:b"


async def test_listening_begins_with_the_first_subscription_and_ends_with_the_last() -> None:
    async def changes(wire: Wire) -> None:
        request = await acknowledged(wire)
        cancelled = await wire.next("notifications/cancelled")
        assert cancelled["params"]["requestId"] == request["id"]
        await acknowledged(wire)

    delegate = Role()
    async with connected(modern(changes, SUBSCRIBABLE), delegate=delegate) as (connection, wire):
        assert [sent["method"] for sent in wire.received] == ["server/discover"]
        await connection.subscribe("a:b")
        await connection.subscribe("a:b")
        await connection.unsubscribe("a:b")
        await anyio.wait_all_tasks_blocked()
        assert wire.received[-1]["method"] == "notifications/cancelled"
        await connection.subscribe("c:d")
        assert wire.received[-1]["params"]["notifications"] == {"resourceSubscriptions": ["c:d"]}
    assert delegate.heard == []


async def test_subscriptions_that_come_together_share_a_stream() -> None:
    async def changes(wire: Wire) -> None:
        for _ in range(3):
            await acknowledged(wire)
            await wire.next()

    uris = [f"a:{number}" for number in range(20)]
    async with connected(modern(changes, SUBSCRIBABLE)) as (connection, wire):
        async with anyio.create_task_group() as tasks:
            for uri in uris:
                tasks.start_soon(connection.subscribe, uri)
        wanted = [sent["params"] for sent in wire.received if sent["method"] == "subscriptions/listen"]
        assert sorted(wanted[-1]["notifications"]["resourceSubscriptions"]) == sorted(uris)
        assert len(wanted) <= 2


async def test_after_a_drop_subscribed_resources_count_as_updated() -> None:
    async def drops(wire: Wire) -> None:
        wire.fail(await acknowledged(wire), UpstreamError("broke off"))
        await acknowledged(wire)

    delegate = Role()
    async with connected(modern(drops, SUBSCRIBABLE), delegate=delegate) as (connection, _):
        await connection.subscribe("a:b")
        await delegate.until(lambda: delegate.heard == [("notifications/resources/updated", {"uri": "a:b"})])


async def test_a_subscription_that_the_server_refuses_raises_and_the_others_stay() -> None:
    async def refuses(wire: Wire) -> None:
        first = await acknowledged(wire)
        wire.refuse(await wire.next("subscriptions/listen"), -32602, "no such resource")
        await wire.next("go")
        event(wire, first, "tools/list_changed")

    delegate = Role()
    async with connected(modern(refuses, TOOLS | SUBSCRIBABLE), delegate=delegate) as (connection, wire):
        with pytest.raises(ProtocolError, match="^no such resource$"):
            await connection.subscribe("a:b")
        await anyio.wait_all_tasks_blocked()
        await connection.notify("go")
        await delegate.until(lambda: len(delegate.heard) == 1)
        assert [sent["method"] for sent in wire.received].count("subscriptions/listen") == 2


async def test_a_subscription_that_is_not_confirmed_in_time_raises() -> None:
    async with connected(modern(None, SUBSCRIBABLE), limits=UpstreamLimits(list_timeout=0.01)) as (connection, _):
        with pytest.raises(RequestTimeoutError, match=r"^did not answer subscriptions/listen within 0\.01 s$"):
            await connection.subscribe("a:b")


async def test_a_subscription_that_is_asked_for_again_in_vain_stays() -> None:
    async def drops(wire: Wire) -> None:
        first = await acknowledged(wire)
        await wire.next("go")
        wire.fail(first, UpstreamError("broke off"))
        confirms = False
        while True:
            request = await wire.next()
            confirms = confirms or request["method"] == "go on"
            if confirms and request["method"] == "subscriptions/listen":
                event(wire, request, "subscriptions/acknowledged")
                event(wire, request, "resources/updated", uri="a:b", x=1)

    delegate = Role()
    limits = UpstreamLimits(retry_floor=0.01, retry_cap=0.01, list_timeout=0.05)
    async with connected(modern(drops, SUBSCRIBABLE), delegate=delegate, limits=limits) as (connection, _):
        await connection.subscribe("a:b")
        await connection.notify("go")
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(RequestTimeoutError):
            await connection.subscribe("a:b")
        await connection.notify("go on")
        await delegate.until(lambda: any(params.get("x") for _, params in delegate.heard))


async def test_a_subscription_that_nobody_waits_for_any_more_is_not_asked_for() -> None:
    async def slow(wire: Wire) -> None:
        first = await wire.next("subscriptions/listen")
        await wire.next("go")
        event(wire, first, "subscriptions/acknowledged")
        while True:
            request = await wire.next()
            if request["method"] == "subscriptions/listen":
                event(wire, request, "subscriptions/acknowledged")

    async with connected(modern(slow, SUBSCRIBABLE), limits=QUICK) as (connection, wire):
        with anyio.move_on_after(0.01):
            await connection.subscribe("a:b")
        await connection.notify("go")
        await connection.subscribe("c:d")
        wanted = [sent["params"] for sent in wire.received if sent["method"] == "subscriptions/listen"]
        assert wanted[-1]["notifications"] == {"resourceSubscriptions": ["c:d"]}


async def test_refused_subscriptions_do_not_delay_those_that_come_later() -> None:
    async def picky(wire: Wire) -> None:
        while True:
            request = await wire.next()
            if request["method"] != "subscriptions/listen":
                continue
            if "bad:" in str(request["params"]["notifications"]):
                wire.refuse(request, -32602, "no such resource")
            else:
                event(wire, request, "subscriptions/acknowledged")

    async with connected(modern(picky, SUBSCRIBABLE), limits=UpstreamLimits(retry_floor=60)) as (connection, _):
        for uri in ("bad:1", "bad:2"):
            with pytest.raises(ProtocolError, match="^no such resource$"):
                await connection.subscribe(uri)
            await connection.subscribe("good:1")


async def test_a_subscription_on_a_lost_connection_raises_at_once() -> None:
    async def ends(wire: Wire) -> None:
        await acknowledged(wire)
        await wire.next("subscriptions/listen")
        wire.end("exited")

    async with connected(modern(ends, TOOLS | SUBSCRIBABLE), limits=QUICK) as (connection, _):
        with pytest.raises(ConnectionLostError, match="^exited$"):
            await connection.subscribe("a:b")
        with pytest.raises(ConnectionLostError, match="^exited$"):
            await connection.subscribe("c:d")


async def test_the_end_of_the_connection_ends_the_listening() -> None:
    async def ends(wire: Wire) -> None:
        await acknowledged(wire)
        await wire.next("go")
        wire.end("exited")

    delegate = Role()
    async with connected(modern(ends, TOOLS), delegate=delegate) as (connection, wire):
        await connection.notify("go")
        await connection.ended.wait()
        await anyio.wait_all_tasks_blocked()
        assert [sent["method"] for sent in wire.received].count("subscriptions/listen") == 1
    assert (delegate.heard, delegate.endings) == ([], ["exited"])
