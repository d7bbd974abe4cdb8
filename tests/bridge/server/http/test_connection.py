"""The same bytes get the same verdict as from h11, however they are cut; where not, a row says why.

A verdict is what is answered, what the application sees, and when the connection ends. Time is virtual and the
connection is no socket, so that a client may be as slow as it likes.
"""

from __future__ import annotations

import asyncio
import random
import re
import socket
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import h11
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from gaia_bridge.server.http.connection import ConnectionConfig, HttpConnection
from gaia_bridge.server.transports.scope_keys import BODY_ARRIVED, DISCONNECT, WHOLE_BODY
from gaia_bridge.settings import HttpLimits
from tests.bridge.server.http.h11_protocol import StrictH11, StrictH11Config
from tests.support.virtual_time import VIRTUAL_TIME, VirtualTimeLoop

pytestmark = pytest.mark.anyio

LIMITS = HttpLimits(header_bytes=4096, header_timeout=10, body_timeout=30, keep_alive=75, body_patience=0.0005)
READERS: dict[str, tuple[type[Any], type[Any]]] = {
    "h11": (StrictH11, StrictH11Config),
    "httptools": (HttpConnection, ConnectionConfig),
}


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return VIRTUAL_TIME


# What is sent


def head(*lines: str, line: str = "GET /x HTTP/1.1", host: str | None = "Host: a") -> bytes:
    return "\r\n".join([line, *([host] if host is not None else []), *lines, "", ""]).encode("latin-1")


def post(*lines: str, body: bytes = b"", line: str = "POST /x HTTP/1.1") -> bytes:
    return head(*lines, line=line) + body


def chunked(body: bytes, *lines: str) -> bytes:
    return post("Transfer-Encoding: chunked", *lines, body=body)


NEXT = head(line="GET /next HTTP/1.1")
H2C = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA")
WEBSOCKET = ("Connection: keep-alive, Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13")
CODINGS = [
    *(" chunked, identity", " identity, chunked", " gzip, chunked", " gzip", " identity", " xchunked", " chunkedx"),
    *(" chunked;a=b", " chunked,", " ,chunked", ' "chunked"', "", " CHUNKED", "\tchunked", "\x0bchunked", " chun ked"),
    *(" chunked\x00", " chunked, chunked", " \xa0chunked", " chunked  ", " chunked\t"),
]
THREE = post("Content-Length: 3", body=b"abc")
ODD_BYTES = b"\r\n\r\n" * 20 + b"0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"

CORPUS: dict[str, bytes] = {
    # plain
    "a GET": head(),
    "a GET with a query": head(line="GET /a%20b/%2e?q=%20&r=? HTTP/1.1"),
    "a POST": post("Content-Length: 5", body=b"hello"),
    "a POST without a body": post("Content-Length: 0"),
    "a POST that says nothing of a body": post(),
    "a GET with a body": head("Content-Length: 5") + b"hello",
    "a HEAD": head(line="HEAD /x HTTP/1.1"),
    "an OPTIONS of everything": head(line="OPTIONS * HTTP/1.1"),
    "a DELETE": head(line="DELETE /x HTTP/1.1"),
    "a large body": post("Content-Length: 200000", body=b"x" * 200_000),
    "a body of line ends": post(f"Content-Length: {len(ODD_BYTES)}", body=ODD_BYTES) + NEXT,
    "two requests": head() + NEXT,
    "three requests with bodies": post("Content-Length: 3", body=b"abc") * 2 + chunked(b"1\r\na\r\n0\r\n\r\n") + NEXT,
    "a request behind one that closes": head("Connection: close") + NEXT,
    "bytes behind a body that closes": post("Connection: close", "Content-Length: 5", body=b"hello!!"),
    "a request behind a body that closes": post("Connection: close", "Content-Length: 5", body=b"hello") + NEXT,
    "two requests of version 1.0": head(line="GET /x HTTP/1.0") + head(line="GET /x HTTP/1.0"),
    "a byte behind a body": post("Content-Length: 5", body=b"hello!"),
    "a byte between two requests": post("Content-Length: 5", body=b"hello!") + NEXT,
    "a request behind one that closes among others": head("Connection: x, CLOSE ,y") + NEXT,
    # the same head again, which is read only once
    "the same head three times": THREE
    + post("Content-Length: 3", body=b"GET")
    + post("Content-Length: 3", body=b"\r\n\r")
    + NEXT,
    "the same head without a body": head() * 3 + NEXT * 2,
    "the same head among others": (THREE + head()) * 3 + THREE * 2 + NEXT,
    "the same head around chunks": THREE * 2 + chunked(b"1\r\na\r\n0\r\n\r\n") + THREE * 2 + NEXT,
    "the same head with chunks": chunked(b"1\r\na\r\n0\r\n\r\n") * 2 + NEXT,
    "the same head with a wish": post(*H2C, "Content-Length: 3", body=b"abc") * 2 + NEXT,
    "the same head with an expectation": post("Expect: 100-continue", "Content-Length: 3", body=b"abc") * 2 + NEXT,
    "the same head with a body that does not end": THREE + post("Content-Length: 3", body=b"ab"),
    "the same head with another line": THREE + post("Content-Length: 3", "X: 1", body=b"abc") + NEXT,
    "the same head with a second length": THREE + post("Content-Length: 3", "Content-Length: 4", body=b"abcd") + NEXT,
    "a kept connection": head("Connection: keep-alive") + NEXT,
    "blanks around values": head("X:  \t a b \t ", "Y:", "Z: \t ") + NEXT,
    "a value of many bytes": head("X: \xe4\xff\t'\"\\", "Y: " + "y" * 3000),
    "a name in capitals": head("X-LONG_name.1!#$%&'*+-^`|~: a"),
    "a header twice": head("X: 1", "X: 2", "Cookie: a", "Cookie: b"),
    "many headers": head(*(f"X{number}: {number}" for number in range(300))),
    # lengths
    "two lengths that differ": post("Content-Length: 4", "Content-Length: 5", body=b"abcde") + NEXT,
    "two lengths that are the same": post("Content-Length: 5", "Content-Length: 5", body=b"abcde") + NEXT,
    "a list of lengths that differ": post("Content-Length: 4, 5", body=b"abcde") + NEXT,
    "a list of lengths that are the same": post("Content-Length: 5, 5", body=b"abcde") + NEXT,
    "a length with a plus": post("Content-Length: +5", body=b"abcde") + NEXT,
    "a negative length": post("Content-Length: -5", body=b"abcde") + NEXT,
    "a length in hexadecimal": post("Content-Length: 0x5", body=b"abcde") + NEXT,
    "a length with a fraction": post("Content-Length: 5.0", body=b"abcde") + NEXT,
    "an empty length": post("Content-Length:", body=b"abcde") + NEXT,
    "a length in two words": post("Content-Length: 1 0", body=b"abcde") + NEXT,
    "a length with blanks": post("Content-Length: \t 5 \t", body=b"abcde") + NEXT,
    "a length with zeros": post("Content-Length: 0005", body=b"abcde") + NEXT,
    "a length of twenty nines": post("Content-Length: " + "9" * 20, body=b"abcde"),
    "a length of thirty nines": post("Content-Length: " + "9" * 30, body=b"abcde"),
    "a length with an underscore": post("Content-Length: 1_0", body=b"abcde") + NEXT,
    "a length in other digits": post("Content-Length: \xb2", body=b"abcde") + NEXT,
    # codings
    "a length and chunks": chunked(b"0\r\n\r\n", "Content-Length: 4") + NEXT,
    "chunks and a length": post("Content-Length: 4", "Transfer-Encoding: chunked", body=b"0\r\n\r\n") + NEXT,
    "a length with a blank before the colon, and chunks": chunked(b"0\r\n\r\n", "Content-Length : 4") + NEXT,
    "a coding with a blank before the colon": post("Transfer-Encoding : chunked", body=b"0\r\n\r\n") + NEXT,
    "a coding twice": chunked(b"0\r\n\r\n", "Transfer-Encoding: chunked") + NEXT,
    "a second coding of none": chunked(b"0\r\n\r\n", "Transfer-Encoding: identity") + NEXT,
    **{
        f"the coding {coding!r}": post(f"Transfer-Encoding:{coding}", body=b"5\r\nabcde\r\n0\r\n\r\n") + NEXT
        for coding in CODINGS
    },
    # chunks
    "chunks": chunked(b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n") + NEXT,
    "no chunks": chunked(b"0\r\n\r\n") + NEXT,
    "chunks of one byte": chunked(b"1\r\na\r\n" * 50 + b"0\r\n\r\n") + NEXT,
    "a chunk of line ends": chunked(b"%x\r\n%b\r\n0\r\n\r\n" % (len(ODD_BYTES), ODD_BYTES)) + NEXT,
    "a large chunk": chunked(b"%x\r\n%b\r\n0\r\n\r\n" % (100_000, b"x" * 100_000)) + NEXT,
    "a size with zeros": chunked(b"0005\r\nhello\r\n000\r\n\r\n") + NEXT,
    "a size in capitals": chunked(b"A\r\n0123456789\r\n0\r\n\r\n") + NEXT,
    "an extension": chunked(b'5;a=b;c="d"\r\nhello\r\n0;e\r\n\r\n') + NEXT,
    "an extension of a long name": chunked(b"5;" + b"a" * 2000 + b"\r\nhello\r\n0\r\n\r\n") + NEXT,
    "an extension without an end": chunked(b"5;" + b"a" * 20_000),
    "an extension with NUL": chunked(b"5;a=\x00\r\nhello\r\n0\r\n\r\n") + NEXT,
    "an extension with a lone carriage return": chunked(b"5;a\rb\r\nhello\r\n0\r\n\r\n") + NEXT,
    "an extension with a lone line feed": chunked(b"5;a\nhello\r\n0\r\n\r\n") + NEXT,
    "a blank behind a size": chunked(b"5 \r\nhello\r\n0\r\n\r\n") + NEXT,
    "a blank before an extension": chunked(b"5 ;a\r\nhello\r\n0\r\n\r\n") + NEXT,
    "a blank before a size": chunked(b" 5\r\nhello\r\n0\r\n\r\n") + NEXT,
    "a size without digits": chunked(b"\r\nhello\r\n0\r\n\r\n") + NEXT,
    "a size that is none": chunked(b"zz\r\nhello\r\n0\r\n\r\n") + NEXT,
    "a size with 0x": chunked(b"0x5\r\nhello\r\n0\r\n\r\n") + NEXT,
    "a size with a plus": chunked(b"+5\r\nhello\r\n0\r\n\r\n") + NEXT,
    "a negative size": chunked(b"-5\r\nhello\r\n0\r\n\r\n") + NEXT,
    "a size of 16 digits": chunked(b"f" * 16 + b"\r\nhello"),
    "a size of 17 digits": chunked(b"f" * 17 + b"\r\nhello"),
    "a size of 30 digits": chunked(b"f" * 30 + b"\r\nhello"),
    "a size of 30 zeros": chunked(b"0" * 30 + b"5\r\nhello\r\n0\r\n\r\n") + NEXT,
    "a size of 20 zeros": chunked(b"0" * 19 + b"5\r\nhello\r\n0\r\n\r\n") + NEXT,
    "a size that ends with a line feed": chunked(b"5\nhello\r\n0\r\n\r\n") + NEXT,
    "a size that ends with a carriage return": chunked(b"5\rhello\r\n0\r\n\r\n") + NEXT,
    "a chunk that ends with a line feed": chunked(b"5\r\nhello\n0\r\n\r\n") + NEXT,
    "a chunk that is longer than its size": chunked(b"5\r\nhello!\r\n0\r\n\r\n") + NEXT,
    "a chunk that is shorter than its size": chunked(b"5\r\nhell\r\n0\r\n\r\n") + NEXT,
    "a chunk without an end": chunked(b"5\r\nhello0\r\n\r\n") + NEXT,
    "an end with line feeds": chunked(b"5\r\nhello\r\n0\n\n") + NEXT,
    "an end with a line feed": chunked(b"5\r\nhello\r\n0\r\n\n") + NEXT,
    "a trailer": chunked(b"5\r\nhello\r\n0\r\nX: y\r\n\r\n") + NEXT,
    "a trailer that is a credential": chunked(b"0\r\nAuthorization: Bearer x\r\nHost: b\r\n\r\n") + NEXT,
    "a trailer of another length": chunked(b"5\r\nhello\r\n0\r\nContent-Length: 7\r\n\r\n") + NEXT,
    "a trailer of another coding": chunked(b"5\r\nhello\r\n0\r\nTransfer-Encoding: gzip\r\n\r\n") + NEXT,
    "a trailer that closes": chunked(b"0\r\nConnection: close\r\n\r\n") + NEXT,
    "a trailer that upgrades": chunked(b"0\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n") + NEXT,
    "a trailer that is folded": chunked(b"0\r\nX: a\r\n b\r\n\r\n") + NEXT,
    "a trailer with a line feed": chunked(b"0\r\nX: a\n\r\n") + NEXT,
    "a trailer with a blank before the colon": chunked(b"0\r\nX : a\r\n\r\n") + NEXT,
    "a trailer without an end": chunked(b"0\r\nX: " + b"a" * 20_000),
    "trailers without an end": chunked(b"0\r\n" + b"X: a\r\n" * 4_000),
    # lines
    "line feeds alone": head().replace(b"\r\n", b"\n") + NEXT,
    "a line feed alone at the end of the head": head()[:-2] + b"\n" + NEXT,
    "a line feed alone in the middle": b"GET /x HTTP/1.1\r\nHost: a\nX: b\r\n\r\n" + NEXT,
    "a line feed alone behind the request line": b"GET /x HTTP/1.1\nHost: a\r\n\r\n" + NEXT,
    "a carriage return alone": b"GET /x HTTP/1.1\r\nHost: a\rX: b\r\n\r\n" + NEXT,
    "carriage returns alone": head().replace(b"\r\n", b"\r") + NEXT,
    "a carriage return in a value": head("X: a\rb") + NEXT,
    "two carriage returns": head("X: a\r") + NEXT,
    "a folded header": head("X: a\r\n b") + NEXT,
    "a header folded with a tab": head("X: a\r\n\tb") + NEXT,
    "a folded coding": head("Transfer-Encoding:\r\n chunked") + b"0\r\n\r\n" + NEXT,
    "a first header that begins with a blank": head(host=" Host: a") + NEXT,
    "a line of blanks": head(" ") + NEXT,
    "a blank line before": b"\r\n" + head(),
    "blank lines before": b"\r\n\r\n" + head(),
    "a line feed before": b"\n" + head(),
    "a blank before": b" " + head(),
    "a blank line between": head() + b"\r\n" + NEXT,
    "NUL in a value": head("X: a\x00b") + NEXT,
    "NUL in a name": head("X\x00: a") + NEXT,
    "NUL in the target": head(line="GET /x\x00 HTTP/1.1") + NEXT,
    "a control character in a value": head("X: a\x01b") + NEXT,
    "a form feed in a value": head("X: a\x0cb") + NEXT,
    "a vertical tab before a value": head("X:\x0ba") + NEXT,
    "DEL in a value": head("X: a\x7fb") + NEXT,
    "a blank before a colon": head("X : a") + NEXT,
    "a tab before a colon": head("X\t: a") + NEXT,
    "a blank in a name": head("X Y: a") + NEXT,
    "no name": head(": a") + NEXT,
    "no colon": head("X") + NEXT,
    "a bracket in a name": head("X(: a") + NEXT,
    "other letters in a name": head("X\xe4: a") + NEXT,
    "a quote in a name": head('"X": a') + NEXT,
    # request lines
    "two blanks before the target": head(line="GET  /x HTTP/1.1") + NEXT,
    "two blanks before the version": head(line="GET /x  HTTP/1.1") + NEXT,
    "a tab before the target": head(line="GET\t/x HTTP/1.1") + NEXT,
    "a blank at the end": head(line="GET /x HTTP/1.1 ") + NEXT,
    "a blank in the target": head(line="GET /x y HTTP/1.1") + NEXT,
    "no target": head(line="GET HTTP/1.1") + NEXT,
    "an empty target": head(line="GET  HTTP/1.1") + NEXT,
    "no version": head(line="GET /x") + NEXT,
    "HTTP/0.9": b"GET /x\r\n",
    "version 0.9": head(line="GET /x HTTP/0.9") + NEXT,
    "version 1.0": head(line="GET /x HTTP/1.0") + NEXT,
    "version 1.0 without a host": head(line="GET /x HTTP/1.0", host=None) + NEXT,
    "version 1.0 that is to be kept": head("Connection: keep-alive", line="GET /x HTTP/1.0") + NEXT,
    "version 1.0 with a body": post("Content-Length: 5", body=b"hello", line="POST /x HTTP/1.0") + NEXT,
    "version 1.0 with chunks": post(
        "Transfer-Encoding: chunked", body=b"5\r\nhello\r\n0\r\n\r\n", line="POST /x HTTP/1.0"
    ),
    "version 1.0 that expects": post(
        "Expect: 100-continue", "Content-Length: 5", body=b"hello", line="POST /x HTTP/1.0"
    ),
    "version 1.2": head(line="GET /x HTTP/1.2") + NEXT,
    "version 2.0": head(line="GET /x HTTP/2.0") + NEXT,
    "version 9.9": head(line="GET /x HTTP/9.9") + NEXT,
    "version 1.10": head(line="GET /x HTTP/1.10") + NEXT,
    "version 1": head(line="GET /x HTTP/1") + NEXT,
    "version 1,1": head(line="GET /x HTTP/1,1") + NEXT,
    "another protocol": head(line="GET /x ICY/1.1") + NEXT,
    "a protocol in small letters": head(line="GET /x http/1.1") + NEXT,
    "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a handshake of TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "nonsense": b"nonsense\r\n\r\n",
    "nonsense without an end": b"nonsense\r\n",
    "a method in small letters": head(line="get /x HTTP/1.1") + NEXT,
    "a method of nobody": head(line="FOO /x HTTP/1.1") + NEXT,
    "a method with a mark": head(line="M-SEARCH /x HTTP/1.1") + NEXT,
    "a method with a bracket": head(line="G(T /x HTTP/1.1") + NEXT,
    "a CONNECT": head(line="CONNECT a:1 HTTP/1.1") + NEXT,
    "a CONNECT of a path": head(line="CONNECT /x HTTP/1.1") + NEXT,
    "a target with a host": head(line="GET http://b/x HTTP/1.1") + NEXT,
    "a target with a host alone": head(line="GET http://b HTTP/1.1") + NEXT,
    "a target of another scheme": head(line="GET file:///etc/passwd HTTP/1.1") + NEXT,
    "a target of a host and a port": head(line="GET a:80 HTTP/1.1") + NEXT,
    "a target that begins twice": head(line="GET //b/x HTTP/1.1") + NEXT,
    "a target without a slash": head(line="GET x HTTP/1.1") + NEXT,
    "a target that is a query": head(line="GET ?x HTTP/1.1") + NEXT,
    "a target with a fragment": head(line="GET /x#y HTTP/1.1") + NEXT,
    "a target of marks": head(line='GET /<>"{}|\\^`[]@:;,=%zz HTTP/1.1') + NEXT,
    "a target of bytes": head(line="GET /\xe4 HTTP/1.1") + NEXT,
    "a target with DEL": head(line="GET /\x7f HTTP/1.1") + NEXT,
    "a target that escapes what is no text": head(line="GET /%ff%00%0d%0a HTTP/1.1") + NEXT,
    "a target that is long": head(line=f"GET /{'x' * 3000} HTTP/1.1") + NEXT,
    # hosts
    "no host": head(host=None) + NEXT,
    "an empty host": head(host="Host:") + NEXT,
    "two hosts": head("Host: b") + NEXT,
    "a host twice": head("Host: a") + NEXT,
    "two hosts of version 1.0": head("host: b", line="GET /x HTTP/1.0") + NEXT,
    "a list of hosts": head(host="Host: a, b") + NEXT,
    "a host with blanks": head(host="Host: \t a \t ") + NEXT,
    # sizes
    "a head that is too large": head("X: " + "x" * 5000) + NEXT,
    "a head that is far too large": head("X: " + "x" * 200_000) + NEXT,
    "a head without an end": head("X: " + "x" * 5000)[:-4],
    "a head of headers without an end": head(*(["X: x"] * 2000))[:-2],
    "a request line without an end": b"GET /" + b"x" * 5000,
    "a second head that is too large": head() + head("X: " + "x" * 5000),
    # expectations and upgrades
    "a client that expects": post("Expect: 100-continue", "Content-Length: 5", body=b"hello") + NEXT,
    "a client that expects in capitals": post("Expect: 100-CONTINUE", "Content-Length: 5", body=b"hello") + NEXT,
    "a client that expects and waits": post("Expect: 100-continue", "Content-Length: 5"),
    "a client that expects for nothing": head("Expect: 100-continue") + NEXT,
    "a client that expects something else": post("Expect: 200-ok", "Content-Length: 5", body=b"hello") + NEXT,
    "h2c": head(*H2C) + NEXT,
    "h2c with a body": post(*H2C, "Content-Length: 5", body=b"hello") + NEXT,
    "h2c with chunks": chunked(b"5\r\nhello\r\n0\r\n\r\n", *H2C) + NEXT,
    "h2c with a body that is not all there": post(*H2C, "Content-Length: 5", body=b"hell"),
    "h2c behind a request": head() + post(*H2C, "Content-Length: 5", body=b"hello") + NEXT,
    "h2c twice": post(*H2C, "Upgrade: \t h2 ", "Content-Length: 5", body=b"hello") + NEXT,
    "h2c that closes": post("Connection: close, upgrade", "Upgrade: h2c", "Content-Length: 5", body=b"hello") + NEXT,
    "h2c with NUL": post("Connection: Upgrade", "Upgrade: h2c\x00", "Content-Length: 5", body=b"hello") + NEXT,
    "h2c with a blank before the colon": post("Connection: Upgrade", "Upgrade : h2c", "Content-Length: 0") + NEXT,
    "an upgrade without a wish": post("Upgrade: h2c", "Content-Length: 5", body=b"hello") + NEXT,
    "a wish without an upgrade": post("Connection: Upgrade", "Content-Length: 5", body=b"hello") + NEXT,
    "a websocket": head(*WEBSOCKET) + NEXT,
    "a websocket with a body": post(*WEBSOCKET, "Content-Length: 5", body=b"hello") + NEXT,
    # what ends early
    "nothing": b"",
    "one byte": b"G",
    "half a head": head()[:-2],
    "half a second head": head() + NEXT[:-2],
    "half a body": post("Content-Length: 5", body=b"he"),
    "no byte of a body": post("Content-Length: 5"),
    "half a chunk": chunked(b"5\r\nhe"),
    "half a size": chunked(b"5"),
    "half an end": chunked(b"5\r\nhello\r\n0\r\n"),
    "half a body behind a request": head() + post("Content-Length: 5", body=b"he"),
}


# How it comes


def whole(data: bytes) -> Iterable[bytes]:
    return [data] if data else []


def bytewise(data: bytes) -> Iterator[bytes]:
    return (data[place : place + 1] for place in range(len(data)))


def at_random(seed: int) -> Callable[[bytes], Iterator[bytes]]:
    def pieces(data: bytes) -> Iterator[bytes]:
        sizes, place = random.Random(seed), 0
        while place < len(data):
            size = sizes.choice((1, 2, 3, 7, 20, 60, 500, 65_536))
            yield data[place : place + size]
            place += size

    return pieces


# Who answers


class Seen(NamedTuple):
    """One request, as the application sees it."""

    method: str
    path: str
    raw_path: bytes
    query: bytes
    version: str
    headers: list[tuple[bytes, bytes]]
    """By name, since only those of one name have an order."""
    body: bytes | None
    """`None` if the client left before the end of it."""


class Recorder:
    """An application that notes what it sees.

    Args:
        reads: Whether it reads the body before it answers.
        length: Whether its answers have a length.
        status: Of its answers.
    """

    def __init__(self, *, reads: bool = True, length: bool = True, status: int = 200) -> None:
        self.seen: list[Seen] = []
        self._reads = reads
        self._length = [(b"content-length", b"4")] if length else []
        self._status = status

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body: bytes | None = await read(receive) if self._reads else b"not read"
        assert not self._reads or scope.get("extensions", {}).get(WHOLE_BODY, body) == body
        self.seen.append(
            Seen(
                scope["method"],
                scope["path"],
                scope["raw_path"],
                scope["query_string"],
                scope["http_version"],
                sorted(map(comparable, scope["headers"]), key=lambda header: header[0]),
                body,
            )
        )
        await send({"type": "http.response.start", "status": self._status, "headers": self._length})
        await send({"type": "http.response.body", "body": b"do", "more_body": True})
        await send({"type": "http.response.body", "body": b"ne"})


def comparable(header: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
    """A header without what means nothing: h11 writes a coding in small letters."""
    name, value = header
    return name, value.lower() if name == b"transfer-encoding" else value


async def read(receive: Receive) -> bytes | None:
    body = b""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        piece: bytes = message["body"]
        body += piece
        if not message["more_body"]:
            return body


APPS: dict[str, Callable[[], Recorder]] = {
    "reads": Recorder,
    "reads, and streams": lambda: Recorder(length=False),
    "answers at once": lambda: Recorder(reads=False, status=403),
}


# What comes of it


class Wire(asyncio.Transport):
    """A connection to a client that reads everything at once."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__({"socket": sock})
        self.written = b""
        self.is_paused = False
        self.protocol: Any = None
        self.closed_at: float | None = None
        self._is_closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._is_closing:
            self.written += bytes(data)

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self.closed_at = asyncio.get_running_loop().time()
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    abort = close

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def get_write_buffer_size(self) -> int:
        return 0


class Verdict(NamedTuple):
    """What becomes of a client's bytes."""

    answers: list[tuple[int, Any]]
    """The status and the rest, without the words of a refusal."""
    seen: list[Seen]
    lasted: float | None
    """Seconds until the connection was closed, while the client says no more and waits; then it leaves."""


MANY = 100
"""More requests than any example sends at once."""


async def settle() -> None:
    for _ in range(12):
        await asyncio.sleep(0)


async def verdict(reader: str, app: Recorder, pieces: Iterable[bytes], *, slowly: bool = False) -> Verdict:
    make, config = READERS[reader]
    loop = asyncio.get_running_loop()
    with socket.socket() as sock:
        wire, began = Wire(sock), loop.time()
        quiet = {"log_config": None, "date_header": False}
        settings = config(app, LIMITS, interface="asgi3", ws="none", timeout_keep_alive=75, **quiet)
        protocol = wire.protocol = make(settings, ServerState(), {}, loop)
        protocol.connection_made(wire)
        for piece in pieces:
            if slowly:
                await asyncio.sleep(LIMITS.body_patience)  # so that the application is called without the body
            if slowly or wire.is_paused:
                await settle()
            for _ in range(MANY):  # each request that came at once takes turns of its own
                if wire.is_paused:
                    await settle()
            if wire.is_closing():
                break
            assert not wire.is_paused, "although no request is open"
            try:
                protocol.data_received(piece)
            except h11.LocalProtocolError:  # which asyncio makes the end of the connection
                wire.abort()
        await settle()
        await asyncio.sleep(1000)
        lasted = None if wire.closed_at is None else round(wire.closed_at - began)  # the seconds of the deadlines
        if lasted is None:
            protocol.connection_lost(ConnectionResetError())
            await settle()
        return Verdict(answers_in(wire.written), app.seen, lasted)


ANSWER = re.compile(rb"HTTP/1\.1 (\d{3}) [^\r]*(.*?)\r\n\r\n(.*?)(?=HTTP/1\.1 |$)", re.DOTALL)


def answers_in(written: bytes) -> list[tuple[int, Any]]:
    answers: list[tuple[int, Any]] = []
    for status, lines, body in ANSWER.findall(written):
        headers = sorted(line.lower() for line in lines.split(b"\r\n") if line)
        is_refusal = b'"jsonrpc"' in body
        assert not is_refusal or b"connection: close" in headers
        answers.append((int(status), "refused" if is_refusal else (headers, body)))
    return answers


# Where the verdicts differ

STRICTER = {
    "DEL in a value": [400],
    "a control character in a value": [400],
    "a CONNECT": [400],
    "a CONNECT of a path": [400],
    "a length of twenty nines": [400],
    "a list of lengths that are the same": [400],
    "two lengths that are the same": [400],
    "a method in small letters": [400],
    "a method of nobody": [400],
    "a target of a host and a port": [400],
    "a target that is a query": [400],
    "a target without a slash": [400],
    "the coding ' chunked\\t'": [400],
    "the preface of HTTP/2": [400],
    "version 0.9": [400],
    "version 1.2": [400],
    "version 2.0": [400],
    "version 9.9": [400],
    # A body that is not read to its end is the end of the connection: whoever reads it otherwise sees another request.
    "a blank behind a size": [400],
    "a size of 17 digits": [400],
    "a trailer of another length": [400],
    "a trailer that is folded": [400],
    "a trailer with a line feed": [400],
    "an end with a line feed": [400],
    "an extension with NUL": [400],
    "an extension with a lone carriage return": [400],
    "a byte between two requests": [200, 400],  # to h11, it belongs to a method that nobody has
}
"""What httptools refuses and h11 took, with what is answered. No client of MCP sends it, and a guard refuses those
targets behind either."""

OTHERWISE = {
    "a head that is far too large": "the bound holds for a head that comes at once, too; the guard refused it later",
    "a head that is too large": "the same",
    "a second head that is too large": "the same",
    "a request behind one that closes": "what follows is not read; h11 answered 400 instead of what was asked",
    "a request behind one that closes among others": "the same",
    "bytes behind a body that closes": "the same",
    "a request behind a body that closes": "the same",
    "version 1.0": "the same, since it closes",
    "two requests of version 1.0": "the same",
    "version 1.0 that is to be kept": "the same",
    "version 1.0 with a body": "the same",
    "version 1.0 without a host": "the same",
    "half a second head": "the deadline of a head holds for a second one that came with the first, too",
    "a byte behind a body": "the same",
    "a size of 30 zeros": "a size may have as many; h11 stops at twenty digits",
}
"""What differs besides, and why."""


def ways(data: bytes, *, patient: bool = True) -> list[tuple[list[bytes], bool]]:
    """The ways in which it comes, and whether slowly.

    Args:
        data: What comes.
        patient: Whether the application waits for the end of a request; else it must have answered, or not have begun,
            before the next piece comes, since one reader sees an error a byte earlier than the other.
    """
    small = [(list(bytewise(data)), not patient)] if len(data) < 1000 else []
    return [(list(whole(data)), False), *small, *([(list(at_random(len(data))(data)), True)] if patient else [])]


@pytest.mark.requirement("F-250", "F-091")
@pytest.mark.parametrize("name", [name for name in CORPUS if name not in STRICTER and name not in OTHERWISE])
async def test_the_verdict_is_that_of_h11(name: str) -> None:
    for app_name, app in APPS.items():
        for pieces, slowly in ways(CORPUS[name], patient=app_name.startswith("reads")):
            expected = await verdict("h11", app(), pieces, slowly=slowly)
            assert await verdict("httptools", app(), pieces, slowly=slowly) == expected


@pytest.mark.requirement("F-250")
@pytest.mark.parametrize("name", STRICTER)
async def test_what_h11_took_and_httptools_does_not_is_refused_and_nothing_that_follows_is_read(name: str) -> None:
    for pieces, slowly in ways(CORPUS[name]):
        before = await verdict("h11", Recorder(), pieces, slowly=slowly)
        after = await verdict("httptools", Recorder(), pieces, slowly=slowly)
        assert after != before, "the row is no longer needed"
        assert [status for status, _ in after.answers] == STRICTER[name]


@pytest.mark.requirement("F-250")
@pytest.mark.parametrize("name", OTHERWISE)
async def test_what_is_judged_otherwise_than_by_h11_is_so_however_it_comes(name: str) -> None:
    verdicts = [await verdict("httptools", Recorder(), pieces, slowly=slowly) for pieces, slowly in ways(CORPUS[name])]
    assert all(other == verdicts[0] for other in verdicts), OTHERWISE[name]
    oracles = [await verdict("h11", Recorder(), pieces, slowly=slowly) for pieces, slowly in ways(CORPUS[name])]
    assert oracles != verdicts, "the row is no longer needed"


# What nobody thought of

SEEDS = [data for data in CORPUS.values() if 0 < len(data) < 500 and b"0" * 19 not in data]
BITS = [
    b"\r\n",
    b"\r",
    b"\n",
    b" ",
    b"\t",
    b":",
    b";",
    b",",
    b"0",
    b"5",
    b"\x00",
    b"\xff",
    b"chunked",
    b"Content-Length: 5\r\n",
]


@st.composite
def mangled(draw: st.DrawFn) -> bytes:
    """One or two requests of the corpus with some bytes replaced, left out, or put in between."""
    data = b"".join(draw(st.lists(st.sampled_from(SEEDS), min_size=1, max_size=2)))
    for _ in range(draw(st.integers(0, 4))):
        place, gone = draw(st.integers(0, len(data))), draw(st.integers(0, 3))
        data = data[:place] + draw(st.sampled_from([b"", *BITS])) + data[place + gone :]
    return data


@pytest.mark.requirement("F-250")
@settings(max_examples=300, deadline=None)
@given(mangled(), st.integers(0, 1000))
def test_no_request_is_seen_that_h11_does_not_see_and_none_otherwise(data: bytes, seed: int) -> None:
    async def judge() -> tuple[Verdict, Verdict, Verdict]:
        pieces = at_random(seed)
        return (
            await verdict("h11", Recorder(), whole(data)),
            await verdict("httptools", Recorder(), whole(data)),
            await verdict("httptools", Recorder(), pieces(data), slowly=bool(seed % 2)),
        )

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        expected, at_once, in_pieces = runner.run(judge())
    assert at_once == in_pieces
    assert len(at_once.seen) <= len(expected.seen)
    for ours, theirs in zip(at_once.seen, expected.seen, strict=False):
        assert ours == theirs or (ours.body is None and ours is at_once.seen[-1])


# Who leaves


class Leaving:
    """An application that waits, and can be told that its client left."""

    def __init__(self, *, answers: bool = False, removes: bool = False) -> None:
        self.told: list[str] = []
        self.departure: asyncio.Future[None]
        self._answers = answers
        self._removes = removes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.departure = scope["extensions"][DISCONNECT]
        self.departure.add_done_callback(self.note)
        if self._removes:
            self.departure.remove_done_callback(self.note)
        if self._answers:
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body"})
        else:
            await read(receive)
            await receive()

    def note(self, _: asyncio.Future[None]) -> None:
        self.told.append("left")


async def leave(app: Leaving) -> None:
    with socket.socket() as sock:
        wire = Wire(sock)
        settings = ConnectionConfig(app, LIMITS, interface="asgi3", ws="none", log_config=None)
        wire.protocol = HttpConnection(settings, ServerState(), {}, asyncio.get_running_loop())
        wire.protocol.connection_made(wire)
        wire.protocol.data_received(head())
        await settle()
        wire.protocol.connection_lost(None)


async def test_an_application_is_told_that_its_client_left_without_a_task_that_waits() -> None:
    app = Leaving()
    await leave(app)
    await settle()
    assert app.told == ["left"]


@pytest.mark.parametrize("app", [Leaving(answers=True), Leaving(removes=True)], ids=["answered", "removed"])
async def test_an_application_that_has_answered_or_does_not_want_to_know_is_told_nothing(app: Leaving) -> None:
    await leave(app)
    await settle()
    assert app.told == []


@pytest.mark.parametrize(("size", "expected"), [(0, [0, 0]), (1_000, [1_000, 1_000]), (200_000, [])])
async def test_a_body_that_is_kept_while_its_connection_is_idle_is_small(size: int, expected: list[int]) -> None:
    kept: list[int] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        kept.extend(len(body) for name, body in scope["extensions"].items() if name == WHOLE_BODY)
        assert len(await read(receive) or b"") == size
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})

    with socket.socket() as sock:
        wire = Wire(sock)
        settings = ConnectionConfig(app, LIMITS, interface="asgi3", ws="none", log_config=None)
        wire.protocol = HttpConnection(settings, ServerState(), {}, asyncio.get_running_loop())
        wire.protocol.connection_made(wire)
        for _ in range(3):
            wire.protocol.data_received(post(f"Content-Length: {size}", body=b"x" * size))
            await settle()
        wire.protocol.connection_lost(None)
    assert kept == expected
    assert wire.written.count(b"HTTP/1.1 200") == 3


async def test_the_date_of_an_answer_is_that_of_its_second(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter((0.0, 0.9, 1.0))
    monkeypatch.setattr(time, "time", lambda: next(seconds))
    settings = ConnectionConfig(Leaving(), LIMITS)
    dates = [settings.date() for _ in range(3)]
    assert [dict(date)[b"date"] for date in dates] == [
        b"Thu, 01 Jan 1970 00:00:0%d GMT" % second for second in (0, 0, 1)
    ]


class Called:
    """An application that notes what of a request is there when it is called, and refuses."""

    def __init__(self) -> None:
        self.with_body: list[bool] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.with_body.append(BODY_ARRIVED in scope["extensions"])
        await send({"type": "http.response.start", "status": 401, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})


@asynccontextmanager
async def called(app: Called) -> AsyncGenerator[Wire]:
    """A connection to it."""
    with socket.socket() as sock:
        wire = Wire(sock)
        settings = ConnectionConfig(app, LIMITS, interface="asgi3", ws="none", log_config=None)
        wire.protocol = HttpConnection(settings, ServerState(), {}, asyncio.get_running_loop())
        wire.protocol.connection_made(wire)
        yield wire
        wire.protocol.connection_lost(None)


async def test_an_application_is_called_once_a_small_body_has_come_in_whichever_pieces() -> None:
    app = Called()
    request = post("Content-Length: 5", body=b"hello")
    async with called(app) as wire:
        for pieces in ([request[:-5], request[-5:]], [request[:-3], request[-3:-1], request[-1:]], [request]) * 2:
            for piece in pieces:
                wire.protocol.data_received(piece)
                await settle()
    assert app.with_body == [True] * 6
    assert wire.written.count(b"HTTP/1.1 401") == 6


async def test_a_head_whose_body_does_not_come_or_is_large_is_answered_without_it() -> None:
    app, patience = Called(), LIMITS.body_patience
    loop = asyncio.get_running_loop()
    for size, expected in ((5, pytest.approx(patience)), (1_000_000, 0)):
        async with called(app) as wire:
            for _ in range(2):  # a new head, and one that is known
                began = loop.time()
                wire.protocol.data_received(post(f"Content-Length: {size}"))
                await settle()
                if size == 5:
                    assert not wire.written.endswith(b"\r\n\r\n"), "before the patience is over"
                    await asyncio.sleep(patience)
                    await settle()
                assert loop.time() - began == expected
                assert wire.written.endswith(b"\r\n\r\n")
                wire.written = b""
                for _ in range(5):
                    wire.protocol.data_received(b"x" * (size // 5))
                await settle()
    assert app.with_body == [False] * 4
