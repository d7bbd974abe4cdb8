"""This machine is told from others, whatever its address is written like."""

from __future__ import annotations

import pytest

from gaia_bridge.protocol.loopback_hosts import is_loopback_address, is_loopback_host

ADDRESSES = ["127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1"]
OTHERS = [
    "",
    "0.0.0.0",
    "::",
    "10.0.0.1",
    "::ffff:10.0.0.1",
    "fe80::1%lo",
    "example.com",
    "127.0.0.1.example.com",
    "[::1]",
]


@pytest.mark.parametrize("host", [*ADDRESSES, "localhost", "LOCALHOST", "a.localhost"])
def test_a_host_that_is_this_machine(host: str) -> None:
    assert is_loopback_host(host)
    assert is_loopback_address(host) is (host in ADDRESSES)


@pytest.mark.parametrize("host", [*OTHERS, "localhost.example", "notlocalhost"])
def test_a_host_that_may_be_any_other(host: str) -> None:
    assert not is_loopback_host(host)
    assert not is_loopback_address(host)
