"""Secrets do not show, by value or by shape, and other text is left alone."""

from __future__ import annotations

import json
import secrets
import string
from base64 import b64encode, urlsafe_b64encode
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia_bridge.text.redaction import MASK, LineRedactor, Redactor, redacted


def made(length: int, alphabet: str = string.ascii_letters + string.digits) -> str:
    """A secret that is in no file."""
    return "".join(secrets.choice(alphabet) for _ in range(length))


@pytest.mark.requirement("F-112", "S-36")
@pytest.mark.parametrize(
    "before",
    [
        "Authorization: Bearer ",
        "authorization=Basic ",
        "GET /x?access_token=",
        "api_key: ",
        "apiKey='",
        "MY_API_KEY=",
        '{"password": "',
        '"client_secret":"',
        "token=",
        "passphrase: ",
        "token=TOKEN",
        "Cookie: session=",
        "Set-Cookie: id=",
        "https://user:",
        "postgresql://admin:",
        "sk-",
        "sk-ant-api03-",
        "ghp_",
        "github_pat_",
        "glpat-",
        "xoxb-",
        "hf_",
        "npm_",
        "AIza",
        "ya29.",
    ],
)
def test_a_secret_is_known_by_its_shape_or_its_place(before: str) -> None:
    secret = made(36)
    shown = redacted(f"error: {before}{secret}@host.example in line 7")
    assert secret not in shown
    assert MASK in shown
    assert shown.startswith("error: ")


def test_keys_of_aws_and_tokens_of_the_web_are_known() -> None:
    key = "AKIA" + made(16, string.ascii_uppercase + string.digits)
    token = f"eyJ{made(20)}.eyJ{made(30)}.{made(40)}"
    assert redacted(f"used {key} with {token}, failed") == f"used {MASK} with {MASK}, failed"


@pytest.mark.requirement("F-112", "S-36")
@pytest.mark.parametrize("end", ["\n-----END RSA PRIVATE KEY-----", ""])
def test_a_private_key_is_taken_out_whole_even_if_its_end_is_missing(end: str) -> None:
    body = "\n".join(made(64) for _ in range(10))
    assert redacted(f"read -----BEGIN RSA PRIVATE KEY-----\n{body}{end}") == f"read {MASK}"


@pytest.mark.requirement("F-112", "S-36")
@pytest.mark.parametrize("lines", [1, 400])
def test_a_private_key_of_any_length_is_taken_out_and_what_follows_stays(lines: int) -> None:
    body = "".join(f"{made(64)}\n" for _ in range(lines))
    key = f"-----BEGIN PRIVATE KEY-----\n{body}-----END PRIVATE KEY-----\n"
    assert redacted(f"{key}next\n") == f"{MASK}\nnext\n"


@pytest.mark.parametrize("header", ["", "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,0011\n\n"])
def test_a_private_key_that_comes_line_by_line_does_not_show(header: str) -> None:
    body = "".join(f"{made(64)}\n" for _ in range(50))
    text = f"before\n-----BEGIN RSA PRIVATE KEY-----\n{header}{body}AAAA\n-----END RSA PRIVATE KEY-----\nafter"
    shown = LineRedactor(Redactor())
    assert [line for line in map(shown, text.splitlines()) if line] == ["before", MASK, "after"]


def test_text_after_a_private_key_that_was_cut_off_is_shown() -> None:
    shown = LineRedactor(Redactor())
    lines = ["-----BEGIN PRIVATE KEY-----", made(64), "and then it went on", made(64)]
    assert [shown(line) for line in lines] == [MASK, "", lines[2], lines[3]]


def test_each_line_of_a_secret_is_a_secret() -> None:
    assert redacted("one: first line, two: second line", ["first line\nsecond line"]) == f"one: {MASK}, two: {MASK}"


@pytest.mark.requirement("F-112", "S-36")
@given(st.text(min_size=6), st.text(), st.text())
def test_a_value_that_is_known_to_be_secret_never_shows(secret: str, before: str, after: str) -> None:
    shown = redacted(f"{before}{secret}{after}", [secret])
    if MASK not in secret:
        assert secret not in shown.split(MASK)


def test_the_longer_of_two_secrets_is_taken_out_whole() -> None:
    assert redacted("abcdef-and-more", ["abcdef", "abcdef-and-more"]) == MASK


@pytest.mark.requirement("F-112", "S-36")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "the token count is 5",
        "bearer of good news",
        "listening on http://127.0.0.1:8765/mcp",
        "mail to ada@example.com",
        "key: value",
        "npx -y @modelcontextprotocol/server-everything",
        "short",
        "expected exactly one, 'Authorization: Bearer TOKEN' (one in the URL does not count)",
        "set Authorization: Bearer TOKEN",
        "Authorization: Bearer TOKEN",
        "gaia-bridge add a URL --header 'Authorization:Bearer ${file:~/.gaia/bridge-token}'",
        '{"token": "${env:MY_TOKEN}", "password": "${DATABASE_PASSWORD}"}',
        "Authorization: Bearer YOUR_API_KEY",
        "no token: GITHUB_TOKEN is not set",
    ],
)
def test_text_without_secrets_stays_as_it_is(text: str) -> None:
    assert redacted(text, ["short"[:5]]) == text


@pytest.mark.parametrize(
    "secret", ["TOKENIZED", "TOKEN.abc", "TOKEN-1234567", "token", "MY_TOKEN2", "MYTOKENS_", "${env:TOKEN:-abc}"]
)
def test_a_secret_that_begins_like_a_placeholder_is_masked(secret: str) -> None:
    assert redacted(f"'Authorization: Bearer {secret}'").strip("}'") == f"Authorization: Bearer {MASK}"


PLAIN_WORDS = st.sampled_from(
    ["the", "server", "says", "no:", "7", "(again)", "ümlaut", "a/b", "x=y", "\n", "1e999", "-"]
)
PLACES = st.sampled_from(["password: ", "https://me:", "Authorization: Bearer ", '{"token": "', "sk-", "--"])


@pytest.mark.requirement("F-112", "S-36")
@given(st.lists(PLAIN_WORDS))
def test_any_text_without_a_secret_is_unchanged(words: list[str]) -> None:
    text = " ".join(words)
    assert redacted(text, ["correct horse battery"]) == text


@pytest.mark.requirement("F-112", "S-36")
@given(st.data(), st.lists(st.text(string.ascii_letters, min_size=6, max_size=40), min_size=1, max_size=4))
def test_none_of_many_secrets_survives_wherever_it_stands(data: st.DataObject, known: list[str]) -> None:
    pieces = data.draw(st.lists(PLAIN_WORDS | PLACES | st.sampled_from(known), min_size=1))
    shown = redacted("".join(pieces), known)
    assert not [secret for secret in known if secret in shown]
    assert redacted(shown, known) == shown


@pytest.mark.requirement("F-112", "S-36")
def test_a_very_long_secret_costs_no_time() -> None:
    secret = "x" * 5_000_000
    assert redacted(f"key {secret}!", [secret]) == f"key {MASK}!"


@pytest.mark.requirement("F-266", "S-36")
@given(st.text(min_size=8), st.binary(max_size=9), st.binary(max_size=9))
def test_a_value_that_is_known_to_be_secret_does_not_show_encoded(secret: str, before: bytes, after: bytes) -> None:
    """Of Base64, the characters at both ends may hold a few bits of it, and no more."""
    redact = Redactor([secret]).without_known
    for quoted in (quote(secret, safe=""), quote(secret), quote_plus(secret)):
        assert redact(f"https://x/?key={quoted}&y") == f"https://x/?key={MASK}&y"
    assert json.loads(f'"{redact(json.dumps(secret)[1:-1])}"') == MASK
    for encode in (b64encode, urlsafe_b64encode):
        whole = encode(before + secret.encode() + after).decode()
        shown = redact(whole)
        assert MASK in shown
        assert len(shown) - len(MASK) <= len(whole) - len(secret.encode()) * 8 // 6 + 3


@pytest.mark.requirement("F-266")
def test_the_texts_of_a_json_value_are_redacted_by_value_alone() -> None:
    value = {"a": ["x s3cr3t-value", 1, None, {"token": "sk-abcdefghijklmnop"}], "s3cr3t-value": True}
    expected = {"a": [f"x {MASK}", 1, None, {"token": "sk-abcdefghijklmnop"}], "s3cr3t-value": True}
    assert Redactor(["s3cr3t-value"]).without_known_in(value) == expected
    assert Redactor().without_known_in(value) is value
