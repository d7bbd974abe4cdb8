"""Calls that are over, clients that left, and states of others: whom a server still means. In virtual time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from gaia_bridge.client.transport import UpstreamError
from gaia_bridge.errors import INVALID_PARAMS, ProtocolError
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.sources.upstream.relay import Relays
from gaia_bridge.sources.upstream.relayed_request import Relay
from gaia_bridge.text.json_types import JSON
from tests.bridge.sources.upstream.test_relay import (
    LIMITS,
    PATIENT,
    THOUGHT,
    Connection,
    Person,
    asked,
    calls_in_flight,
    relayed,
)
from tests.support.upstreams import FakeRequest
from tests.support.virtual_time import VIRTUAL_TIME

pytestmark = pytest.mark.anyio

A_MOMENT = 0.001


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return VIRTUAL_TIME


async def give_up(relays: Relays, connection: Any, client: FakeRequest) -> None:
    """Call, and wait no longer for the answer."""
    relay = Relay("tools/call", {"name": "x", "key": "given up"}, client, anyio.create_task_group(), LIMITS)
    with anyio.move_on_after(A_MOMENT):
        await relays.call(connection, relay, PATIENT)


async def heard(relays: Relays, client: Person) -> bool:
    """Whether a client hears of a message that does not say whose it is."""
    before = len(client.logs)
    relays.log({"level": "info", "data": "something"})
    await anyio.wait_all_tasks_blocked()
    return len(client.logs) > before


async def test_two_calls_of_one_client_leave_no_doubt() -> None:
    ada = Person("ada")
    async with calls_in_flight(ada) as (relays, _, call):
        call(ada, "again")
        await anyio.wait_all_tasks_blocked()
        assert await asked(relays) == "ada"
        assert await heard(relays, ada)


async def test_a_call_that_was_given_up_may_be_meant_for_some_time() -> None:
    """The server may not have heard of the end, and asks or tells something for it."""
    ada, ben = Person("ada"), Person("ben")
    async with calls_in_flight(ben) as (relays, connection, _):
        await give_up(relays, connection, ada)
        assert not await heard(relays, ben)
        with pytest.raises(ProtocolError, match="does not say which of them is meant"):
            await asked(relays)
        await anyio.sleep(UpstreamLimits().given_up_grace)
        assert await asked(relays) == "ben"
        assert await heard(relays, ben)
        await give_up(relays, connection, ben)
        assert await asked(relays) == "ben", "both calls are of one client"


async def test_what_is_asked_while_the_call_of_another_client_fails_was_perhaps_asked_for_that() -> None:
    ada, ben = Person("ada"), Person("ben")
    refused: list[str] = []
    async with calls_in_flight(ada, ben) as (relays, connection, _), anyio.create_task_group() as tasks:

        async def ask() -> None:
            with pytest.raises(ProtocolError, match="does not say which of them is meant") as caught:
                await asked(relays)
            refused.append(caught.value.message)

        tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        assert not refused
        connection.results["ada"] = {"content": [], "isError": True}
        connection.release["ada"].set()
        await anyio.wait_all_tasks_blocked()
        assert refused


@pytest.mark.requirement("F-344")
async def test_what_is_said_just_after_an_answer_to_another_client_was_perhaps_said_about_that() -> None:
    ada, ben = Person("ada"), Person("ben")
    async with calls_in_flight(ada, ben) as (relays, connection, _):
        connection.release["ada"].set()
        await anyio.wait_all_tasks_blocked()
        assert not await heard(relays, ben)
        await anyio.sleep(UpstreamLimits().answered_grace)
        assert await heard(relays, ben)


@pytest.mark.requirement("F-344")
async def test_once_a_server_says_for_which_call_it_speaks_what_is_for_none_is_for_no_single_client() -> None:
    ada, ben = Person("ada"), Person("ben")
    async with calls_in_flight(ada, ben) as (relays, connection, _):
        for number, data in ((1, "for ada"), (2, "for ben"), (3, "for nobody")):
            assert relays.log({"level": "info", "data": data}, number), "it is for no other client"
        connection.release["ben"].set()
        await anyio.sleep(UpstreamLimits().answered_grace)
        assert not relays.log({"level": "info", "data": "for all"})
    assert (ada.logs, ben.logs) == ([("info", "for ada", None)], [("info", "for ben", None)])


class Leaving(Person):
    """A client that can leave."""

    def __init__(self, name: str, capabilities: JSON | None = None) -> None:
        super().__init__(name, capabilities)
        self.leave: Callable[[], None] = lambda: None

    def when_client_leaves(self, callback: Callable[[], None]) -> bool:
        self.leave = callback
        return True


class Told(Connection):
    """A connection to a server that remembers its notifications."""

    def __init__(self, *, modern: bool = False) -> None:
        super().__init__(modern=modern)
        self.told: list[str] = []

    async def notify(self, method: str, params: JSON | None = None) -> None:
        self.told.append(method)


def recording(*, modern: bool = False) -> Any:
    """Return a connection that records its notifications."""
    return Told(modern=modern)


async def test_only_a_server_that_asked_for_folders_hears_that_they_changed() -> None:
    ada, deaf, connection, modern = (
        Leaving("ada"),
        Leaving("deaf", {"sampling": {}}),
        recording(),
        recording(modern=True),
    )
    async with calls_in_flight(ada) as (relays, _, _):
        await relays.roots_changed(connection, ada)
        assert connection.told == [], "it has not asked"
        assert await asked(relays) == "ada"
        await relays.roots_changed(connection, deaf)
        await relays.roots_changed(modern, ada)
        assert (connection.told, modern.told) == ([], [])
        await relays.roots_changed(connection, ada)
        assert connection.told == ["notifications/roots/list_changed"]


async def test_between_calls_the_client_whose_folders_changed_last_is_asked_for_them_until_it_leaves() -> None:
    ada, ben, connection = Leaving("ada"), Leaving("ben"), recording()
    async with calls_in_flight(ada) as (relays, _, _):
        await asked(relays)
    for client in (ada, ben):
        await relays.roots_changed(connection, client)
        assert await asked(relays) == client.name
    ada.leave()
    assert await asked(relays) == "ben"
    ben.leave()
    with pytest.raises(ProtocolError, match="No call is in flight"):
        await asked(relays)


async def test_parameters_that_nobody_knows_reach_the_server() -> None:
    connection, client = Connection(), FakeRequest()
    client.params = {"name": "public", "arguments": {"a": 1}, "_meta": {}, "requestState": "s", "vendor": 1}
    await relayed(connection, client)
    assert connection.params == {"name": "x", "vendor": 1}


QUESTION: JSON = {"method": "sampling/createMessage", "params": THOUGHT}


async def test_the_state_of_a_server_comes_back_to_it_and_that_of_nobody_else() -> None:
    connection = Connection(modern=True, result={"resultType": "input_required", "requestState": "s3rver"})
    first, second, third = FakeRequest(), FakeRequest(), FakeRequest()
    second.request_state = (await relayed(connection, first))["requestState"]
    assert second.request_state != "s3rver", "it says whose it is"
    await relayed(connection, second)
    assert connection.params["requestState"] == "s3rver"
    third.request_state, connection.params = "parked:s3rver", {}
    with pytest.raises(ExceptionGroup) as caught:
        await relayed(connection, third)
    [refused] = caught.value.exceptions
    assert isinstance(refused, ProtocolError)
    assert (refused.code, connection.params) == (INVALID_PARAMS, {})
    assert "call again from the start" in refused.message


@pytest.mark.requirement("P-203")
@pytest.mark.parametrize(
    ("question", "said"),
    [
        (QUESTION, "asks for sampling/createMessage"),
        ({"method": "vendor/ask"}, "asks for vendor/ask"),
        ({"method": "roots/list", "params": [1]}, "asks for roots/list"),
        ({"params": {}}, "asks for None"),
        ({"method": []}, r"asks for \[\]"),
        ("roots/list", "asks for None"),
        ([], "asks for None"),
        (None, "asks for None"),
    ],
)
async def test_an_answer_asks_a_client_nothing_that_it_did_not_declare(question: object, said: str) -> None:
    asks: JSON = {"resultType": "input_required", "inputRequests": {"q": question}}
    client = FakeRequest()
    client.client_capabilities = {"roots": {}}
    with pytest.raises(ExceptionGroup) as caught:
        await relayed(Connection(modern=True, result=asks), client)
    [refused] = caught.value.exceptions
    with pytest.raises(UpstreamError, match=said):
        raise refused
    client.client_capabilities = {"sampling": {}}
    asks["inputRequests"] = {"q": QUESTION}
    assert await relayed(Connection(modern=True, result=asks), client) == asks
