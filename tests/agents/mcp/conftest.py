"""Tests of connections begin and end without one."""

from __future__ import annotations

import pytest

from tests.support.gaia_clients import after_collection, background_threads, eventually


@pytest.fixture(autouse=True)
def agents_of_earlier_tests_are_gone() -> None:
    """An agent that was forgotten keeps the background loop until it is collected; tests here look for its thread."""
    if background_threads():
        eventually(after_collection(lambda: not background_threads()))
