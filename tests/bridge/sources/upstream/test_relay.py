"""What comes back for a request before its answer, on its way to the client. In virtual time."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from gaia_bridge.client import Deadline, OnProgress, ServerHandshake
from gaia_bridge.client.transport import UpstreamError
from gaia_bridge.errors import INVALID_PARAMS, ProtocolError
from gaia_bridge.model import LogMessage, Progress
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.sources.upstream.relay import Relays
from gaia_bridge.sources.upstream.relayed_request import Relay
from gaia_bridge.text.json_types import JSON
from gaia_bridge.text.redaction import Redactor
from tests.support.upstreams import FakeRequest
from tests.support.virtual_time import VIRTUAL_TIME

pytestmark = pytest.mark.anyio

LIMITS = UpstreamLimits(progress_rate=10, notes=50, call_timeout=1_000)
PATIENT = Deadline(600, 600)
WANTS_PROGRESS = {"progressToken": 7}

Resumable = Callable[[OnProgress], Awaitable[None]]


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return VIRTUAL_TIME


class Connection:
    """A connection to a server that does one thing."""

    def __init__(self, work: Resumable | None = None, *, modern: bool = False, result: JSON | None = None) -> None:
        self.handshake = ServerHandshake("2026-07-28" if modern else "2025-11-25", modern, {}, {}, None)
        self.params: JSON = {}
        self._number = 0
        self._work = work
        self._result = result or {"content": []}
        self.levels: list[str] = []

    async def set_log_level(self, level: str) -> None:
        self.levels.append(level)

    def new_id(self) -> int:
        self._number += 1
        return self._number

    async def request(
        self,
        method: str,
        params: JSON | None = None,
        *,
        on_progress: OnProgress | None = None,
        deadline: Deadline | None = None,
        rounds: bool = True,
        number: int | None = None,
    ) -> JSON:
        self.params = params or {}
        if self._work is not None:
            assert on_progress is not None
            await self._work(on_progress)
        return self._result


class Client(FakeRequest):
    """A client that may take its time for each message."""

    def __init__(self, meta: JSON | None = None, seconds: float = 0) -> None:
        super().__init__(WANTS_PROGRESS if meta is None else meta)
        self._seconds = seconds
        self.times: list[float] = []

    async def report_progress(self, report: Progress) -> None:
        await anyio.sleep(self._seconds)
        self.times.append(anyio.current_time())
        await super().report_progress(report)


class SlowListener(FakeRequest):
    """A client to which each log message takes a while."""

    def __init__(self, seconds: float = 0.02) -> None:
        super().__init__(WANTS_PROGRESS)
        self._seconds = seconds

    async def log(self, message: LogMessage) -> None:
        await anyio.sleep(self._seconds)
        await super().log(message)


async def relayed(connection: Any, client: FakeRequest, relays: Relays | None = None) -> JSON:
    async with anyio.create_task_group() as tasks:
        relay = Relay("tools/call", {"name": "x"}, client, tasks, LIMITS)
        try:
            return await (relays or Relays("up", UpstreamLimits(call_timeout=60))).call(connection, relay, PATIENT)
        finally:
            if relay.queue is not None:
                relay.queue.end()
    raise AssertionError


@pytest.mark.requirement("S-14")
async def test_a_flood_of_progress_reaches_the_client_ten_times_a_second_and_its_end_always() -> None:
    async def flood(report: OnProgress) -> None:
        for step in range(20_000):
            await report(Progress(step))
            if step % 20 == 0:
                await anyio.sleep(0.01)

    client = Client()
    await relayed(Connection(flood), client)
    assert len(client.times) == pytest.approx(100, abs=3)
    windows = zip(client.times, client.times[10:-1], strict=False)  # the last waits for nothing: the answer is there
    assert all(late - early >= 0.999 for early, late in windows)
    assert (client.progress[0], client.progress[-1]) == ((0, None, None), (19_999, None, None))
    assert client.progress == sorted(client.progress)


async def test_a_few_messages_at_once_all_go_on_at_once() -> None:
    async def work(report: OnProgress) -> None:
        for step in range(10):
            await report(Progress(step, 9, "so far"))
        await anyio.sleep(30)

    client = Client()
    began = anyio.current_time()
    await relayed(Connection(work), client)
    assert client.progress == [(step, 9, "so far") for step in range(10)]
    assert [at - began for at in client.times] == pytest.approx([0] * 10, abs=0.01)


async def test_the_last_progress_before_a_long_silence_is_not_held_back_for_long() -> None:
    async def work(report: OnProgress) -> None:
        for step in range(100):
            await report(Progress(step))
            await anyio.lowlevel.checkpoint()
        await anyio.sleep(30)

    client = Client()
    began = anyio.current_time()
    await relayed(Connection(work), client)
    assert [step for step, _, _ in client.progress] == [*range(10), 99]
    assert client.times[-1] - began == pytest.approx(1, abs=0.01)


@pytest.mark.requirement("S-14")
async def test_a_slow_client_neither_holds_the_server_up_nor_fills_the_memory() -> None:
    relays = Relays("up", UpstreamLimits(call_timeout=60))

    async def flood(report: OnProgress) -> None:
        began = anyio.current_time()
        for step in range(1_000):
            await report(Progress(step))
            relays.log({"level": "info", "data": step})
            await anyio.sleep(0.01)
        assert anyio.current_time() - began == pytest.approx(10)

    client = Client(seconds=60)
    await relayed(Connection(flood), client, relays)
    assert len(client.progress) <= 12
    assert client.progress[-1] == (999, None, None)
    assert [data for _, data, _ in client.logs] == [0, *range(950, 1_000)]


@pytest.mark.requirement("F-302")
async def test_a_server_that_never_stops_talking_does_not_hold_its_answer_up() -> None:
    client = SlowListener(seconds=0.02)
    async with anyio.create_task_group() as tasks:
        relay = Relay("tools/call", {"name": "x"}, client, tasks, LIMITS)

        async def talk() -> None:
            for number in itertools.count():
                relay.log(LogMessage("info", number))
                await anyio.sleep(0.01)

        tasks.start_soon(talk)
        await anyio.sleep(1)
        await relay.progress(Progress(1, 1))
        began = anyio.current_time()
        await relay.notes.flush()
        assert anyio.current_time() - began < 3 * LIMITS.notes * 0.02
        tasks.cancel_scope.cancel()
    assert client.progress == [(1, 1, None)]
    told = [data for _, data, _ in client.logs]
    assert told == sorted(told)
    assert told[-1] >= 99, "what was said before the answer"


@pytest.mark.requirement("F-302")
async def test_a_client_that_does_not_listen_gets_its_answer_within_the_time_of_a_call() -> None:
    relays = Relays("up", UpstreamLimits(call_timeout=60))

    async def work(report: OnProgress) -> None:
        for number in range(20):
            relays.log({"level": "info", "data": number})
        await report(Progress(1, 1, None))

    began = anyio.current_time()
    await relayed(Connection(work), SlowListener(seconds=300), relays)
    assert anyio.current_time() - began == pytest.approx(LIMITS.call_timeout)


async def test_log_messages_keep_their_order_and_come_before_the_answer() -> None:
    relays = Relays("up", UpstreamLimits(call_timeout=60))

    async def work(report: OnProgress) -> None:
        for number in range(5):
            relays.log({"level": "info", "data": number, "logger": "part"})
        relays.log({"level": "warning", "data": None, "logger": 5})
        relays.log({"level": "loud", "data": "no such level"})

    client = Client()
    await relayed(Connection(work), client, relays)
    assert client.logs == [("info", number, "part") for number in range(5)] + [("warning", None, None)]
    relays.log({"level": "info", "data": "too late"})
    assert len(client.logs) == 6


async def test_what_cannot_be_sent_to_the_client_harms_nobody() -> None:
    class Gone(Client):
        async def report_progress(self, report: Progress) -> None:
            raise anyio.BrokenResourceError

    async def work(report: OnProgress) -> None:
        for step in range(3):
            await report(Progress(step))
            await anyio.sleep(1)

    assert (await relayed(Connection(work), Gone()))["content"] == []


async def test_a_request_that_is_given_up_sends_nothing_more() -> None:
    async def work(report: OnProgress) -> None:
        await report(Progress(1))
        await anyio.sleep_forever()

    client = Client(seconds=1)
    with anyio.move_on_after(0.5):
        await relayed(Connection(work), client)
    await anyio.sleep(10)
    assert client.progress == []


async def test_what_the_server_is_to_send_and_may_ask_crosses_where_its_era_has_it_and_nothing_else_of_our_hop() -> (
    None
):
    meta: JSON = {
        "io.modelcontextprotocol/logLevel": "debug",
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {},
        "io.modelcontextprotocol/clientCapabilities": {"ignored": {}},
        "vendor/key": 1,
    }
    declared: JSON = {"elicitation": {"url": {}}, "tasks": {}}
    cases: list[tuple[bool, JSON]] = [
        (
            True,
            {
                "io.modelcontextprotocol/logLevel": "debug",
                "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"url": {}}},
                "vendor/key": 1,
            },
        ),
        (False, {"vendor/key": 1}),
    ]
    for modern, expected in cases:
        connection = Connection(modern=modern)
        request = FakeRequest(meta)
        request.log_level = "debug"
        request.client_capabilities = declared
        await relayed(connection, request)
        assert connection.params == {"name": "x", "_meta": expected}


async def test_who_the_server_is_stays_with_us() -> None:
    key = "io.modelcontextprotocol/serverInfo"
    cases: list[tuple[JSON, JSON | None]] = [({key: {}, "a": 1}, {"a": 1}), ({key: {}}, None), ({}, {})]
    for meta, expected in cases:
        result: JSON = {"content": [], "_meta": meta}
        answer = await relayed(Connection(modern=True, result=result), FakeRequest())
        assert answer.get("_meta") == expected


async def test_every_answer_says_what_kind_of_result_it_is() -> None:
    told: JSON = {"content": [], "resultType": "x-other"}
    assert (await relayed(Connection(modern=True), FakeRequest()))["resultType"] == "complete"
    assert (await relayed(Connection(modern=True, result=told), FakeRequest()))["resultType"] == "x-other"
    assert (await relayed(Connection(result=told), FakeRequest()))["resultType"] == "complete"


async def test_a_legacy_server_is_asked_once_for_what_the_most_curious_client_wants_to_hear() -> None:
    connection, relays = Connection(), Relays("up", UpstreamLimits(call_timeout=60))
    for level in (None, "warning", "warning", "error", "info", None, "warning"):
        client = FakeRequest({})
        client.log_level = level
        await relayed(connection, client, relays)
    assert connection.levels == ["warning", "info"]
    another: Any = Connection()
    await relays.want_logs(another)
    assert another.levels == ["info"], "a new connection knows nothing of it"
    modern: Any = Connection(modern=True)
    await relays.want_logs(modern, "debug")
    assert modern.levels == [], "it is told with each request"


class Holding(Connection):
    """A connection to a server that answers when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.began: list[str] = []
        self.release: dict[str, anyio.Event] = {}
        self.results: dict[str, JSON] = {}
        """The answers that are others than usual."""

    async def request(self, method: str, params: JSON | None = None, **_: Any) -> JSON:
        name: str = (params or {})["key"]
        self.began.append(name)
        self.release[name] = anyio.Event()
        await self.release[name].wait()
        return self.results.get(name, {"content": []})


class Person(FakeRequest):
    """A client that can be asked for its roots, and says whose they are."""

    def __init__(self, name: str, capabilities: JSON | None = None) -> None:
        super().__init__({})
        self.name = name
        self.thinks: anyio.Event | None = None
        self.client_capabilities = {"roots": {}} if capabilities is None else capabilities

    async def push(self, method: str, params: JSON) -> JSON:
        if self.thinks is not None:
            await self.thinks.wait()
        return {"roots": [], "_meta": {"of": self.name}}


@asynccontextmanager
async def calls_in_flight(*clients: Person) -> AsyncGenerator[tuple[Relays, Any, Callable[..., None]]]:
    relays = Relays("up", UpstreamLimits(call_timeout=60))
    connection: Any = Holding()
    async with anyio.create_task_group() as tasks:

        def call(client: Person, key: str | None = None, tool: str = "ask") -> None:
            relay = Relay("tools/call", {"name": tool, "key": key or client.name}, client, tasks, LIMITS)
            tasks.start_soon(relays.call, connection, relay, PATIENT)

        for client in clients:
            call(client)
        await anyio.wait_all_tasks_blocked()
        yield relays, connection, call
        await anyio.wait_all_tasks_blocked()
        for event in connection.release.values():
            event.set()


async def asked(relays: Relays) -> str:
    answer = await relays.answer("roots/list", {}, None)
    name: str = answer["_meta"]["of"]
    return name


@pytest.mark.requirement("C-24")
async def test_a_question_that_does_not_say_for_whom_waits_until_it_is_clear() -> None:
    ada, ben = Person("ada"), Person("ben")
    found: list[str] = []
    async with calls_in_flight(ada, ben) as (relays, connection, _), anyio.create_task_group() as tasks:

        async def ask() -> None:
            found.append(await asked(relays))

        tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        assert found == []
        connection.release["ben"].set()
        await anyio.wait_all_tasks_blocked()
        assert found == ["ada"]


@pytest.mark.requirement("F-340")
@pytest.mark.parametrize("busy", [False, True], ids=["alone", "beside a call that works"])
@pytest.mark.parametrize("names", [("ada", "ben"), ("ada", "ben", "cleo")])
async def test_questions_that_wait_for_one_another_do_not_wait(names: tuple[str, ...], busy: bool) -> None:
    """The newest is refused until one is left, which is then for the only one that it can be for."""
    refused, answered = list[str](), list[str]()
    everybody = [*names, "dan"] if busy else names
    async with calls_in_flight(*map(Person, everybody)) as (relays, connection, _), anyio.create_task_group() as tasks:

        async def ask(name: str) -> None:
            try:
                answered.append(f"{name}: {await asked(relays)}")
            except ProtocolError as error:
                assert "Call again" in error.message
                refused.append(name)
            connection.release[name].set()

        began = anyio.current_time()
        for name in names:
            tasks.start_soon(ask, name)
            await anyio.wait_all_tasks_blocked()
        if busy:
            assert (refused, answered) == ([], []), "the other call may end by itself"
            connection.release["dan"].set()
            await anyio.wait_all_tasks_blocked()
        assert (refused, answered) == ([*reversed(names[1:])], ["ada: ada"])
        assert anyio.current_time() < began + 5, "far from the sixty that it would wait"


@pytest.mark.requirement("C-24", "S-32")
@pytest.mark.parametrize("deaf", [{}, {"sampling": {}}], ids=["nothing", "something else"])
async def test_what_is_asked_for_a_client_that_cannot_be_asked_reaches_nobody_else(deaf: JSON) -> None:
    """A shared server knows one client, which can do everything: it asks for whomever it works."""
    ada, ben = Person("ada"), Person("ben", deaf)
    refused: list[str] = []
    async with calls_in_flight(ada, ben) as (relays, connection, call), anyio.create_task_group() as tasks:

        async def ask() -> None:
            with pytest.raises(ProtocolError) as caught:
                await asked(relays)
            refused.append(caught.value.message)

        tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        assert refused == [], "it may be for Ada"
        call(ada, "ada again")  # which began after the question, and so cannot have asked it
        await anyio.wait_all_tasks_blocked()
        connection.release["ada"].set()
        await anyio.wait_all_tasks_blocked()
        assert refused == ["The client does not support roots"]
        connection.release["ben"].set()  # so that the call begins that waits for its turn, if it does


@pytest.mark.requirement("C-24")
async def test_a_client_whose_folders_changed_is_not_asked_for_them_on_behalf_of_another() -> None:
    ada, ben = Person("ada"), Person("ben", {})
    async with calls_in_flight(ben) as (relays, _, _):
        relays._rooted = ada  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(ProtocolError, match="does not support roots"):
            await asked(relays)


async def test_calls_of_a_tool_that_asked_take_turns_with_those_of_other_clients_that_can_be_asked() -> None:
    ada, ben, cleo, deaf = Person("ada"), Person("ben"), Person("cleo"), Person("deaf", {})
    async with calls_in_flight(ada) as (relays, connection, call):
        assert await asked(relays) == "ada"
        for client, key, tool in (
            (ben, "ben", "ask"),
            (ada, "ada again", "ask"),
            (deaf, "deaf", "ask"),
            (cleo, "cleo", "add"),
        ):
            call(client, key, tool)
            await anyio.wait_all_tasks_blocked()
        assert connection.began == ["ada", "deaf"]
        connection.release["deaf"].set()
        await anyio.wait_all_tasks_blocked()
        assert await asked(relays) == "ada"
        for finished, begun in (("ada", "ben"), ("ben", "ada again"), ("ada again", "cleo")):
            connection.release[finished].set()
            await anyio.wait_all_tasks_blocked()
            assert connection.began[-1] == begun


async def test_tools_that_never_asked_are_called_side_by_side_although_another_asked() -> None:
    ada, ben, cleo = Person("ada"), Person("ben"), Person("cleo")
    async with calls_in_flight(ada) as (relays, connection, call):
        assert await asked(relays) == "ada"
        connection.release["ada"].set()
        await anyio.wait_all_tasks_blocked()
        for client, tool in ((ben, "add"), (cleo, "wait")):
            call(client, tool=tool)
            await anyio.wait_all_tasks_blocked()
        assert connection.began == ["ada", "ben", "cleo"]


async def test_a_tool_that_was_only_in_flight_takes_one_turn_and_the_one_that_asked_takes_ten() -> None:
    ada, ben, cleo = Person("ada"), Person("ben"), Person("cleo")
    async with calls_in_flight(ada) as (relays, connection, call):
        call(ben, tool="add")
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(ProtocolError, match="Call again"):
            await asked(relays)
        assert list(relays.askers) == ["ask", "add"]

        async def end(key: str) -> None:
            connection.release[key].set()
            await anyio.wait_all_tasks_blocked()

        await end("ben")
        await end("ada")
        for client, key, tool in ((ben, "add", "add"), (ada, "ask", "ask")):
            call(client, key, tool)
            await anyio.wait_all_tasks_blocked()
            assert key not in connection.began[:-1]
        assert connection.began[-1] == "add", "it may have been that one"
        await end("add")
        assert await asked(relays) == "ada"
        await end("ask")
        for client, key in ((ben, "one"), (cleo, "other")):
            call(client, key, "add")
            await anyio.wait_all_tasks_blocked()
        assert connection.began[-2:] == ["one", "other"], "side by side"
        await end("one")
        await end("other")
        for number in range(10):
            assert list(relays.askers) == ["ask"], "it may ask sometimes, or the server asked by itself"
            call(ada, f"{number}")
            await anyio.wait_all_tasks_blocked()
            await end(f"{number}")
        assert not relays.askers


async def test_a_call_whose_client_thinks_it_over_keeps_nobody_waiting() -> None:
    ada, ben = Person("ada"), Person("ben")
    ada.thinks = anyio.Event()
    found: list[str] = []
    async with calls_in_flight(ada) as (relays, connection, call), anyio.create_task_group() as tasks:

        async def ask() -> None:
            found.append(await asked(relays))

        tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        call(ben)
        await anyio.wait_all_tasks_blocked()
        assert connection.began == ["ada", "ben"]
        assert await asked(relays) == "ben", "one call asks one thing at a time"
        ada.thinks.set()
        await anyio.wait_all_tasks_blocked()
        assert found == ["ada"]


async def test_whoever_waits_too_long_is_refused() -> None:
    ada, ben = Person("ada"), Person("ben")
    async with calls_in_flight(ada, ben) as (relays, connection, call):
        with pytest.raises(ProtocolError, match="which of them is meant"):
            await asked(relays)
        relay = Relay("tools/call", {"name": "x", "key": "x"}, Person("cleo"), anyio.create_task_group(), LIMITS)
        with pytest.raises(UpstreamError, match="working for another client"):
            await relays.call(connection, relay, PATIENT)
        for client in (ada, ben):
            connection.release[client.name].set()
        await anyio.wait_all_tasks_blocked()
        call(Person("dan"))
        await anyio.wait_all_tasks_blocked()
        assert await asked(relays) == "dan"


async def test_whom_nobody_can_ask_is_not_asked() -> None:
    async with calls_in_flight(Person("deaf", {"elicitation": {}})) as (relays, _, _):
        with pytest.raises(ProtocolError, match="does not support roots") as refused:
            await asked(relays)
    assert refused.value.code == -32601
    with pytest.raises(ProtocolError, match="No call is in flight"):
        await asked(relays)


FORM: JSON = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
LINK = {"mode": "url", "message": "?", "url": "https://example.com", "elicitationId": "1"}
THOUGHT: JSON = {"messages": [], "maxTokens": 1}


@pytest.mark.requirement("P-203")
@pytest.mark.parametrize("during", [None, 1], ids=["for whomever", "for a call"])
@pytest.mark.parametrize(
    ("declared", "method", "params", "code"),
    [
        ({"elicitation": {"url": {}}}, "elicitation/create", FORM, INVALID_PARAMS),
        ({"elicitation": {"form": {}}}, "elicitation/create", LINK, INVALID_PARAMS),
        ({"elicitation": {}}, "elicitation/create", LINK, INVALID_PARAMS),
        ({"sampling": {}}, "sampling/createMessage", {**THOUGHT, "tools": []}, INVALID_PARAMS),
        ({"sampling": {}}, "sampling/createMessage", {**THOUGHT, "toolChoice": {"mode": "auto"}}, INVALID_PARAMS),
        ({"sampling": {}}, "elicitation/create", FORM, -32601),
        ({"roots": {}}, "sampling/createMessage", THOUGHT, -32601),
        ({"elicitation": {}}, "elicitation/create", {"message": 1}, INVALID_PARAMS),
        ({"sampling": {}}, "sampling/createMessage", {"messages": "?"}, INVALID_PARAMS),
    ],
)
async def test_a_client_is_asked_nothing_that_it_did_not_declare_and_the_server_is_told_as_by_the_client(
    declared: JSON, method: str, params: JSON, code: int, during: int | None
) -> None:
    async with calls_in_flight(Person("ada", declared)) as (relays, _, _):
        with pytest.raises(ProtocolError) as refused:
            await relays.answer(method, params, during)
    assert refused.value.code == code


async def test_a_client_of_2026_that_declares_nothing_is_named_as_one_that_supports_no_question() -> None:
    person = Person("ada", {})
    person.modern = True
    async with calls_in_flight(person) as (relays, _, _):
        with pytest.raises(ProtocolError, match="The client does not support elicitation") as refused:
            await relays.answer("elicitation/create", FORM, None)
    assert refused.value.code == -32601


class Telling(Connection):
    """A server that repeats what it was given when it refuses."""

    def __init__(self, data: Any = None) -> None:
        super().__init__()
        self._data = data or {"url": "/?key=s3cr3t-value", "n": 1}

    async def request(self, *args: Any, **kwargs: Any) -> JSON:
        raise ProtocolError(-32050, "no access with s3cr3t-value", self._data)


@pytest.mark.requirement("F-266", "S-36")
async def test_no_error_of_a_server_repeats_the_secrets_that_it_was_given() -> None:
    relays = Relays("up", UpstreamLimits(call_timeout=60), redactor=Redactor(["s3cr3t-value"]))
    with pytest.raises(ExceptionGroup) as refusals:
        await relayed(Telling(), Client(), relays)
    [refusal] = refusals.value.exceptions
    assert isinstance(refusal, ProtocolError)
    assert (refusal.code, refusal.message) == (-32050, "no access with ***")
    assert refusal.data == {"url": "/?key=***", "n": 1}
    content = [{"type": "text", "text": "s3cr3t-value"}]
    failed = await relayed(Connection(result={"content": content, "isError": True}), Client(), relays)
    assert failed["content"] == [{"type": "text", "text": "***"}]
    assert (await relayed(Connection(result={"content": content}), Client(), relays))["content"] == content


@pytest.mark.requirement("F-266", "F-040")
@pytest.mark.parametrize("levels", [250, 2_000])
async def test_an_error_that_is_nested_too_deep_is_told_without_what_nobody_could_read(levels: int) -> None:
    deep: Any = "s3cr3t-value"
    for _ in range(levels):
        deep = [deep]
    relays = Relays("up", UpstreamLimits(call_timeout=60), redactor=Redactor(["s3cr3t-value"]))
    with pytest.raises(ExceptionGroup) as refusals:
        await relayed(Telling(deep), Client(), relays)
    [refusal] = refusals.value.exceptions
    assert isinstance(refusal, ProtocolError)
    assert (refusal.code, refusal.message, refusal.data) == (-32050, "no access with ***", None)
    failed = await relayed(Connection(result={"content": [], "isError": True, "x": deep}), Client(), relays)
    assert failed["x"] is deep  # whoever judges the result refuses it


async def test_a_log_message_of_a_modern_server_is_for_the_one_call_that_asked_for_some() -> None:
    relays = Relays("up", UpstreamLimits(call_timeout=60))
    connection = Connection(lambda report: anyio.sleep(1), modern=True)
    quiet, curious = Client(), Client()
    quiet.client, curious.client = "quiet", "curious"
    curious.log_level = "info"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(relayed, connection, curious, relays)
        tasks.start_soon(relayed, connection, quiet, relays)
        await anyio.sleep(0.5)
        relays.log({"level": "info", "data": "found"})
    assert (curious.logs, quiet.logs) == ([("info", "found", None)], [])
