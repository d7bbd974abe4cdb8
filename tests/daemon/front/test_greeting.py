"""The first line of each side of a front's socket."""

from __future__ import annotations

import json

import pytest

from gaia_bridge.version import __version__
from gaia_bridge_daemon.front.greeting import GREETING, GreetingError, format_greeting, is_newer, read_greeting


def test_what_is_written_is_read() -> None:
    line = format_greeting(do="serve", text='"\n\ud800')
    assert line.startswith(GREETING)
    assert line.count(b"\n") == 1
    assert read_greeting(line) == {"version": __version__, "do": "serve", "text": '"\n\ud800'}


@pytest.mark.parametrize(
    "other",
    [
        b"",
        b"HTTP/1.1 400 Bad Request\r\n",
        b"\xff\n",
        b"[" * 100_000,
        b"17",
        b"[1]",
        b'{"jsonrpc":"2.0","method":"ping"}',
        b'{"gaia-bridge":1}',
        b'{"gaia-bridge":"version"}',
        b'{"gaia-bridge":{}}',
        b'{"gaia-bridge":{"version":1}}',
    ],
    ids=lambda line: repr(line[:20]),
)
def test_what_is_no_greeting_is_refused_in_words(other: bytes) -> None:
    with pytest.raises(GreetingError, match="came; expected"):
        read_greeting(other)


def test_no_message_of_mcp_begins_like_one() -> None:
    for message in ({"jsonrpc": "2.0"}, {"id": 1}, {"method": "x"}, [{"gaia-bridge": 1}]):
        assert not json.dumps(message).encode().startswith(GREETING)


@pytest.mark.parametrize(
    ("version", "other"), [("1.10.0", "1.9.9"), ("2", "1.99"), ("1.0.1", "1.0"), ("1.0.1.dev0", "1.0")]
)
def test_a_version_is_newer_by_its_numbers(version: str, other: str) -> None:
    assert is_newer(version, other)
    assert not is_newer(other, version)


@pytest.mark.parametrize("other", ["", "1.0", "1.0.rc1", "nonsense"])
def test_no_version_is_newer_than_itself(other: str) -> None:
    assert not is_newer(other, other)
