"""What the `oauth` of an entry says, followed from the file to the authorization server."""

from __future__ import annotations

import json
import logging
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from gaia_bridge.client.oauth.errors import LoginRequiredError
from gaia_bridge.client.transport import Link, UpstreamError
from gaia_bridge.client.transport_factory import transport_for
from gaia_bridge.model import HttpServerSpec
from gaia_bridge.text.json_types import JSON
from tests.servers.auth_server import AuthServer
from tests.support.configured import load_servers
from tests.support.oauth_users import LIMITS, User

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("bystander")]

REQUEST: JSON = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}


class Nobody:
    def message(self, message: JSON, during: int | None) -> None:
        raise AssertionError(message)

    def ended(self, reason: str) -> None:
        raise AssertionError(reason)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    return tmp_path


def configured(server: AuthServer, home: Path, oauth: object, headers: dict[str, str] | None = None) -> HttpServerSpec:
    """The server as a configuration file describes it."""
    file = home / "mcp_servers.json"
    entry = {"url": server.url, "oauth": oauth, "headers": headers}
    file.write_text(json.dumps({"mcpServers": {"weather": entry}}), "utf-8")
    [spec] = load_servers(file).servers
    assert isinstance(spec, HttpServerSpec)
    return spec


def link_to(spec: HttpServerSpec, user: User | None = None) -> AbstractAsyncContextManager[Link]:
    return transport_for(spec, LIMITS, None, user).connect(Nobody())


@pytest.mark.requirement("S-21", "S-24", "S-36")
async def test_a_client_that_is_registered_already_logs_in_with_its_secret(
    server: AuthServer, home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "gaia_bridge")
    monkeypatch.setenv("WEATHER_SECRET", "s3cret-of-ours")
    oauth = {
        "clientId": "me",
        "clientSecret": "${env:WEATHER_SECRET}",
        "issuer": server.issuer,
        "scopes": ["read", "write"],
        "tokenEndpointAuthMethod": "client_secret_post",
    }
    spec = configured(server, home, oauth)
    user = User()
    async with link_to(spec, user) as link:
        link.agree("2025-11-25")
        assert (await link.request(REQUEST))["result"]["token"] in server.valid
    [request], [token_request] = server.authorizations, server.token_requests
    assert (request["client_id"], request["scope"]) == ("me", "read write")
    assert (token_request["client_id"], token_request["client_secret"]) == ("me", "s3cret-of-ours")
    assert (user.logins, len(server.clients)) == (1, 0)
    [file] = (home / ".gaia" / "oauth").glob("*.json")
    assert "s3cret" not in file.read_text("utf-8") + caplog.text + repr(spec)


async def test_a_client_without_a_user_needs_no_login(server: AuthServer, home: Path) -> None:
    oauth = {
        "grantType": "client_credentials",
        "clientId": "me",
        "clientSecret": "s3cret-of-ours",
        "issuer": server.issuer,
    }
    async with link_to(configured(server, home, oauth)) as link:
        link.agree("2025-11-25")
        assert (await link.request(REQUEST))["result"]["token"] in server.valid
    assert dict(server.grants) == {"client_credentials": 1}


async def test_an_entry_that_says_nothing_lets_the_user_log_in(server: AuthServer, home: Path) -> None:
    spec = configured(server, home, None)
    async with link_to(spec) as link:
        with pytest.raises(LoginRequiredError):
            await link.request(REQUEST)
    async with link_to(spec, User()) as link:
        assert (await link.request(REQUEST))["result"]["token"] in server.valid


@pytest.mark.parametrize(
    ("oauth", "headers", "expected"),
    [
        (False, None, "wants authorisation"),
        ({"clientId": "me"}, {"Authorization": "Bearer old"}, "does not accept our authorisation"),
    ],
)
async def test_where_the_entry_says_so_nobody_is_logged_in(
    server: AuthServer, home: Path, oauth: object, headers: dict[str, str] | None, expected: str
) -> None:
    user = User()
    async with link_to(configured(server, home, oauth, headers), user) as link:
        with pytest.raises(UpstreamError, match=expected):
            await link.request(REQUEST)
    assert (user.logins, dict(server.http.hits)) == (0, {"mcp": 1})
