"""Tests of connections begin and end without one."""

from __future__ import annotations

import pytest

from tests.support.processes import background_threads
from tests.support.waiting import after_collection, eventually


@pytest.fixture(autouse=True)
def agents_of_earlier_tests_are_gone() -> None:
    """An agent that was forgotten keeps the background loop until it is collected; tests here look for its thread."""
    if background_threads():
        eventually(after_collection(lambda: not background_threads()))
