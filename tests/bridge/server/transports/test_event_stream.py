"""A stream can be taken up again where it broke, and a slow reader slows down whoever sends."""

from __future__ import annotations

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia_bridge.server.transports.event_stream import EventStream, ReplayBuffer, framed
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio


def make_buffer(max_events: int = 100, max_bytes: int = 1_000_000) -> ReplayBuffer:
    return ReplayBuffer(max_events, max_bytes)


def make_stream(buffer: ReplayBuffer | None = None, most: int = 1_000, retry: int | None = None) -> EventStream:
    return EventStream(buffer, most, retry=retry)


def number(text: int | str) -> bytes:
    return f'{{"number":{text}}}'.encode()


def ids_of(events: list[bytes]) -> list[str]:
    return [event.partition(b"\r\n")[0].removeprefix(b"id: ").decode() for event in events]


async def everything(stream: EventStream) -> list[bytes]:
    """What one response sends until its end."""
    with anyio.fail_after(PATIENCE):
        return [event async for event in stream.events()]


# What is remembered


@pytest.mark.requirement("S-11")
async def test_what_followed_on_the_same_stream_is_replayed_in_order_with_its_ids() -> None:
    buffer = make_buffer()
    one, other = make_stream(buffer), make_stream(buffer)
    first = buffer.add(one, number(1))
    buffer.add(other, number(2))
    second = buffer.add(one, number(3))
    assert buffer.after(first) == (one, [framed(number(3), second)])
    assert buffer.after(second) == (one, [])


@pytest.mark.requirement("S-11")
async def test_the_event_that_begins_a_stream_is_no_message_and_is_not_replayed() -> None:
    buffer = make_buffer()
    stream = make_stream(buffer)
    first = buffer.add(stream, number(1))
    buffer.add(stream, b"")
    assert buffer.after(first) == (stream, [])


@pytest.mark.requirement("S-11", "F-097")
@pytest.mark.parametrize(
    "forged", ["", "0", "1", "-1", "x-0", "{id}0", "{id} ", " {id}", "0{id}", "{prefix}", "{prefix}-٠", "{prefix}-1"]
)
async def test_a_forged_id_and_one_that_is_yet_to_come_replay_nothing(forged: str) -> None:
    buffer = make_buffer()
    event_id = buffer.add(make_stream(buffer), number(1))
    prefix = event_id.rpartition("-")[0]
    assert buffer.after(forged.format(id=event_id, prefix=prefix)) is None


@pytest.mark.requirement("S-11", "F-097")
async def test_an_id_of_another_session_replays_nothing() -> None:
    one, other = make_buffer(), make_buffer()
    ids = [buffer.add(make_stream(buffer), number(1)) for buffer in (one, other)]
    assert one.after(ids[1]) is None and other.after(ids[0]) is None


@pytest.mark.requirement("S-11")
@given(
    streams=st.lists(st.integers(0, 2), min_size=1, max_size=30),
    max_events=st.integers(1, 40),
    data=st.data(),
)
def test_a_replay_is_the_rest_of_the_stream_or_nothing(
    streams: list[int], max_events: int, data: st.DataObject
) -> None:
    resumed = data.draw(st.integers(0, len(streams) - 1), label="resumed")

    async def scenario() -> None:
        buffer = make_buffer(max_events=max_events)
        made = [make_stream(buffer) for _ in range(3)]
        ids = [buffer.add(made[stream], number(place)) for place, stream in enumerate(streams)]
        found = buffer.after(ids[resumed])
        if resumed < len(streams) - max_events:
            assert found is None
            return
        expected = [
            framed(number(place), ids[place])
            for place in range(resumed + 1, len(streams))
            if streams[place] == streams[resumed]
        ]
        assert found == (made[streams[resumed]], expected)

    anyio.run(scenario)


@pytest.mark.requirement("S-11")
async def test_the_oldest_events_go_when_they_are_too_large_and_one_that_is_too_large_alone_is_not_kept() -> None:
    buffer = make_buffer(max_bytes=10_000)
    stream = make_stream(buffer)
    ids = [buffer.add(stream, b"x" * 4_000) for _ in range(3)]
    assert buffer.after(ids[0]) is None
    assert buffer.after(ids[1]) == (stream, [framed(b"x" * 4_000, ids[2])])
    huge = buffer.add(stream, b"x" * 20_000)
    assert buffer.after(huge) is None
    assert buffer.after(buffer.add(stream, number(1))) == (stream, [])


# What is sent


async def test_messages_arrive_in_order_and_the_last_one_ends_the_response() -> None:
    stream = make_stream()
    received: list[list[bytes]] = []

    async def read() -> None:
        received.append(await everything(stream))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        for place in range(5):
            await stream.send(number(place))
            await anyio.lowlevel.checkpoint()
        stream.finish(number(5))
    assert received == [[framed(number(place), None) for place in range(6)]]


@pytest.mark.requirement("S-11")
async def test_a_stream_that_can_be_resumed_begins_with_an_event_without_data_that_says_when_to_come_back() -> None:
    stream = make_stream(make_buffer(), retry=250)
    await stream.send(number(1))
    stream.finish(number(2))
    first, *messages = await everything(stream)
    assert b"\r\nretry: 250\r\n" in first and first.endswith(b"data: \r\n\r\n")
    assert [event.partition(b"data: ")[2] for event in messages] == [number(1) + b"\r\n\r\n", number(2) + b"\r\n\r\n"]


@pytest.mark.requirement("S-11")
async def test_what_was_said_while_nobody_read_is_sent_to_who_comes_back_and_then_what_is_new() -> None:
    buffer = make_buffer()
    stream = make_stream(buffer, retry=1)
    await stream.send(number(1))
    reading = stream.events()
    seen = [await anext(reading), await anext(reading)]
    await reading.aclose()  # the connection broke
    await stream.send(number(2))
    found = buffer.after(ids_of(seen)[-1])
    assert found is not None and found[0] is stream
    stream.resume(found[1])
    await stream.send(number(3))
    stream.finish(number(4))
    assert [event.partition(b"data: ")[2].strip() for event in await everything(stream)] == [
        number(2),
        number(3),
        number(4),
    ]


@pytest.mark.requirement("S-11")
async def test_who_comes_back_while_the_old_response_still_hangs_takes_the_stream_over() -> None:
    buffer = make_buffer()
    stream = make_stream(buffer, retry=1)
    old: list[list[bytes]] = []
    new: list[bytes] = []

    async def read() -> None:
        old.append(await everything(stream))

    async with anyio.create_task_group() as tasks:
        stream.open()
        tasks.start_soon(read)
        await anyio.wait_all_tasks_blocked()
        stream.resume([])
        await stream.send(number(1))
        stream.finish(number(2))
        new = await everything(stream)
    assert len(old[0]) == 1  # that which begins it
    assert len(new) == 2


async def test_a_stream_that_is_closed_early_has_its_rest_for_who_comes_back() -> None:
    buffer = make_buffer()
    stream = make_stream(buffer, retry=1)
    await stream.send(number(1))
    stream.end()
    seen = await everything(stream)
    await stream.send(number(2))
    stream.finish(number(3))
    found = buffer.after(ids_of(seen)[-1])
    assert found is not None
    stream.resume(found[1])
    assert len(await everything(stream)) == 2


@pytest.mark.requirement("S-14", "F-090")
async def test_who_sends_to_a_slow_reader_waits_and_goes_on_when_it_reads_or_leaves() -> None:
    stream = make_stream(most=3)
    sent: list[int] = []

    async def send() -> None:
        for place in range(8):
            await stream.send(number(place))
            sent.append(place)

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send)
            await anyio.wait_all_tasks_blocked()
            assert len(sent) == 3
            reading = stream.events()
            await anext(reading)
            await anyio.wait_all_tasks_blocked()
            assert len(sent) == 4
            await reading.aclose()
        assert len(sent) == 8


async def test_what_an_old_response_was_still_to_send_holds_up_nobody_who_sends_on_the_new_one() -> None:
    stream = make_stream(make_buffer(), retry=1)
    old, text = stream.events(), b"x" * 1_000_000
    stream.open()
    await anext(old)

    async def send() -> None:
        for _ in range(10):
            await stream.send(text)
        stream.finish(b"")

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send)
            await anyio.wait_all_tasks_blocked()
            stream.resume([])  # the connection below the old response broke, which nobody has told yet
            assert len(await everything(stream)) > 1
    await old.aclose()


# Responses that end before they begin


async def test_a_response_that_ends_before_its_first_event_holds_up_nobody() -> None:
    stream = make_stream(make_buffer(), most=1)
    with stream.carried():
        stream.events()
    assert not stream.is_read
    with anyio.fail_after(PATIENCE):
        for place in range(3):
            await stream.send(number(place))


async def test_a_response_that_ends_after_another_took_its_place_leaves_that_one_alone() -> None:
    stream = make_stream(make_buffer())
    with stream.carried():
        stream.resume([])
    assert stream.is_read


async def test_of_two_responses_that_have_not_begun_the_later_one_is_given_everything() -> None:
    stream = make_stream(make_buffer())
    stream.resume([b"missed"])
    earlier = stream.events()
    stream.resume([b"missed"])
    later = stream.events()
    stream.finish(b"")
    with anyio.fail_after(PATIENCE):
        assert [event async for event in earlier] == []
        assert [event async for event in later] == [b"missed"]
