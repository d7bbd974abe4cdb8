"""What docs/compatibility.md says is what happens."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.translation.matrix import CELLS, FORBIDDEN, PAGE, Cell, declared, page, try_out

TRIED = (
    ("http", "legacy", "http", "modern"),
    ("http", "modern", "stdio", "legacy"),
    ("sse", "legacy", "http", "modern"),
    ("stdio", "legacy", "stdio", "modern"),
)
MERGED = (TRIED[0],)
"""The command that writes the page tries out all; .ci/run runs it."""

pytestmark = pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")


@pytest.mark.anyio
@pytest.mark.requirement("P-2", "P-12")
@pytest.mark.parametrize("cell", TRIED, ids="-".join)
async def test_everything_works_that_the_protocol_allows(cell: Cell, tmp_path: Path) -> None:
    with (tmp_path / "stderr").open("w+", encoding="utf-8") as errors:
        assert await try_out(cell, errors) == declared(cell)


@pytest.mark.anyio
@pytest.mark.requirement("P-2", "P-12")
@pytest.mark.parametrize("cell", MERGED, ids="-".join)
async def test_everything_works_beside_an_agent_and_a_server_of_each_era(cell: Cell, tmp_path: Path) -> None:
    with (tmp_path / "stderr").open("w+", encoding="utf-8") as errors:
        assert await try_out(cell, errors, merged=True) == declared(cell, merged=True)


def test_the_page_is_what_comes_of_it() -> None:
    """Run `python -m tests.translation.matrix` to write it anew."""
    assert PAGE.read_text("utf-8") == page({cell: declared(cell) for cell in CELLS})
    assert all(any(known.applies(cell) for cell in CELLS) for known in FORBIDDEN)
