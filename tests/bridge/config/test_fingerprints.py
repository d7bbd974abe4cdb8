"""Two entries have one fingerprint exactly if they reach the same server in the same way."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from gaia_bridge.config import fingerprint
from gaia_bridge.model import HttpServerSpec, OAuthOptions, ServerOptions, ServerSpec, StdioServerSpec

CHILD = StdioServerSpec("x", "npx", ("-y", "server"), {"A": "1", "B": "2"}, "/srv", ("C",))
REMOTE = HttpServerSpec("x", "https://example.com/", {"Accept": "a", "B": "b"})


@pytest.mark.parametrize("spec", [CHILD, REMOTE])
def test_how_a_server_is_called_and_used_does_not_matter(spec: ServerSpec) -> None:
    assert fingerprint(replace(spec, name="y", options=ServerOptions(timeout=1.0, disabled=True))) == fingerprint(spec)


def test_the_order_of_variables_and_the_case_of_headers_do_not_matter() -> None:
    assert fingerprint(replace(CHILD, env={"B": "2", "A": "1"})) == fingerprint(CHILD)
    assert fingerprint(replace(REMOTE, headers={"b": "b", "accept": "a"})) == fingerprint(REMOTE)


@pytest.mark.requirement("C-18")
@pytest.mark.parametrize(
    ("spec", "change"),
    [
        (CHILD, {"command": "npx2"}),
        (CHILD, {"args": ("-y server",)}),
        (CHILD, {"args": ("server", "-y")}),
        (CHILD, {"env": {"A": "1"}}),
        (CHILD, {"env": {"A": "1", "B": "3"}}),
        (CHILD, {"cwd": None}),
        (CHILD, {"inherit_env": True}),
        (CHILD, {"inherit_env": ()}),
        (REMOTE, {"url": "https://example.com"}),
        (REMOTE, {"headers": {}}),
        (REMOTE, {"headers": {"Accept": "A", "B": "b"}}),
        (REMOTE, {"sse": True}),
        (REMOTE, {"oauth": None}),
        (REMOTE, {"oauth": OAuthOptions(client_id="me")}),
        (REMOTE, {"oauth": OAuthOptions(issuer="https://as.example.com")}),
        (REMOTE, {"oauth": OAuthOptions(scope="a")}),
    ],
)
def test_whatever_reaches_the_server_matters(spec: ServerSpec, change: dict[str, Any]) -> None:
    assert fingerprint(replace(spec, **change)) != fingerprint(spec)


@pytest.mark.requirement("S-36")
def test_no_value_can_be_read_from_it() -> None:
    found = fingerprint(replace(CHILD, env={"TOKEN": "s3cr3t"}))
    assert len(found) == 64
    assert set(found) <= set("0123456789abcdef")
