"""What many servers in one catalog cost: a hundred sources with fifty tools each, added, changed, listed and looked up.

    python benchmarks/catalog.py [--sources 100] [--tools 50] [--repeat 3] [--json]

Milliseconds in one thread, best of `--repeat` runs. Nothing is sent: it is what the event loop is busy with meanwhile.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

sys.path.insert(0, str(Path(__file__).parent.parent))

from gaia_bridge.model import Change, ChangeKind, NamingPolicy, ServerInfo, SourceKind
from gaia_bridge.server.catalog import Catalog
from gaia_bridge.text.json_types import JSON
from tests.support.fixed_sources import FixedSource

AIMS = {
    "add all, nobody looking": 100.0,
    "first list, 2026-07-28": 200.0,
    "first list, 2025-11-25": 400.0,
    "list after one change": 200.0,
    "same list again": 1.0,
    "find a tool": 1.0,
    "find a resource": 1.0,
    "find by a template": 1.0,
    "add all, listing each time": 10_000.0,
}
"""Milliseconds."""


def tool(number: int) -> JSON:
    """A tool of the usual size; the first has a user interface (MCP Apps)."""
    properties = {f"argument_{n}": {"type": "string", "description": "What it is for."} for n in range(4)}
    schema = {"type": "object", "properties": properties, "required": ["argument_0"]}
    definition: JSON = {"name": f"tool_{number}", "description": "What it does. " * 8, "inputSchema": schema}
    return definition if number else {**definition, "_meta": {"ui": {"resourceUri": f"ui://app/{number}"}}}


def source(number: int, tools: int) -> FixedSource:
    """A server with tools, ten resources and three templates."""
    found = FixedSource(f"server{number}", kind=SourceKind.SERVER)
    found.features = found.offering(
        *map(tool, range(tools)),
        resources=tuple(f"res://{number}/{n}" for n in range(10)),
        templates=tuple(f"server{number}://t{n}/{{x}}" for n in range(3)),
    )
    return found


def measure(sources: int, tools: int) -> dict[str, float]:
    """Milliseconds for each step."""
    found: dict[str, float] = {}

    def timed(what: str, step: Callable[[], object]) -> None:
        began = time.perf_counter()
        step()
        found[what] = (time.perf_counter() - began) * 1_000

    servers = [source(number, tools) for number in range(sources)]
    catalog, last = Catalog(ServerInfo("bench", "1"), NamingPolicy.DEFAULT), sources - 1

    def add_all() -> None:
        for server in servers:
            catalog.add(server)

    def change() -> None:
        features = servers[0].features
        servers[0].change(Change(ChangeKind.TOOLS), replace(features, tools=features.tools[:-1]))
        catalog.definitions("tool", modern=True)

    def add_and_list() -> None:
        other = Catalog(ServerInfo("bench", "1"), NamingPolicy.DEFAULT)
        for server in servers:
            other.add(server)
            other.definitions("tool", modern=True)

    timed("add all, nobody looking", add_all)
    timed("first list, 2026-07-28", lambda: catalog.definitions("tool", modern=True))
    timed("first list, 2025-11-25", lambda: catalog.definitions("tool", modern=False))
    timed("list after one change", change)
    timed("same list again", lambda: catalog.definitions("tool", modern=True))
    timed("find a tool", lambda: catalog.tool(f"server{last}__tool_0"))
    timed("find a resource", lambda: catalog.addresses.find(f"res://{last}/9"))
    timed("find by a template", lambda: catalog.addresses.find(f"server{last}://t2/x"))
    timed("add all, listing each time", add_and_list)
    return found


def main() -> None:
    """Measure everything and print a table."""
    parser = argparse.ArgumentParser(description="Measure what many servers in one catalog cost.")
    parser.add_argument("--sources", type=int, default=100)
    parser.add_argument("--tools", type=int, default=50)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    logging.disable()
    runs = [measure(options.sources, options.tools) for _ in range(options.repeat)]
    best = {what: min(run[what] for run in runs) for what in runs[0]}
    if options.json:
        sys.stdout.write(json.dumps(best, indent=2) + "\n")
        return
    rows = [f"{what:28}{best[what]:10.2f} ms{AIMS[what]:12.0f} ms aim" for what in best]
    sys.stdout.write("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
