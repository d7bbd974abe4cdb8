"""What docs/compatibility.md says is what happens."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tests.interaction.connecting import ERAS, TRANSPORTS
from tests.translation.matrix import CELLS, FORBIDDEN, PAGE, Cell, declared, page, try_out

TRIED: tuple[Cell, ...] = tuple(
    (transport, client, TRANSPORTS[(number + shift) % len(TRANSPORTS)], server)
    for (client, server), shift in zip(product(ERAS, ERAS), (0, 1, 2, 0), strict=True)
    for number, transport in enumerate(TRANSPORTS)
)
"""Each transport of each side with every pair of eras, and every pair of transports once at least.

The command that writes the page tries out all cells, as .ci/run does.
"""

pytestmark = pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")


@pytest.mark.anyio
@pytest.mark.requirement("P-2", "P-12")
@pytest.mark.parametrize("cell", TRIED, ids="-".join)
async def test_everything_works_that_the_protocol_allows(cell: Cell, tmp_path: Path) -> None:
    with (tmp_path / "stderr").open("w+", encoding="utf-8") as errors:
        assert await try_out(cell, errors) == declared(cell)


def test_the_page_is_what_comes_of_it() -> None:
    """Run `python -m tests.translation.matrix` to write it anew."""
    assert PAGE.read_text("utf-8") == page({cell: declared(cell) for cell in CELLS})
    assert all(any(known.applies(cell) for cell in CELLS) for known in FORBIDDEN)
