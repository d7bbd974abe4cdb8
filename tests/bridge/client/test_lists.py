"""Lists: paged, bounded, asked for again, and without tools that must not be used."""

from __future__ import annotations

from typing import Any

import pytest

from gaia_bridge.client import RequestTimeoutError, lists
from gaia_bridge.client.transport import ConnectionLostError, UpstreamError
from gaia_bridge.errors import ProtocolError
from gaia_bridge.protocol.kinds import KINDS
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.text.json_types import JSON
from tests.bridge.client.scripted import QUICK, Wire, connected, legacy, modern, serving
from tests.support.on_demand import mcp_inbound

pytestmark = pytest.mark.anyio


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that were waited before something was asked for again; nobody waits for real."""
    found: list[float] = []

    async def sleep(seconds: float) -> None:
        found.append(seconds)

    monkeypatch.setattr(lists, "sleep", sleep)
    return found


def numbered(pages: int, field: str = "tools") -> Any:
    """A list of so many pages, with one item each."""

    def page(params: JSON) -> JSON:
        at = int(params.get("cursor", 0))
        return {field: [{"name": f"t{at}"}], **({"nextCursor": str(at + 1)} if at + 1 < pages else {})}

    return page


@pytest.mark.requirement("P-4")
@pytest.mark.parametrize("kind", KINDS)
async def test_every_kind_of_list_is_read_to_its_last_page(kind: str) -> None:
    method, field = KINDS[kind].method, KINDS[kind].field
    server = serving(**{method.partition("/")[0]: numbered(7, field)})
    async with connected(legacy(server)) as (connection, wire):
        assert await connection.list_all(kind) == [{"name": f"t{at}"} for at in range(7)]
        asked = [message.get("params") for message in wire.received if message["method"] == method]
        assert asked == [{}, *({"cursor": str(at)} for at in range(1, 7))]


async def test_definitions_come_as_they_are_whatever_they_are() -> None:
    odd = [{"name": "a", "x-extra": [None]}, "no object", None, {"name": 5}]
    async with connected(legacy(serving(tools={"tools": odd}))) as (connection, _):
        assert await connection.list_all("tool") == odd
    async with connected(modern(serving(tools={"tools": odd}))) as (connection, _):
        assert await connection.list_all("tool") == odd


@pytest.mark.requirement("F-036")
async def test_an_endless_list_is_cut_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    async with connected(legacy(serving(tools=numbered(10**6))), limits=UpstreamLimits(pages=5)) as (connection, _):
        assert len(await connection.list_all("tool")) == 5
    assert caplog.messages == ["scripted: tools/list is too long or does not end; after 5 definitions it is cut"]


@pytest.mark.requirement("F-036")
async def test_a_list_that_takes_too_long_is_cut_with_a_warning_and_not_asked_for_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with connected(legacy(serving(tools=numbered(10**6))), limits=UpstreamLimits(list_cap=0)) as (connection, _):
        assert len(await connection.list_all("tool")) == 1
    assert caplog.messages == ["scripted: tools/list is too long or does not end; after 1 definitions it is cut"]
    down = failing(*[UpstreamError("is down")] * 9)
    async with connected(legacy(down), limits=UpstreamLimits(list_cap=0)) as (connection, wire):
        with pytest.raises(UpstreamError):
            await connection.list_all("tool")
        assert [message["method"] for message in wire.received].count("tools/list") == 1


@pytest.mark.requirement("F-036")
async def test_a_list_that_is_too_long_is_cut_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    many = {"tools": [{"name": str(number)} for number in range(10_000)], "nextCursor": "more"}
    async with connected(legacy(serving(tools=many))) as (connection, wire):
        assert await connection.list_all("tool") == many["tools"][: UpstreamLimits().tools]
        assert [message["method"] for message in wire.received].count("tools/list") == 1
    assert len(caplog.messages) == 1


@pytest.mark.requirement("F-036")
async def test_a_list_that_runs_in_a_circle_is_cut_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    def circle(params: JSON) -> JSON:
        return {"tools": [1], "nextCursor": {"a": "b", "b": "a"}.get(params.get("cursor", ""), "a")}

    async with connected(legacy(serving(tools=circle))) as (connection, _):
        assert await connection.list_all("tool") == [1, 1, 1]
    assert len(caplog.messages) == 1


@pytest.mark.parametrize("cursor", [None, 5, ["x"], {}])
async def test_a_cursor_that_is_none_ends_the_list(cursor: Any) -> None:
    async with connected(legacy(serving(tools={"tools": [1], "nextCursor": cursor}))) as (connection, _):
        assert await connection.list_all("tool") == [1]


@pytest.mark.requirement("P-4")
async def test_an_empty_cursor_is_one_like_any_other() -> None:
    pages: dict[str | None, JSON] = {
        None: {"tools": [1], "nextCursor": ""},
        "": {"tools": [2], "nextCursor": "more"},
        "more": {"tools": [3]},
    }
    async with connected(legacy(serving(tools=lambda params: pages[params.get("cursor")]))) as (connection, _):
        assert await connection.list_all("tool") == [1, 2, 3]


@pytest.mark.parametrize("refuses", [False, True])
async def test_a_server_that_means_the_end_by_an_empty_cursor_is_understood(
    refuses: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def run(wire: Wire) -> None:
        while True:
            request = await wire.next()
            if refuses and "cursor" in request.get("params", {}):
                wire.refuse(request, -32602, "Invalid cursor")
            else:
                wire.answer(request, {"tools": [1, 2], "nextCursor": ""})

    async with connected(legacy(run)) as (connection, _):
        assert await connection.list_all("tool") == [1, 2]
    assert not caplog.messages


@pytest.mark.parametrize("page", [{}, {"tools": None}, {"tools": {}}, {"tools": "abc"}, {"resources": []}])
async def test_a_list_that_is_none_is_an_error(page: JSON) -> None:
    async with connected(legacy(serving(tools=page))) as (connection, _):
        with pytest.raises(UpstreamError, match="^answered tools/list with something that is no list$"):
            await connection.list_all("tool")


def failing(*errors: UpstreamError) -> Any:
    """A server whose list fails so often before it is there."""

    async def run(wire: Wire) -> None:
        for error in errors:
            wire.fail(await wire.next("tools/list"), error)
        wire.answer(await wire.next("tools/list"), {"tools": [1]})

    return run


@pytest.mark.requirement("F-051")
async def test_a_list_is_asked_for_again_after_a_pause_that_differs(pauses: list[float]) -> None:
    errors = [UpstreamError("answered with HTTP status 503"), UpstreamError("answered with HTTP status 500")]
    async with connected(legacy(failing(*errors)), limits=UpstreamLimits()) as (connection, wire):
        assert await connection.list_all("tool") == [1]
        ids = [message["id"] for message in wire.received if message["method"] == "tools/list"]
        assert len(set(ids)) == 3
    assert 0 <= pauses[0] <= 0.5
    assert 0 <= pauses[1] <= 1
    assert len(pauses) == 2


@pytest.mark.requirement("F-051")
async def test_a_list_that_keeps_failing_is_given_up(pauses: list[float]) -> None:
    errors = [UpstreamError(f"failed for the {number}. time") for number in (1, 2, 3)]
    async with connected(legacy(failing(*errors))) as (connection, _):
        with pytest.raises(UpstreamError, match=r"^failed for the 3\. time$"):
            await connection.list_all("tool")
    assert len(pauses) == 2


@pytest.mark.requirement("F-052")
async def test_the_server_says_when_it_wants_to_be_asked_again(pauses: list[float]) -> None:
    errors = [UpstreamError("is busy", retry_after=7), UpstreamError("is busy", retry_after=-3)]
    async with connected(legacy(failing(*errors))) as (connection, _):
        assert await connection.list_all("tool") == [1]
    assert pauses == [7, 0]


@pytest.mark.requirement("F-052")
async def test_a_server_that_wants_to_be_left_alone_for_long_is(pauses: list[float]) -> None:
    async with connected(legacy(failing(UpstreamError("is busy", retry_after=1e9)))) as (connection, _):
        with pytest.raises(UpstreamError, match="^is busy$") as caught:
            await connection.list_all("tool")
    assert (caught.value.retry_after, pauses) == (1e9, [])


async def test_a_list_that_is_not_answered_in_time_is_asked_for_again() -> None:
    async def slow(wire: Wire) -> None:
        await wire.next("tools/list")
        await wire.next("notifications/cancelled")
        wire.answer(await wire.next("tools/list"), {"tools": [1]})

    limits = UpstreamLimits(list_timeout=0.1, backoff_start=0)
    async with connected(legacy(slow), limits=limits) as (connection, _):
        assert await connection.list_all("tool") == [1]


async def test_a_list_has_a_deadline_of_its_own() -> None:
    limits = UpstreamLimits(list_timeout=0.01, read_retries=0)
    async with connected(legacy(), limits=limits) as (connection, _):
        with pytest.raises(RequestTimeoutError, match=r"^did not answer tools/list within 0\.01 s$"):
            await connection.list_all("tool")


@pytest.mark.requirement("F-051")
async def test_neither_a_refusal_nor_a_lost_connection_is_tried_again(pauses: list[float]) -> None:
    async def ends(wire: Wire) -> None:
        wire.refuse(await wire.next("tools/list"))
        await wire.next("tools/list")
        wire.end()

    async with connected(legacy(ends)) as (connection, _):
        with pytest.raises(ProtocolError):
            await connection.list_all("tool")
        with pytest.raises(ConnectionLostError):
            await connection.list_all("tool")
    assert pauses == []


@pytest.mark.requirement("F-051")
async def test_a_call_is_never_made_again(pauses: list[float]) -> None:
    async def fails(wire: Wire) -> None:
        wire.fail(await wire.next("tools/call"), UpstreamError("failed", retry_after=0))

    async with connected(legacy(fails)) as (connection, wire):
        with pytest.raises(UpstreamError, match="^failed$"):
            await connection.request("tools/call", {"name": "x"})
        assert [message["method"] for message in wire.received].count("tools/call") == 1
    assert pauses == []


def with_header(name: str, header: Any, **schema: Any) -> JSON:
    region = {"type": "string", **schema, "x-mcp-header": header}
    return {"name": name, "inputSchema": {"type": "object", "properties": {"region": region}}}


@pytest.mark.requirement("S-6")
async def test_arguments_are_mirrored_as_headers_where_the_tool_wants_that() -> None:
    deep = {"type": "object", "properties": {"zone": {"type": "integer", "x-mcp-header": "Zone"}}}
    tool = with_header("place", "Region")
    tool["inputSchema"]["properties"]["deep"] = deep
    tools = {"tools": [tool, {"name": "plain", "inputSchema": {"type": "object"}}]}
    async with connected(modern(serving(tools=tools))) as (connection, wire):
        await connection.list_all("tool")
        arguments = {"region": "eu\r\nX-Evil: 1", "deep": {"zone": 5}}
        await connection.request("tools/call", {"name": "place", "arguments": arguments})
        headers = dict(wire.headers[-1] or {})
        assert mcp_inbound.decode_header_value(headers["Mcp-Param-Region"]) == "eu\r\nX-Evil: 1"
        assert not {"\r", "\n"} & set(headers["Mcp-Param-Region"])
        assert headers["Mcp-Param-Zone"] == "5"
        for params in ({"name": "plain", "arguments": arguments}, {"name": "place"}, {"name": ["place"]}, {}):
            await connection.request("tools/call", params)
            assert not wire.headers[-1]


@pytest.mark.requirement("S-6")
@pytest.mark.parametrize(
    "wrong",
    [
        with_header("wrong", "a\r\nb"),
        with_header("wrong", ""),
        with_header("wrong", 5),
        with_header("wrong", "Size", type="number"),
        with_header("wrong", "List", type="array"),
        {"name": "wrong", "inputSchema": {"type": "object", "items": {"type": "string", "x-mcp-header": "A"}}},
        {
            "name": "wrong",
            "inputSchema": {
                "properties": {
                    "a": {"type": "string", "x-mcp-header": "Same"},
                    "b": {"type": "string", "x-mcp-header": "same"},
                }
            },
        },
    ],
)
async def test_a_tool_that_describes_its_headers_wrongly_is_left_out_alone(
    wrong: JSON, caplog: pytest.LogCaptureFixture
) -> None:
    tools = [with_header("before", "A"), wrong, with_header("after", "B")]
    async with connected(modern(serving(tools={"tools": tools}))) as (connection, wire):
        assert await connection.list_all("tool") == [tools[0], tools[2]]
        await connection.request("tools/call", {"name": "wrong", "arguments": {"region": "x", "a": "y"}})
        assert not wire.headers[-1]
    [message] = caplog.messages
    assert message.startswith("scripted: tool wrong is left out: ")
    assert message.isprintable()


async def test_headers_are_forgotten_with_the_tool_and_unknown_to_legacy_servers() -> None:
    answers: list[JSON] = [{"tools": [with_header("place", "Region")]}, {"tools": []}]

    def changing(params: JSON) -> JSON:
        return {} if "name" in params else answers.pop(0)

    call = {"name": "place", "arguments": {"region": "x"}}
    async with connected(modern(serving(tools=changing))) as (connection, wire):
        await connection.list_all("tool")
        await connection.list_all("tool")
        await connection.request("tools/call", call)
        assert not wire.headers[-1]
    wrong = [with_header("place", "\n")]
    async with connected(legacy(serving(tools={"tools": wrong})), limits=QUICK) as (connection, wire):
        assert await connection.list_all("tool") == wrong
        await connection.request("tools/call", call)
        assert not wire.headers[-1]
