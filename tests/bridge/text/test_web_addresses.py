"""What is an address of the web, and what only looks like one."""

from __future__ import annotations

from typing import Any

from gaia_bridge.text.web_addresses import is_web_address


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
