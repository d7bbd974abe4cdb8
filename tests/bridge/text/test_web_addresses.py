"""What is an address of the web, and what only looks like one."""

from __future__ import annotations

from typing import Any

import pytest

from gaia_bridge.text.web_addresses import is_loopback_address, is_loopback_host, is_web_address

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


def test_addresses_are_told_from_other_texts() -> None:
    some = [
        "https://a",
        "http://a.b:1",
        "https://[::1]:8/a%20b?c=/d#e?f",
        "https://a_b.example?x",
        "http://127.0.0.1/~a",
    ]
    none: list[Any] = [
        "",
        "https://",
        "https://[a",
        "https://a b",
        'https://"',
        "http://a#b#c",
        "http://a/%zz",
        "ftp://a",
    ]
    none += ["https://ada:pass@a", "//a", "https://a\n", "https://ü", "javascript:alert(1)", None, 1, ["https://a"]]
    assert [text for text in some if not is_web_address(text)] == []
    assert [text for text in none if is_web_address(text)] == []


@pytest.mark.parametrize("host", [*ADDRESSES, "localhost", "LOCALHOST", "a.localhost"])
def test_a_host_that_is_this_machine(host: str) -> None:
    assert is_loopback_host(host)
    assert is_loopback_address(host) is (host in ADDRESSES)


@pytest.mark.parametrize("host", [*OTHERS, "localhost.example", "notlocalhost"])
def test_a_host_that_may_be_any_other(host: str) -> None:
    assert not is_loopback_host(host)
    assert not is_loopback_address(host)
