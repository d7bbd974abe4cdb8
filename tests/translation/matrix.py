"""What works between which client and which server, tried out: `python -m tests.translation.matrix` writes the page.

The page is docs/compatibility.md, and has to be what comes of it: .ci/run tries out every cell, the test suite
every second one.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TextIO

import anyio

from gaia_bridge.text.json_types import JSON
from tests.interaction.connecting import ERAS, HTTP_TRANSPORTS, TRANSPORTS
from tests.translation.features import FEATURES, open_session
from tests.translation.through import ThroughLink

__all__ = ["CELLS", "FORBIDDEN", "MERGED_CELLS", "PAGE", "WORKS", "Cell", "declared", "page", "try_out"]

PAGE: Final = Path(__file__).parents[2] / "docs" / "compatibility.md"
WORKS: Final = "works"
PATIENCE: Final = 8.0
"""Seconds for one feature, and `CELL_PATIENCE` for all of a cell; only what is broken needs them."""
CELL_PATIENCE: Final = 50.0

Cell = tuple[str, str, str, str]
"""The client's transport and era, the server's transport and era."""
CELLS: Final[tuple[Cell, ...]] = tuple(product(TRANSPORTS, ERAS, TRANSPORTS, ERAS))
MERGED_CELLS: Final[tuple[Cell, ...]] = tuple(product(HTTP_TRANSPORTS, ERAS, TRANSPORTS, ERAS))
"""Those that are also tried out with an agent and a server of each era on the same endpoint."""


@dataclass(frozen=True)
class Forbidden:
    """Something that cannot work, and why the protocol says so.

    Args:
        feature: A key of `FEATURES`.
        why: In one line.
        client: The clients' era, if that is what matters.
        server: The servers' era, if that is what matters.
        transport: The clients' transport, if that is what matters.
    """

    feature: str
    why: str
    client: str = ""
    server: str = ""
    transport: str = ""

    def applies(self, cell: Cell, *, merged: bool = False) -> bool:
        """Whether it is so in a cell.

        Args:
            cell: Who is connected with whom.
            merged: Whether the server shares its endpoint, as it does over stdio.
        """
        transport, client, _, server = cell
        shared = "stdio" if merged else transport
        return all(
            not wanted or wanted == there
            for wanted, there in ((self.client, client), (self.server, server), (self.transport, shared))
        )


_OBJECTS: Final = "Before 2026-07-28, structured content is an object, and so is what an output schema describes."
FORBIDDEN: Final = (
    Forbidden(
        "server info",
        "A connection tells of one server. Over stdio it leads to all that the bridge publishes, and tells of the "
        "bridge; over HTTP each server has an address of its own.",
        transport="stdio",
    ),
    Forbidden("ping", "2026-07-28 has no `ping`.", client="modern"),
    Forbidden("tools: structured content that is no object, and its schema", _OBJECTS, client="legacy"),
    Forbidden("tools: structured content that is no object, and its schema", _OBJECTS, server="legacy"),
)
"""All that does not work; each is tried out all the same."""


def declared(cell: Cell, *, merged: bool = False) -> dict[str, str]:
    """What is to be expected of each feature: `WORKS`, or why not."""

    def expected(feature: str) -> str:
        known = (known for known in FORBIDDEN if known.feature == feature and known.applies(cell, merged=merged))
        return next((forbidden.why for forbidden in known), WORKS)

    return {name: expected(name) for name in FEATURES}


async def try_out(cell: Cell, errors: TextIO, *, merged: bool = False) -> dict[str, str]:
    """Use every feature once.

    Args:
        cell: Who is connected with whom.
        errors: A file for the standard error of server processes.
        merged: Whether the server shares its endpoint with an agent and a server of each era.

    Returns:
        For each feature `WORKS`, why the protocol forbids it and it did not work, or what went wrong.
    """
    transport, era, upstream, upstream_era = cell
    link = ThroughLink(transport, era, errors, upstream, upstream_era, merged)
    expected = declared(cell, merged=merged)
    found: dict[str, str] = {}
    with anyio.fail_after(CELL_PATIENCE), _told_while_it_leaves(found):
        async with open_session(link) as session:
            for name, check in FEATURES.items():
                session.person.asked.clear()
                session.person.action = "accept"
                try:
                    with anyio.fail_after(PATIENCE):
                        await check(session)
                except Exception as error:
                    known = expected[name]
                    found[name] = f"fails: {type(error).__name__}: {error}" if known == WORKS else known
                else:
                    found[name] = WORKS
    return found


@contextmanager
def _told_while_it_leaves(found: Mapping[str, str]) -> Generator[None]:
    """Let the official client of HTTP+SSE be told something while it closes, which it raises: all was tried by then.

    That is its own fault: between the end of its session and that of its transport nobody takes what comes in, and it
    tries to report the failure on the same closed stream (`mcp.client.sse.sse_reader`). It does so with the official
    server as well, whenever that goes on talking.
    """
    try:
        yield
    except* anyio.BrokenResourceError:
        if len(found) < len(FEATURES):
            raise


_INTRODUCTION: Final = """\
# Compatibility

Any client works with any server through the bridge. These tables show the test result of every feature, for each kind
of client and server: `python -m tests.translation.matrix` writes them, and a test fails if they are not true.

| word | means |
|---|---|
| modern | revision 2026-07-28 |
| legacy | an earlier revision, here 2025-11-25, the newest of them |
| http | Streamable HTTP |
| sse | HTTP+SSE with its two endpoints |
| stdio → http | the client's transport → the server's transport |

The clients are those of the official SDK. Clients over stdio start `gaia-bridge serve --stdio`; those over HTTP connect
to `/servers/NAME/mcp` and `/servers/NAME/sse`. The server is the agent in `tests/interaction/everything_agent.py`.

2026-07-28 does not define HTTP+SSE, but its messages only need a stream in each direction. The official client and the
bridge use it over HTTP+SSE with servers that answer `server/discover` there: *sse* with two modern sides.

The results are the same at `/mcp` and `/sse`, together with an agent and a server of each era, except that such an
endpoint introduces itself as the bridge.
"""


def page(found: Mapping[Cell, Mapping[str, str]]) -> str:
    """The page for what was found, which is `declared`."""
    notes: dict[str, int] = {}
    parts = [_INTRODUCTION]
    for client, server in product(ERAS, ERAS):
        pairs = tuple(product(TRANSPORTS, TRANSPORTS))
        lines = [
            f"## {client.capitalize()} client, {server} server",
            "",
            "| | " + " | ".join(f"{here} → {there}" for here, there in pairs) + " |",
            "|---|" + "---|" * len(pairs),
        ]
        for name in FEATURES:
            results = [found[here, client, there, server][name] for here, there in pairs]
            lines.append(f"| {name} | " + " | ".join(_mark(result, notes) for result in results) + " |")
        parts.append("\n".join(lines) + "\n")
    parts.append("## What the protocol forbids\n\n" + "".join(f"{n}. {why}\n" for why, n in notes.items()))
    return "\n".join(parts)


def _mark(result: str, notes: dict[str, int]) -> str:
    return "✓" if result == WORKS else f"[{notes.setdefault(result, len(notes) + 1)}](#what-the-protocol-forbids)"


async def _main() -> int:
    found: dict[Cell, JSON] = {}
    wrong = 0
    for merged, cells in ((False, CELLS), (True, MERGED_CELLS)):
        for cell in cells:
            results, expected = await try_out(cell, sys.stderr, merged=merged), declared(cell, merged=merged)
            for name, result in results.items():
                if result != expected[name]:
                    beside = " beside others" if merged else ""
                    sys.stderr.write(f"{cell}{beside}: {name}: {result}, expected: {expected[name]}\n")
                    wrong += 1
            if not merged:
                found[cell] = results
    if not wrong:
        PAGE.write_text(page(found), "utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    with TemporaryDirectory() as home:  # what the bridge remembers of servers is not to stay
        os.environ["HOME"] = home
        sys.exit(anyio.run(_main, backend_options={"use_uvloop": True}))
