"""Which servers of other hands serve both eras on one stream: most do not, so each era has a process of its own."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest

from gaia_bridge.model import StdioServerSpec
from gaia_bridge.text.json_types import JSON
from tests.conformance.raw_clients import DEADLINE, StdioClient
from tests.support.installed_programs import needs
from tests.translation.raw_comparison import BOTH_ERAS, LEGACY, META
from tests.upstreams.servers import ALL, started

TAKE_BOTH = {"grafana", "logseq"}
"""Servers with the SDKs of Go and Rust (mcp-grafana 2.1.1, logseq-mcp-server 2.1.0)."""

OPENINGS: dict[str, JSON] = {
    "initialize": {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "raw", "version": "0"}},
    "server/discover": {"_meta": META},
}


@pytest.mark.anyio
@pytest.mark.thorough
@pytest.mark.requirement("P-202")
@pytest.mark.timeout(600)  # many programs start, on a machine that may be busy
@pytest.mark.parametrize("name", BOTH_ERAS)
@needs(*ALL)
async def test_a_stream_of_one_era_is_refused_in_the_other_but_by_servers_in_go_and_rust(
    name: str, tmp_path: Path
) -> None:
    """With those that are not refused, a second process could be saved."""
    with started(tmp_path) as fixtures:
        spec = fixtures.specs[name]
        assert isinstance(spec, StdioServerSpec)
        for first, second in (("initialize", "server/discover"), ("server/discover", "initialize")):
            with anyio.fail_after(DEADLINE):
                command, env = [spec.command, *spec.args], {**os.environ, **spec.env}
                async with await anyio.open_process(command, stderr=None, env=env) as process:
                    client = StdioClient(process)
                    assert "result" in await client.request(first, OPENINGS[first])
                    refused = "error" in await client.request(second, OPENINGS[second])
                    assert refused is (name not in TAKE_BOTH)
                    process.kill()
