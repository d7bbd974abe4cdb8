"""Everything that a server offers, as the official client and as our core read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import anyio

from gaia_bridge.client import Connection
from gaia_bridge.errors import ProtocolError
from gaia_bridge.model import HttpServerSpec, ServerSpec, StdioServerSpec
from gaia_bridge.text.json_types import JSON
from tests.interaction.results import wire_list
from tests.support.on_demand import mcp, mcp_sse, mcp_types

__all__ = ["Catalog", "catalog_of", "official_catalog", "official_catalogs", "target_of"]

Catalog = dict[str, list[Any]]
"""The definitions of each kind; a kind that the server does not know is empty."""

PATIENCE: Final = 60.0
"""Seconds for all servers at once on a slow machine."""
_METHODS: Final = {  # it does not know skills
    "tool": "list_tools",
    "prompt": "list_prompts",
    "resource": "list_resources",
    "resource template": "list_resource_templates",
}
_FIELDS: Final = {"resource template": "resource_templates"}


async def official_catalog(client: mcp.Client) -> Catalog:
    """What the official client reads, as it came over the wire."""
    return {kind: await _official_list(client, kind) for kind in _METHODS}


async def _official_list(client: mcp.Client, kind: str) -> list[JSON]:
    items: list[Any] = []
    cursor: str | None = None
    while True:
        try:
            page = await getattr(client, _METHODS[kind])(cursor=cursor)
        except mcp.MCPError as error:
            assert error.code == mcp_types.METHOD_NOT_FOUND, error
            return []
        items += getattr(page, _FIELDS.get(kind, f"{kind}s"))
        cursor = page.next_cursor
        if cursor is None:
            return wire_list(items)


async def official_catalogs(specs: Mapping[str, ServerSpec]) -> dict[str, Catalog]:
    """What the official client reads from several servers, all asked at once."""
    catalogs: dict[str, Catalog] = {}

    async def read(name: str, spec: ServerSpec) -> None:
        async with mcp.Client(target_of(spec), cache=None) as client:
            catalogs[name] = await official_catalog(client)

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            for name, spec in specs.items():
                tasks.start_soon(read, name, spec)
    return catalogs


def target_of(spec: ServerSpec) -> Any:
    """What the official client connects to."""
    if isinstance(spec, HttpServerSpec):
        return mcp_sse.sse_client(spec.url) if spec.sse else spec.url
    assert isinstance(spec, StdioServerSpec)
    return mcp.stdio_client(mcp.StdioServerParameters(command=spec.command, args=list(spec.args), env=dict(spec.env)))


async def catalog_of(connection: Connection) -> Catalog:
    """What our core reads."""
    catalog: Catalog = {}
    for kind in _METHODS:
        try:
            catalog[kind] = await connection.list_all(kind)
        except ProtocolError as error:
            assert error.code == mcp_types.METHOD_NOT_FOUND, error
            catalog[kind] = []
    return catalog
