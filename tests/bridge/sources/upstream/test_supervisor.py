"""The life of a server: which state follows which, and what a request that comes meanwhile is told. In virtual time."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from gaia_bridge.client.transport import LaunchError, NotApprovedError, UpstreamError
from gaia_bridge.errors import ProtocolError
from gaia_bridge.model import SourceState, SourceStatus
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.sources.upstream.restart_policy import RestartPolicy
from gaia_bridge.sources.upstream.supervisor import Supervisor
from tests.support.virtual_time import VIRTUAL_TIME

pytestmark = pytest.mark.anyio

LIMITS = UpstreamLimits(backoff_start=1, backoff_cap=30, idle_timeout=100, restart_patience=5, ping_timeout=15)
STARTING, READY, DEGRADED, BACKOFF, FAILED, STOPPED = (
    SourceState.STARTING,
    SourceState.READY,
    SourceState.DEGRADED,
    SourceState.BACKOFF,
    SourceState.FAILED,
    SourceState.STOPPED,
)


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return VIRTUAL_TIME


class Connection:
    """A connection that answers pings as it is told."""

    def __init__(self) -> None:
        self.asked_at: list[float] = []
        self.ping_error: Exception | None = None

    async def ping(self) -> float:
        self.asked_at.append(anyio.current_time())
        await anyio.sleep(1)
        if self.ping_error is not None:
            raise self.ping_error
        return 1.0


class Server:
    """What the supervisor is given to look after.

    Args:
        outcomes: What each attempt to connect leads to: an error, or seconds until it is ready; 0 for all that follow.
    """

    needed = False

    def __init__(self, *outcomes: Exception | float) -> None:
        self._outcomes = list(outcomes)
        self.states: list[SourceState] = []
        self.connections: list[Any] = []
        self.open = 0
        self.attending = 0
        self.preparing: Callable[[], Awaitable[None]] | None = None

    @asynccontextmanager
    async def connect(self) -> AsyncGenerator[Any]:
        outcome = self._outcomes.pop(0) if self._outcomes else 0
        if isinstance(outcome, Exception):
            raise outcome
        self.open += 1
        try:
            await anyio.sleep(outcome)
            self.connections.append(Connection())
            yield self.connections[-1]
        finally:
            self.open -= 1

    async def prepare(self, connection: Any) -> None:
        if self.preparing is not None:
            await self.preparing()

    async def attend(self, connection: Any) -> None:
        self.attending += 1
        try:
            await anyio.sleep_forever()
        finally:
            self.attending -= 1

    def explained(self, error: UpstreamError) -> str:
        return ""

    def for_log(self, text: str) -> str:
        return text.replace("s3cr3t", "***")

    def changed(self, status: SourceStatus) -> None:
        self.states.append(status.state)


@asynccontextmanager
async def supervised(
    server: Server, *, at_once: bool = True, lazy: bool = True, gives_up: bool = True, limits: UpstreamLimits = LIMITS
) -> AsyncGenerator[Supervisor]:
    """A supervisor at work; every pause is as long as it may be."""
    restarts = RestartPolicy(limits, gives_up=gives_up, uniform=lambda low, high: high)
    supervisor = Supervisor("up", server, limits, restarts, lazy=lazy)

    async def run() -> None:
        await supervisor.run(at_once=at_once)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await anyio.sleep(0.01)
        yield supervisor
        tasks.cancel_scope.cancel()
    assert (server.open, server.attending) == (0, 0)


def state(supervisor: Supervisor) -> SourceState:
    return supervisor.status.state


async def refusal(supervisor: Supervisor, patience: float = 60) -> str:
    with pytest.raises(UpstreamError) as caught:
        await supervisor.connection(patience)
    return str(caught.value)


async def test_a_server_that_works_is_ready_and_in_the_end_stopped() -> None:
    server = Server()
    async with supervised(server) as supervisor:
        assert supervisor.status == SourceStatus(READY)
        assert await supervisor.connection(0) is server.connections[0]
        assert server.attending == 1
    assert supervisor.status == SourceStatus(STOPPED, "it was stopped")
    assert server.states == [STARTING, READY]
    assert await refusal(supervisor) == "is not running: it was stopped"


async def test_whoever_asks_for_a_server_that_failed_for_good_is_told_at_once() -> None:
    async with supervised(Server(LaunchError("cannot be started"))) as supervisor:
        assert state(supervisor) is FAILED
        began = anyio.current_time()
        assert "it is not tried again until somebody asks for it" in await refusal(supervisor)
        assert anyio.current_time() == began


async def test_whoever_waited_too_long_for_a_start_is_told_from_one_whose_server_cannot_be_had() -> None:
    async with supervised(Server(20)) as supervisor:
        with pytest.raises(UpstreamError) as late:
            await supervisor.connection(5)
    with pytest.raises(UpstreamError) as over:
        await supervisor.connection(5)
    assert (late.value.too_late, over.value.too_late) == (True, False)


async def test_what_an_earlier_connection_left_unanswered_is_not_counted_against_the_next_one() -> None:
    async with supervised(server := Server(), lazy=False) as supervisor:
        supervisor.lost("went away")
        await anyio.sleep(60)
        first, second = server.connections
        assert supervisor.ready is second
        for _ in range(LIMITS.timeouts_before_restart):
            supervisor.unanswered(first)
        supervisor.unanswered(first, unreachable=True)
        supervisor.expired(first)
        assert (state(supervisor), supervisor.ready) == (READY, second)


async def test_a_server_is_left_alone_for_as_long_as_it_wants() -> None:
    async with supervised(Server(UpstreamError("is busy", 20))) as supervisor:
        assert (state(supervisor), 19 < supervisor.pause <= 20) == (BACKOFF, True)


async def test_a_server_that_nobody_approved_is_tried_when_it_is_used_and_not_before() -> None:
    async with supervised(server := Server(NotApprovedError("is not approved"), 0), lazy=False) as supervisor:
        await anyio.sleep(1_000)
        assert supervisor.status == SourceStatus(STOPPED, "it is not approved")
        assert await supervisor.connection(5) is server.connections[0]


async def test_a_server_that_is_lost_while_it_is_prepared_is_never_ready() -> None:
    server = Server()
    async with supervised(server, at_once=False) as supervisor:

        async def lose() -> None:
            supervisor.lost("went away")

        server.preparing = lose
        assert "it went away" in await refusal(supervisor)
    assert READY not in server.states


async def test_a_request_that_comes_too_early_waits_until_the_server_is_ready() -> None:
    async with supervised(server := Server(20)) as supervisor:
        began = anyio.current_time()
        assert await supervisor.connection(30) is server.connections[0]
        assert anyio.current_time() - began == pytest.approx(20, abs=0.1)


@pytest.mark.requirement("F-006")
async def test_a_request_that_cannot_wait_so_long_is_told_to_come_again() -> None:
    async with supervised(Server(20)) as supervisor:
        assert await refusal(supervisor, 5) == "is not running: it is still starting; try again in a moment"
        assert supervisor.status.state is STARTING


async def test_whoever_waits_for_an_attempt_that_fails_learns_why() -> None:
    refusals: list[str] = []
    server = Server(3)

    async def fail() -> None:
        await anyio.sleep(3)
        raise UpstreamError("did not complete the handshake")

    server.preparing = fail
    async with supervised(server) as supervisor, anyio.create_task_group() as tasks:

        async def ask() -> None:
            refusals.append(await refusal(supervisor))

        for _ in range(3):
            tasks.start_soon(ask)
    expected = "is not running: it did not complete the handshake; it is being restarted, try again in 1 s"
    assert refusals == [expected] * 3


@pytest.mark.requirement("F-001", "F-003")
async def test_crash_after_crash_it_is_restarted_ever_later_and_then_given_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    crash = UpstreamError("exited with status 3")
    server = Server(*[crash] * 9)
    async with supervised(server) as supervisor:
        await anyio.sleep(1 + 2 + 4 + 7.9)
        assert (supervisor.starts, supervisor.status.state) == (4, BACKOFF)
        await anyio.sleep(0.2)
        assert (supervisor.starts, supervisor.status.state) == (5, FAILED)
        await anyio.sleep(10_000)
        assert (supervisor.starts, supervisor.status.state) == (5, FAILED)
        text = await refusal(supervisor)
    assert text == (
        "is not running: it exited with status 3; that was failure 5 within 180 s; "
        "it is not tried again until somebody asks for it"
    )
    assert server.states == [STARTING, BACKOFF] * 4 + [STARTING, FAILED]
    warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert [text.rpartition("; ")[2] for text in warnings[:-1]] == [
        f"it is tried again within {seconds} s" for seconds in (1, 2, 4, 8)
    ]
    assert len(warnings) == 5


async def test_a_pause_of_a_part_of_a_second_is_rounded_up_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    server = Server(UpstreamError("exited with status 3"))
    async with supervised(server, limits=UpstreamLimits(backoff_start=0.04)):
        await anyio.sleep(0.1)
    assert caplog.messages[0].endswith("it is tried again within 1 s")


@pytest.mark.requirement("F-050", "F-071")
async def test_a_server_on_the_network_is_never_given_up_and_tried_at_a_bounded_rate() -> None:
    server = Server(*[UpstreamError("cannot be reached")] * 1_000)
    async with supervised(server, gives_up=False) as supervisor:
        await anyio.sleep(300)
        assert supervisor.status.state is BACKOFF
        assert supervisor.starts <= 16
        await anyio.sleep(supervisor.pause + 1)
        # With a long pause before it, nobody waits.
        before = anyio.current_time()
        assert "is being connected again, try again in" in await refusal(supervisor)
        assert anyio.current_time() == before


@pytest.mark.requirement("F-071")
async def test_a_server_that_comes_and_goes_is_tried_at_a_bounded_rate() -> None:
    server = Server()
    async with supervised(server, gives_up=False, lazy=False) as supervisor:
        for _ in range(150):  # five minutes, in which it is there for at most two seconds
            await anyio.sleep(2)
            supervisor.lost("closed the connection")
        assert supervisor.starts <= 20


@pytest.mark.requirement("S-36")
async def test_what_a_server_repeats_of_its_secrets_is_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    async with supervised(Server(UpstreamError("refused the handshake: bad key s3cr3t"))) as supervisor:
        assert supervisor.status.reason == "it refused the handshake: bad key ***"
        assert "s3cr3t" not in await refusal(supervisor, 0) + caplog.text


@pytest.mark.requirement("F-043")
async def test_a_launch_line_that_cannot_work_is_tried_once_and_again_when_asked() -> None:
    server = Server(LaunchError("cannot be started: no such program"), LaunchError("still not"), 0)
    async with supervised(server) as supervisor:
        await anyio.sleep(10_000)
        assert (supervisor.starts, supervisor.status.state) == (1, FAILED)
        assert supervisor.status.reason == "it cannot be started: no such program"
        supervisor.retry()
        await anyio.sleep(1)
        assert (supervisor.starts, supervisor.status.state) == (2, FAILED)
        supervisor.retry()
        assert await supervisor.connection(1) is server.connections[0]
        supervisor.retry()  # it works: nothing to do
        await anyio.sleep(1)
        assert supervisor.starts == 3


async def test_asking_cuts_a_pause_short_and_forgets_what_was() -> None:
    server = Server(*[UpstreamError("fell over")] * 4, 0)
    async with supervised(server) as supervisor:
        await anyio.sleep(8)
        assert supervisor.pause > LIMITS.restart_patience
        supervisor.retry()
        await supervisor.connection(1)
        with supervisor.using:
            supervisor.lost("fell over again")
        assert supervisor.pause == pytest.approx(1)


async def test_ten_good_minutes_make_up_for_earlier_failures() -> None:
    server = Server(*[UpstreamError("fell over")] * 3, 0)
    async with supervised(server, lazy=False) as supervisor:
        await anyio.sleep(1 + 2 + 4 + 605)
        assert supervisor.status.state is READY
        supervisor.lost("fell over")
        assert supervisor.pause == pytest.approx(1)


@pytest.mark.requirement("F-004")
async def test_a_connection_that_breaks_while_it_is_used_counts_and_is_made_again() -> None:
    async with supervised(server := Server()) as supervisor:
        with supervisor.using:
            supervisor.lost("exited with status 5")
            assert supervisor.status == SourceStatus(BACKOFF, "it exited with status 5")
            # A short pause is waited for.
            assert await supervisor.connection(10) is server.connections[1]
        assert server.states == [STARTING, READY, BACKOFF, STARTING, READY]


@pytest.mark.requirement("F-034")
async def test_a_server_that_leaves_while_nobody_uses_it_is_started_on_demand_without_penalty() -> None:
    async with supervised(server := Server()) as supervisor:
        for number in range(20):
            assert await supervisor.connection(1) is server.connections[number]
            supervisor.lost("exited")
            assert supervisor.status == SourceStatus(STOPPED, "it exited; it starts when it is used")
            await anyio.sleep(1)
        assert (supervisor.starts, supervisor.status.state) == (20, STOPPED)


async def test_a_server_that_shall_always_run_is_restarted_though_nobody_uses_it() -> None:
    async with supervised(Server(), lazy=False) as supervisor:
        supervisor.lost("exited")
        await anyio.sleep(2)
        assert (supervisor.starts, supervisor.status.state) == (2, READY)


async def test_a_server_that_is_needed_is_restarted_though_nobody_asks_it_anything() -> None:
    server = Server()
    server.needed = True
    async with supervised(server) as supervisor:
        supervisor.lost("exited")
        await anyio.sleep(2)
        assert (supervisor.starts, supervisor.status.state) == (2, READY)
        await anyio.sleep(1_000)
        assert supervisor.status.state is READY


@pytest.mark.requirement("F-053")
async def test_a_forgotten_session_is_no_failure() -> None:
    async with supervised(server := Server()) as supervisor:
        with supervisor.using:
            for number in range(10):
                connection: Any = await supervisor.connection(1)
                assert connection is server.connections[number]
                supervisor.expired(connection)
                supervisor.expired(connection)  # another request may notice it later
        assert BACKOFF not in server.states


@pytest.mark.requirement("F-053")
async def test_a_server_that_stays_is_greeted_anew_at_once_unless_it_forgets_all_the_time() -> None:
    async with supervised(server := Server(), lazy=False) as supervisor:
        await anyio.sleep(LIMITS.backoff_cap)
        supervisor.lost("has ended the session", blameless=True)
        await anyio.sleep(0.1)
        assert server.states == [STARTING, READY, STOPPED, STARTING, READY]
        supervisor.lost("has ended the session", blameless=True)
        assert supervisor.status.state is BACKOFF


async def test_a_server_is_kept_for_a_moment_however_impatient_its_entry_is() -> None:
    impatient = replace(LIMITS, idle_timeout=0)
    async with supervised(Server(), limits=impatient) as supervisor:
        with supervisor.using:
            await anyio.sleep(10)
            assert state(supervisor) is READY
        await anyio.sleep(0.9)
        assert state(supervisor) is READY
        await anyio.sleep(0.2)
        assert state(supervisor) is STOPPED


async def test_trouble_with_putting_a_connection_away_changes_nothing() -> None:
    class Clinging(Server):
        @asynccontextmanager
        async def connect(self) -> AsyncGenerator[Any]:
            async with super().connect() as connection:
                yield connection
            raise OSError("a fault of the transport")

    async with supervised(Clinging()) as supervisor:
        for _ in range(3):
            await supervisor.connection(1)
            supervisor.lost("exited")
            await anyio.sleep(1)
            assert supervisor.status.state is STOPPED


async def test_it_starts_only_when_it_is_used_and_stops_when_it_is_not() -> None:
    async with supervised(server := Server(), at_once=False) as supervisor:
        await anyio.sleep(1_000)
        assert supervisor.status == SourceStatus(STOPPED, "it starts when it is first used")
        assert supervisor.starts == 0
        for number in range(3):
            assert await supervisor.connection(1) is server.connections[number]
            await anyio.sleep(LIMITS.idle_timeout - 1)
            assert supervisor.status.state is READY
            await anyio.sleep(2)
            assert supervisor.status == SourceStatus(STOPPED, "nobody used it; it starts when it is used")
            assert server.open == 0


async def test_it_is_not_stopped_while_it_works_and_not_before_its_time_after_that() -> None:
    async with supervised(Server()) as supervisor:
        with supervisor.using:
            await anyio.sleep(5 * LIMITS.idle_timeout)
            assert supervisor.status.state is READY
        await anyio.sleep(LIMITS.idle_timeout / 2)
        with supervisor.using:
            pass
        await anyio.sleep(LIMITS.idle_timeout - 1)
        assert supervisor.status.state is READY
        await anyio.sleep(2)
        assert supervisor.status.state is STOPPED


@pytest.mark.requirement("F-001")
async def test_whoever_waits_for_the_end_of_the_requests_waits_for_the_last_of_them() -> None:
    ended: list[float] = []
    async with supervised(Server()) as supervisor, anyio.create_task_group() as tasks:
        began = anyio.current_time()
        await supervisor.using.wait_drained()

        async def request(begins: float, ends: float) -> None:
            await anyio.sleep(begins)
            with supervisor.using:
                await anyio.sleep(ends - begins)

        async def wait() -> None:
            await supervisor.using.wait_drained()
            ended.append(anyio.current_time() - began)

        for begins, ends in ((0, 5), (0, 10), (7, 15)):
            tasks.start_soon(request, begins, ends)
        await anyio.sleep(1)
        for _ in range(2):
            tasks.start_soon(wait)
    assert ended == pytest.approx([15, 15])


async def test_while_a_server_is_tried_again_it_is_known_why_it_failed() -> None:
    server = Server(UpstreamError("exited with code 3 and s3cr3t"), 10)
    async with supervised(server, lazy=False) as supervisor:
        await anyio.sleep(2)
        reason = "it is still starting; last time it exited with code 3 and ***"
        assert supervisor.status == SourceStatus(STARTING, reason)
        await supervisor.connection(60)
        assert supervisor.status == SourceStatus(READY)
        supervisor.lost("exited")
        supervisor.retry()
        assert supervisor.status == SourceStatus(STARTING, "it is still starting; last time it exited")


@pytest.mark.requirement("F-050")
async def test_a_server_that_takes_no_connection_has_to_answer_a_ping_at_once() -> None:
    server = Server()
    async with supervised(server, lazy=False) as supervisor:
        connection: Any = await supervisor.connection(60)
        supervisor.unanswered(connection, unreachable=True)
        assert supervisor.status == SourceStatus(DEGRADED, "it could not be reached")
        await anyio.sleep(1.5)
        assert supervisor.status == SourceStatus(READY)
        connection.ping_error = UpstreamError("cannot be reached")
        supervisor.doubt("it could not be reached")
        await anyio.sleep(1.5)
        assert supervisor.status == SourceStatus(BACKOFF, "it cannot be reached, after it could not be reached")
        supervisor.doubt("it could not be reached")
        assert state(supervisor) is BACKOFF


@pytest.mark.requirement("F-007")
async def test_a_server_that_leaves_requests_unanswered_but_answers_a_ping_is_kept() -> None:
    async with supervised(server := Server()) as supervisor:
        connection: Any = await supervisor.connection(1)
        for answered in (True, False):
            connection.ping_error = None if answered else ProtocolError(-32601, "no ping")
            for _ in range(LIMITS.timeouts_before_restart):
                assert supervisor.status.state is READY
                supervisor.unanswered(connection)
            assert supervisor.status == SourceStatus(DEGRADED, "it left 3 requests in a row unanswered")
            assert await supervisor.connection(0) is connection
            await anyio.sleep(2)
            assert supervisor.status == SourceStatus(READY)
        assert (len(connection.asked_at), supervisor.starts) == (2, 1)
    assert server.states == [STARTING, READY, DEGRADED, READY, DEGRADED, READY]


@pytest.mark.requirement("F-007")
async def test_a_server_that_does_not_answer_a_ping_either_is_restarted() -> None:
    async with supervised(server := Server()) as supervisor:
        connection: Any = await supervisor.connection(1)
        connection.ping_error = UpstreamError("did not answer ping within 15 s")
        for _ in range(LIMITS.timeouts_before_restart):
            supervisor.unanswered(connection)
        await anyio.sleep(1.1)
        assert supervisor.status == SourceStatus(
            BACKOFF, "it did not answer ping within 15 s, after it had left 3 requests unanswered"
        )
        assert await supervisor.connection(5) is server.connections[1]
        supervisor.unanswered(connection)  # about a connection that is gone
        assert supervisor.status.state is READY


@pytest.mark.requirement("F-123")
async def test_after_a_suspension_every_server_is_asked_once_and_not_all_at_the_same_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    servers = [Server() for _ in range(20)]
    asleep = 0.0
    monkeypatch.setattr("gaia_bridge.sources.upstream.supervisor.clock", lambda: anyio.current_time() + asleep)
    async with AsyncExitStack() as stack:
        supervisors = [await stack.enter_async_context(supervised(server, lazy=False)) for server in servers]
        idle = await stack.enter_async_context(supervised(Server(), at_once=False))
        pings = [server.connections[0].asked_at for server in servers]
        await anyio.sleep(1_000)
        assert pings == [[]] * 20
        asleep = 60.0
        await anyio.sleep(1_000)
        times = [asked for [asked] in pings]
        assert LIMITS.resume_spread / 4 < max(times) - min(times) < LIMITS.resume_spread + 1
        assert len(set(times)) == 20
        assert [supervisor.starts for supervisor in supervisors] == [1] * 20
        assert idle.starts == 0


@pytest.mark.requirement("F-123")
async def test_a_server_that_did_not_survive_a_suspension_is_restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    asleep = 0.0
    monkeypatch.setattr("gaia_bridge.sources.upstream.supervisor.clock", lambda: anyio.current_time() + asleep)
    async with supervised(server := Server(), lazy=False) as supervisor:
        server.connections[0].ping_error = UpstreamError("did not answer ping within 15 s")
        asleep = 60.0
        while supervisor.status.state is READY:  # noqa: ASYNC110
            await anyio.sleep(0.1)
        assert supervisor.status == SourceStatus(
            BACKOFF, "it did not answer ping within 15 s, after this process was suspended"
        )
        assert await supervisor.connection(5) is server.connections[1]


async def test_an_answer_in_between_starts_the_count_anew() -> None:
    async with supervised(Server()) as supervisor:
        connection: Any = await supervisor.connection(1)
        for _ in range(10):
            supervisor.unanswered(connection)
            supervisor.unanswered(connection)
            supervisor.answered()
        assert supervisor.status.state is READY


async def test_what_nobody_expected_fails_the_server_and_can_be_tried_again() -> None:
    server = Server(LookupError("a fault of the bridge"), 0)
    async with supervised(server) as supervisor:
        assert supervisor.status == SourceStatus(FAILED, "an unexpected error, of which the debug log has the details")
        supervisor.retry()
        await supervisor.connection(1)


async def test_the_end_may_come_at_any_time() -> None:
    for seconds in (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.5, 120.0):
        server = Server(1, UpstreamError("fell over"), 1)
        async with supervised(server) as supervisor:
            with anyio.move_on_after(seconds):
                while True:
                    await anyio.sleep(0.1)
                    if supervisor.status.state is READY:
                        with supervisor.using:
                            supervisor.lost("was closed")
        assert supervisor.status.state is STOPPED


async def test_nobody_waits_for_a_server_that_is_being_stopped() -> None:
    refusals: list[str] = []
    async with anyio.create_task_group() as tasks:
        async with supervised(Server(20)) as supervisor:

            async def ask() -> None:
                refusals.append(await refusal(supervisor))

            tasks.start_soon(ask)
            await anyio.sleep(1)
    assert refusals == ["is not running: it was stopped"]
