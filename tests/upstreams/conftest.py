"""The servers of other hands, and a bridge that publishes all of them."""

from __future__ import annotations

import json
from collections.abc import Generator

import anyio
import pytest

from gaia_bridge.model import ServerSpec
from tests.cli.running import running
from tests.process.driving import AGENTS, url_of
from tests.support.installed_programs import needs
from tests.upstreams.catalogs import Catalog, official_catalogs
from tests.upstreams.servers import ALL, SERVERS, Fixtures, entry_of, started
from tests.upstreams.ways import until_connected


@pytest.fixture(scope="session")
@needs(*ALL)
def servers(tmp_path_factory: pytest.TempPathFactory) -> Generator[Fixtures]:
    """The servers, with what they work on."""
    with started(tmp_path_factory.mktemp("upstreams")) as fixtures:
        yield fixtures


@pytest.fixture(scope="session")
def official(servers: Fixtures) -> dict[str, Catalog]:
    """What the official client reads from each server."""
    return anyio.run(official_catalogs, _published(servers))


@pytest.fixture(scope="session")
def bridge_url(servers: Fixtures, tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """The URL of `gaia-bridge serve`, once it is connected to all servers."""
    folder = tmp_path_factory.mktemp("bridge")
    specs = _published(servers)
    entries = {name: entry_of(spec) for name, spec in specs.items()}
    (folder / "servers.json").write_text(json.dumps({"mcpServers": entries}), "utf-8")
    arguments = ("serve", "--port", "0", f"{AGENTS}:CalmAgent", "--config", "servers.json")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder))
        with running(*arguments, cwd=folder) as bridge:
            url = url_of(bridge)
            until_connected(url, specs)
            yield url


def _published(servers: Fixtures) -> dict[str, ServerSpec]:
    """Those whose lists are compared; a start of the others would show nothing."""
    return {name: servers.specs[name] for name in SERVERS}
