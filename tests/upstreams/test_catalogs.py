"""Nothing of what a server offers is lost, whoever wrote it: all lists are those that the official client reads."""

from __future__ import annotations

import anyio
import pytest

from gaia_bridge.model import ServerSpec
from tests.interaction.connecting import ERAS, client_of
from tests.support.on_demand import mcp, mcp_context, mcp_types
from tests.upstreams.catalogs import Catalog, catalog_of, official_catalog, target_of
from tests.upstreams.servers import EVERYTHING, SERVERS, SMALL, Fixtures
from tests.upstreams.ways import ALL_CAPABILITIES, DEADLINE, Role, connected, published

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]  # many programs start, on a machine that may be busy

MODERN = {"time", "fetch", "git", "mcp2", "fastmcp"}
"""Those that speak 2026-07-28."""
SIZES = {
    "time": [2, 0, 0, 0],
    "fetch": [1, 1, 0, 0],
    "git": [12, 0, 0, 0],
    "filesystem": [14, 0, 0, 0],
    "memory": [9, 0, 1, 0],
    **dict.fromkeys(EVERYTHING, [13, 4, 7, 2]),
    **dict.fromkeys(SMALL, [2, 1, 1, 1]),
}
"""How many tools, prompts, resources and templates each has at least."""


QUICK = [pytest.param(name, marks=[pytest.mark.thorough] if name in ("fastmcp", "mcp2") else []) for name in SERVERS]
"""Those that are slow to install are thorough tests; what they are written with is in others, too."""
READ_DIRECTLY = {"time", "git", *EVERYTHING}
"""Of each language, transport and era one; the bridge reads the others in the same way."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.thorough] if name not in READ_DIRECTLY else []) for name in SERVERS]
)
async def test_our_core_reads_what_the_official_client_reads(
    name: str, servers: Fixtures, official: dict[str, Catalog]
) -> None:
    async with connected(servers.specs[name]) as connection:
        assert connection.handshake.modern == (name in MODERN)
        catalog = await catalog_of(connection)

    assert catalog == official[name]
    assert all(len(items) >= size for items, size in zip(catalog.values(), SIZES[name], strict=True))


@pytest.mark.parametrize("name", QUICK)
async def test_the_bridge_publishes_what_the_official_client_reads_to_clients_of_both_eras(
    name: str, bridge_url: str, official: dict[str, Catalog], servers: Fixtures
) -> None:
    """The bridge declares to servers what any client may be able to; some offer more then."""
    capable = name in EVERYTHING
    expected = await catalog_for_every_capability(servers.specs[name]) if capable else official[name]
    with anyio.fail_after(DEADLINE):
        for era in ERAS:
            async with client_of(published(bridge_url, name).url, era) as client:
                of_era = as_played(expected) if era != "modern" else without_execution(expected)
                assert await official_catalog(client) == of_era, era


def as_played(catalog: Catalog) -> Catalog:
    """What clients of 2025-11-25 are told of it: a task is made for whoever does not make one."""
    optional = {"taskSupport": "optional"}
    tools = [
        {**tool, "execution": {**tool["execution"], **optional}}
        if tool.get("execution", {}).get("taskSupport") == "required"
        else tool
        for tool in catalog["tool"]
    ]
    return {**catalog, "tool": tools}


def without_execution(catalog: Catalog) -> Catalog:
    """What 2026-07-28 has of it: whether a tool runs as a task is not said there."""
    tools = [{key: value for key, value in tool.items() if key != "execution"} for tool in catalog["tool"]]
    return {**catalog, "tool": tools}


@pytest.mark.parametrize("name", EVERYTHING)
async def test_a_server_offers_us_all_that_it_offers_a_client_with_every_capability(
    name: str, servers: Fixtures
) -> None:
    spec = servers.specs[name]
    expected = await catalog_for_every_capability(spec)
    role = Role(ALL_CAPABILITIES, lambda method, params: {"roots": []})
    async with connected(spec, role) as connection:
        catalog = await catalog_of(connection)
        await role.until("notifications/message")

    assert catalog == expected
    assert len(catalog["tool"]) >= 17


async def catalog_for_every_capability(spec: ServerSpec) -> Catalog:
    """What the official client reads that can be asked everything."""
    told = anyio.Event()

    async def tell(params: mcp_types.LoggingMessageNotificationParams) -> None:
        told.set()

    with anyio.fail_after(DEADLINE):
        client = mcp.Client(
            target_of(spec),
            cache=None,
            elicitation_callback=unasked,
            sampling_callback=unasked,
            list_roots_callback=no_roots,
            logging_callback=tell,
        )
        async with client:
            catalog = await official_catalog(client)
            await told.wait()  # of the roots; before that it would not end
    return catalog


async def no_roots(context: mcp_context.ClientRequestContext) -> mcp_types.ListRootsResult:
    return mcp_types.ListRootsResult(roots=[])


async def unasked(context: mcp_context.ClientRequestContext, params: object) -> mcp_types.ErrorData:
    raise AssertionError("nobody asked for this")
