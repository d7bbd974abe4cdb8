"""How long a server that failed is left alone."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.sources.upstream.restart_policy import RestartPolicy

LIMITS = UpstreamLimits(backoff_start=1, backoff_cap=30, crashes=5, crash_window=180, healthy=600, retry_after_cap=60)


def longest(low: float, high: float) -> float:
    return high


def test_pauses_double_up_to_their_cap() -> None:
    restarts = RestartPolicy(LIMITS, gives_up=False, uniform=longest)
    assert [restarts.failed(now) for now in range(8)] == [1, 2, 4, 8, 16, 30, 30, 30]


@pytest.mark.requirement("F-071")
def test_a_thousand_failures_later_the_pause_is_still_the_cap() -> None:
    restarts = RestartPolicy(LIMITS, gives_up=False, uniform=longest)
    assert [restarts.failed(now) for now in range(2_000)][-1] == 30


@given(st.randoms(use_true_random=False), st.integers(0, 40))
def test_a_pause_is_drawn_from_all_that_it_may_be(source: random.Random, failures: int) -> None:
    restarts = RestartPolicy(LIMITS, gives_up=False, uniform=source.uniform)
    for now in range(failures):
        restarts.failed(now)
    pause = restarts.failed(failures)
    assert pause is not None
    assert 0 <= pause <= min(30, 2**failures)


@pytest.mark.requirement("F-003")
def test_five_crashes_in_three_minutes_are_the_end() -> None:
    restarts = RestartPolicy(LIMITS, gives_up=True, uniform=longest)
    assert [restarts.failed(now) is None for now in (0, 40, 80, 120, 179)] == [False] * 4 + [True]


def test_five_crashes_in_a_longer_time_are_not() -> None:
    restarts = RestartPolicy(LIMITS, gives_up=True, uniform=longest)
    assert [restarts.failed(now) is None for now in (0, 46, 92, 138, 184, 230)] == [False] * 6


@pytest.mark.requirement("F-071")
def test_who_never_gives_up_goes_on() -> None:
    restarts = RestartPolicy(LIMITS, gives_up=False, uniform=longest)
    assert all(restarts.failed(now) is not None for now in range(100))


def test_a_short_service_forgives_nothing_and_ten_minutes_everything() -> None:
    restarts = RestartPolicy(LIMITS, gives_up=True, uniform=longest)
    assert [restarts.failed(0), restarts.failed(0)] == [1, 2]
    restarts.ready(1)
    assert restarts.failed(600) == 4
    restarts.ready(601)
    assert restarts.failed(1_201) == 1


def test_what_is_forgotten_counts_no_more() -> None:
    restarts = RestartPolicy(LIMITS, gives_up=True, uniform=longest)
    for _ in range(4):
        restarts.failed(0)
    restarts.forget()
    assert [restarts.failed(0) for _ in range(4)] == [1, 2, 4, 8]


def test_what_the_server_asks_for_is_waited_for_within_reason() -> None:
    restarts = RestartPolicy(LIMITS, gives_up=False, uniform=longest)
    assert [restarts.failed(0, 20), restarts.failed(0, 1e9), restarts.failed(0, -5)] == [20, 60, 4]
