"""The requests of the other side: each id once, and a cancellation that finds its request however the id is written."""

from __future__ import annotations

from typing import Any

import pytest

from gaia_bridge.calls.received import ReceivedRequests


class Request:
    """A request in flight."""

    def __init__(self) -> None:
        self.cancelled: list[str | None] = []

    def cancel(self, reason: str | None) -> None:
        self.cancelled.append(reason)


def test_the_second_of_two_requests_of_one_id_may_not_begin_and_its_end_leaves_the_first_in_flight() -> None:
    requests, first, second = ReceivedRequests(), Request(), Request()
    assert requests.begin(1, first)
    assert not requests.begin(1, second)
    assert requests.begin("1", second)
    requests.end(1, second)
    assert len(requests) == 2
    requests.cancel_all()
    assert (first.cancelled, second.cancelled) == ([None], [None])


def test_an_id_can_be_used_again_when_its_request_is_over() -> None:
    requests, first, second = ReceivedRequests(), Request(), Request()
    assert requests.begin("x", first)
    requests.end("x", first)
    requests.end("x", first)
    assert len(requests) == 0
    assert requests.begin("x", second)


@pytest.mark.parametrize(("own", "told"), [(7, 7), (7, "7"), ("7", 7), ("seven", "seven"), (1.5, 1.5)])
def test_a_cancellation_finds_its_request_also_where_a_number_is_written_as_text(own: Any, told: Any) -> None:
    requests, request, other = ReceivedRequests(), Request(), Request()
    requests.begin(own, request)
    requests.begin("another", other)
    requests.cancel(told, "enough")
    assert (request.cancelled, other.cancelled) == (["enough"], [])


def test_of_a_number_and_a_text_of_the_same_digits_the_one_that_is_meant_is_cancelled() -> None:
    requests, number, text = ReceivedRequests(), Request(), Request()
    requests.begin(7, number)
    requests.begin("7", text)
    requests.cancel("7", {"no": "text"})
    assert (number.cancelled, text.cancelled) == ([], [None])


@pytest.mark.parametrize("told", [None, True, 1.5, [], {}, "another"])
def test_a_cancellation_of_nothing_in_flight_cancels_nothing(told: object) -> None:
    requests, request = ReceivedRequests(), Request()
    for own in (1, "None", "True", "1.5", "[]", "{}"):
        requests.begin(own, request)
    requests.cancel(told, None)
    assert request.cancelled == []
