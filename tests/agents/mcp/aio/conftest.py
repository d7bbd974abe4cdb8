"""What the tests of asynchronous managers share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.gated_servers import Gate, gate
from tests.support.processes import background_threads
from tests.support.waiting import eventually


@pytest.fixture
def servers() -> Iterator[Gate]:
    """Servers that are watched; at the end, none of them is left, nor the background loop."""
    with gate() as found:
        yield found
        eventually(lambda: background_threads() == [])
        found.wait_all_dead()
