"""What a server says of its refusal reaches whoever asked: short, harmless, and without pages for browsers."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia_bridge.client.transports.http.refusals import words_in
from tests.servers.evil_http import Exchange, evil_http
from tests.support.http_links import LEGACY, MODERN, failure_of, linked

PAGE = b"<!doctype html><html><head><title>\n Over &amp; out </title></head><body><p>x</p></body></html>"


@pytest.mark.parametrize(
    ("kind", "body", "words"),
    [
        ("text/plain", b"Too many requests.\nPlan: free", "Too many requests.\nPlan: free"),
        ("", b"no kind", "no kind"),
        ("application/json", b'{"detail": "quota exceeded"}', "quota exceeded"),
        ("application/json", b'{"detail": [{"loc": ["a"], "msg": "Field required"}]}', "Field required"),
        ("application/json", b'{"error": "forbidden for this plan"}', "forbidden for this plan"),
        ("application/json", b'{"error": "invalid_token", "error_description": "it expired"}', "it expired"),
        ("application/json", b'{"error": {"message": "no credit", "type": "billing"}}', "no credit"),
        ("application/json", b'{"errors": [{"message": "one"}, {"message": "two"}]}', "one; two"),
        ("application/problem+json", b'{"title": "Out of credit", "status": 403}', "Out of credit"),
        ("application/json", b'{"code": 7}', '{"code": 7}'),
        ("application/json", b"no json", "no json"),
        ("application/json", b'"just text"', "just text"),
        ("text/plain", b'{"message": "json all the same"}', "json all the same"),
        ("text/html", PAGE, "Over & out"),
        ("text/plain", PAGE, "Over & out"),
        ("text/html", b"<html>maintenance</html>", ""),
        ("application/octet-stream", b"\x00\x01", ""),
        ("image/png", b"\x89PNG", ""),
        ("application/json", b"", ""),
    ],
)
def test_a_body_says_in_words(kind: str, body: bytes, words: str) -> None:
    assert words_in(kind, body) == words


@given(st.sampled_from(["application/json", "text/html", "text/plain", ""]), st.binary())
def test_any_body_has_words_or_none(kind: str, body: bytes) -> None:
    assert isinstance(words_in(kind, body), str)


@pytest.mark.anyio
@pytest.mark.parametrize("revision", [LEGACY, MODERN])
async def test_a_refusal_repeats_what_the_server_says_short_and_on_one_line(revision: str) -> None:
    async def refuse(exchange: Exchange) -> None:
        await exchange.answer(b"first\x1b[31m\nsecond \xe2\x80\xae" + b"x" * 100_000, 409, "text/plain")

    async with evil_http() as server, linked(server.url("refuse"), revision=revision) as link:
        server.faults["refuse"] = refuse
        said = await failure_of(link)
    assert said.startswith("answered with HTTP 409 (Conflict): first [31m second xxx")
    assert len(said) < 400


@pytest.mark.anyio
async def test_the_words_of_a_challenge_are_told_and_a_secret_of_ours_is_not() -> None:
    async def refuse(exchange: Exchange) -> None:
        challenge = 'Bearer error="insufficient_scope", error_description="needs more", scope="files:write"'
        body = json.dumps({"message": messages.pop()}).encode()
        await exchange.answer(body, 403, headers={"www-authenticate": challenge})

    async with (
        evil_http() as server,
        linked(server.url("refuse"), headers={"x-key": "hunter22hunter22"}) as link,
    ):
        server.faults["refuse"] = refuse
        messages = ["needs more, such as this", "denied to hunter22hunter22"]
        said = await failure_of(link)
        assert said == "answered with HTTP 403 (Forbidden): needs more; scope: files:write; denied to ***"
        said = await failure_of(link)  # the body begins with the words of the challenge
    assert said == "answered with HTTP 403 (Forbidden): scope: files:write; needs more, such as this"


@pytest.mark.anyio
async def test_the_words_of_a_challenge_that_the_body_has_too_are_shown_once() -> None:
    async def refuse(exchange: Exchange) -> None:
        challenge = 'Bearer error="invalid_token", error_description="Another token came"'
        body = b'{"error_description": "Another token came; send \'Authorization: Bearer TOKEN\'."}'
        await exchange.answer(body, 401, headers={"www-authenticate": challenge})

    async with evil_http() as server, linked(server.url("refuse")) as link:
        server.faults["refuse"] = refuse
        said = await failure_of(link)
    assert said.endswith("(HTTP 401): Another token came; send 'Authorization: Bearer TOKEN'.")


@pytest.mark.anyio
async def test_a_body_that_does_not_end_is_not_waited_for() -> None:
    async def refuse(exchange: Exchange) -> None:
        await exchange.raw(b"HTTP/1.1 500 x\r\ncontent-type: text/plain\r\ncontent-length: 100\r\n\r\nso far")
        await exchange.until_closed()

    async with evil_http() as server, linked(server.url("refuse")) as link:
        server.faults["refuse"] = refuse
        assert await failure_of(link) == "answered with HTTP 500 (Internal Server Error): so far"
