"""How soon a broken event stream is asked for again."""

from __future__ import annotations

import pytest

from gaia_bridge.client.transports.resumption import Place
from gaia_bridge.client.transports.sse_parser import EventStream
from gaia_bridge.settings import UpstreamLimits

pytestmark = pytest.mark.anyio

LIMITS = UpstreamLimits(retry_floor=0.5, retry_cap=30)


async def _nothing() -> bytes:
    return b""


async def place_after(*streams: bytes) -> Place:
    """The place after streams that said this."""
    place = Place(LIMITS)
    for stream in streams:
        chunks = [stream]

        async def read(chunks: list[bytes] = chunks) -> bytes:
            return chunks.pop() if chunks else b""

        events = EventStream(read, 10_000)
        while await events.next() is not None:
            pass
        place.note(events)
    return place


@pytest.mark.parametrize(
    ("said", "seconds"), [(b"", 0.5), (b"retry: 0\n", 0.5), (b"retry: 2000\n", 2), (b"retry: 999999999999\n", 30)]
)
@pytest.mark.requirement("F-056")
async def test_the_time_that_a_server_wants_has_a_floor_and_a_ceiling(said: bytes, seconds: float) -> None:
    assert (await place_after(said)).pause() == seconds


@pytest.mark.requirement("F-056")
async def test_the_time_doubles_with_each_attempt_in_vain() -> None:
    place = await place_after(b"retry: 1000\n")
    assert [place.pause(failures) for failures in (0, 1, 2, 3, 4, 5, 10_000)] == [1, 1, 1, 2, 4, 8, 30]


@pytest.mark.requirement("F-052")
async def test_a_server_that_wants_to_be_asked_later_is_asked_later_but_not_at_any_time() -> None:
    place = await place_after(b"retry: 1000\n")
    for wish, seconds in [(7.0, 7.0), (0.1, 1.0), (None, 1.0), (1e9, 60.0)]:
        place.put_off(wish)
        assert place.pause() == seconds


@pytest.mark.requirement("F-052")
async def test_that_wish_is_over_once_there_was_a_stream() -> None:
    place = Place(LIMITS)
    place.put_off(7)
    place.note(EventStream(_nothing, 10))
    assert place.pause() == 0.5


async def test_a_place_stays_what_it_was_until_a_stream_names_another() -> None:
    assert not (await place_after(b"data: x\n\n")).is_resumable
    assert (await place_after(b"id: 1\n\n", b"data: x\n\n")).headers == {"last-event-id": "1"}
    assert (await place_after(b"id: 1\n\n", b"id: 2\n\n")).headers == {"last-event-id": "2"}


@pytest.mark.parametrize("event_id", ["caf\u00e9", "x" * 1_025, " edge", "edge ", "a\x01b", ""])
async def test_an_id_that_no_header_can_carry_is_no_place(event_id: str) -> None:
    place = await place_after(f"id: {event_id}\n\n".encode())
    assert not place.is_resumable
    assert place.headers == {}
