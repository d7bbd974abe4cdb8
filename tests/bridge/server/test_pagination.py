"""Long lists come in pages, and all pages together are the list."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia_bridge.errors import ProtocolError
from gaia_bridge.server.pagination import Pager
from gaia_bridge.settings import PageLimits
from gaia_bridge.text.json_text import to_json
from gaia_bridge.text.json_types import JSON
from tests.support.agents import ScriptedAgent
from tests.support.bridges import both_eras, running_bridge


@given(st.lists(st.integers(0, 60), max_size=40), st.integers(1, 7), st.integers(1, 200))
@pytest.mark.requirement("P-4")
def test_the_pages_together_are_the_list_and_none_is_too_big(sizes: list[int], most: int, size: int) -> None:
    items: list[JSON] = [{"name": "x" * length, "number": number} for number, length in enumerate(sizes)]
    pager, found, cursor, pages = Pager(PageLimits(most, size)), list[JSON](), None, 0
    while True:
        page, cursor = pager.page(items, cursor)
        found += page
        pages += 1
        assert len(page) <= most
        assert len(page) <= 1 or sum(len(to_json(item)) for item in page) <= size
        if cursor is None:
            break
        assert page
    assert found == items
    assert pages <= max(1, len(items))


@pytest.mark.parametrize("cursor", ["", "from-", "from--1", "from-1x", "1", "from-" + "9" * 5_000, "from-²"])
def test_a_cursor_that_no_page_gave_is_refused(cursor: str) -> None:
    with pytest.raises(ProtocolError, match="list again from the start"):
        Pager(PageLimits()).page([], cursor)


def test_a_cursor_stays_valid_when_the_list_changes() -> None:
    pager = Pager(PageLimits(items=2))
    first, cursor = pager.page([{"n": n} for n in range(5)], None)
    assert first == [{"n": 0}, {"n": 1}]
    assert pager.page([{"n": 0}], cursor) == ([], None)


@pytest.mark.anyio
@pytest.mark.requirement("P-4")
@both_eras
async def test_a_client_reads_a_long_list_page_by_page(mode: str) -> None:
    names = [f"t{number}" for number in range(1_500)]
    agent = ScriptedAgent(lambda name, arguments: None, *names)
    async with running_bridge(agent) as running, running.client(mode) as client:
        first = await client.list_tools()
        assert len(first.tools) == PageLimits().items
        rest = await client.list_tools(cursor=first.next_cursor)
        assert [item.name for item in (*first.tools, *rest.tools)] == names
        assert rest.next_cursor is None
