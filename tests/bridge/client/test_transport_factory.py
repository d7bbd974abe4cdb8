"""How a server is reached, by what its entry in the configuration says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from gaia_bridge.client.transport_factory import Pace, kind_of, limits_for, secrets_of, transport_for
from gaia_bridge.client.transports.children.stdio import StdioTransport
from gaia_bridge.client.transports.http.sse import SseTransport
from gaia_bridge.client.transports.http.streamable_http import StreamableHttpTransport
from gaia_bridge.model import HttpServerSpec, OAuthOptions, ServerOptions, ServerSpec, StdioServerSpec
from gaia_bridge.settings import UpstreamLimits
from tests.support.virtual_time import VIRTUAL_TIME

ROOT = Path(__file__).parents[3]
LIMITS = UpstreamLimits(call_timeout=60, call_cap=600, connect_timeout=30, idle_timeout=600, max_concurrency=64)


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return VIRTUAL_TIME


@pytest.mark.parametrize(
    ("spec", "kind", "transport"),
    [
        (StdioServerSpec("up", "true"), "stdio", StdioTransport),
        (HttpServerSpec("up", "http://127.0.0.1/mcp"), "http", StreamableHttpTransport),
        (HttpServerSpec("up", "http://127.0.0.1/sse", sse=True), "sse", SseTransport),
    ],
)
def test_the_entry_chooses_the_transport(spec: ServerSpec, kind: str, transport: type) -> None:
    assert kind_of(spec) == kind
    assert type(transport_for(spec, LIMITS, lambda line: None)) is transport


def test_an_entry_that_says_nothing_has_the_limits_of_all() -> None:
    assert limits_for(LIMITS, StdioServerSpec("x", "server")) == LIMITS


def test_a_launcher_has_the_time_for_a_download_unless_its_entry_says_how_long() -> None:
    npx = StdioServerSpec("x", "npx", ("-y", "server"))
    assert limits_for(LIMITS, npx).start_timeout == LIMITS.download_timeout > LIMITS.connect_timeout
    own = StdioServerSpec("x", "npx", ("-y", "server"), options=ServerOptions(startup_timeout=5))
    assert limits_for(LIMITS, own).start_timeout == 5


def test_an_entry_may_have_limits_of_its_own_and_its_timeout_counts_though_it_is_long() -> None:
    options = ServerOptions(timeout=900, startup_timeout=5, idle_timeout=0, max_concurrency=1)
    limits = limits_for(LIMITS, StdioServerSpec("x", "server", options=options))
    assert (limits.call_timeout, limits.call_cap, limits.connect_timeout) == (900, 900, 5)
    assert (limits.idle_timeout, limits.max_concurrency) == (0, 1)
    assert limits_for(LIMITS, StdioServerSpec("x", "server", options=ServerOptions(timeout=5))).call_cap == 600


@pytest.mark.requirement("S-36")
def test_what_may_be_secret_is_known() -> None:
    child = StdioServerSpec(
        "up", "npx", ("-y", "@scope/some-long-package", "--key", "sk-0123456789abcdef"), {"A": "s3cr3t-value", "B": "1"}
    )
    assert secrets_of(child) == ("s3cr3t-value", "sk-0123456789abcdef")
    secret = ("https://u:pw@h.example", "https://h.example/hooks/1", "https://h.example?t=1", "h.example")
    values = ("http://127.0.0.1:3000", "https://grafana.example/", *secret)  # the first two are hosts alone
    served = StdioServerSpec("up", "npx", env={f"URL_{number}": value for number, value in enumerate(values)})
    assert secrets_of(served) == secret
    url = "https://user:password@example.com/mcp?key=abcdef"
    oauth = OAuthOptions(client_id="me", client_secret="s3cr3t-value")
    remote = HttpServerSpec("up", url, {"Authorization": "Bearer xyz"}, oauth=oauth)
    assert secrets_of(remote) == ("Bearer xyz", "key=abcdef", "user:password", "s3cr3t-value")
    assert "s3cr3t" not in repr(remote) + repr(oauth)
    transformed = StdioServerSpec("up", "npx", options=ServerOptions(secrets=("s3cr3t-value", "short")))
    assert secrets_of(transformed) == ("s3cr3t-value",)
    assert "s3cr3t" not in repr(transformed) + repr(transformed.options)


def test_whoever_has_no_server_on_the_network_does_without_the_import_of_http_and_oauth() -> None:
    code = (
        "import sys; from gaia_bridge.model import StdioServerSpec; from gaia_bridge.client.transport_factory import *;"
        "from gaia_bridge.settings import UpstreamLimits;"
        "transport_for(StdioServerSpec('up', 'true'), UpstreamLimits()); print(*sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    imported = set(result.stdout.split())
    assert "gaia_bridge.client.transports.children.stdio" in imported
    assert imported & {"httpx2", "mcp", "filelock", "cryptography"} == set()
    assert not [name for name in imported if name.startswith("gaia_bridge.client.oauth")]


CALLING = """
import asyncio, sys
from gaia_bridge.model import HttpServerSpec
from gaia_bridge.client.transport_factory import transport_for
from gaia_bridge.settings import UpstreamLimits
from tests.servers.evil_http import evil_http

async def call():
    async with evil_http() as server:
      async with transport_for(HttpServerSpec("up", server.url()), UpstreamLimits()).connect(None) as link:
        assert "result" in await link.request({"jsonrpc": "2.0", "id": 1, "method": "tools/call"})

asyncio.run(call())
print(*sys.modules)
"""


def test_a_server_on_the_network_that_asks_for_no_login_does_without_the_import_of_oauth() -> None:
    command = [sys.executable, "-c", CALLING]
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30, cwd=ROOT)
    imported = set(result.stdout.split())
    assert "gaia_bridge.client.oauth.on_demand" in imported
    assert imported & {"mcp", "filelock", "pydantic", "gaia_bridge.client.oauth.provider"} == set()


def test_serving_agents_does_without_the_import_of_oauth() -> None:
    code = "import sys, gaia_bridge.bridge.bridge; print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    imported = set(result.stdout.split())
    assert "gaia_bridge.sources.upstream.source" in imported
    assert imported & {"mcp.client.auth.extensions.client_credentials", "jwt"} == set()
    assert not [name for name in imported if name.startswith("gaia_bridge.client.oauth")]


@pytest.mark.anyio
@pytest.mark.requirement("F-072")
async def test_those_who_come_together_take_turns_and_whoever_comes_alone_does_not_wait() -> None:
    pace = Pace(0.02)
    times: list[float] = []

    async def take() -> None:
        await pace.turn()
        times.append(anyio.current_time() - began)

    began = anyio.current_time()
    async with anyio.create_task_group() as tasks:
        for _ in range(50):
            tasks.start_soon(take)
    assert times == pytest.approx([0.02 * number for number in range(50)])
    await anyio.sleep(1)
    began = anyio.current_time()
    await take()
    assert times[-1] == 0
