"""Removes secrets from text that goes to a log, a file or a status. Pure, and linear in the text.

A secret is recognized by value, where the configuration gave it to the server that wrote the text; and by shape, since
well-known services give their tokens a form of their own. This cannot be complete, and nothing relies on it alone:
payloads are not logged in the first place.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator
from typing import Any, Final
from urllib.parse import quote, quote_plus

from gaia_bridge.text.json_types import is_array, is_object

MASK: Final = "***"

_MIN_LENGTH: Final = 6
"""The fewest characters of a value that counts as a secret: shorter ones occur in every text."""

_URL_SAFE: Final = str.maketrans("+/", "-_")
"""From Base64 to its form for URLs (RFC 4648, section 5)."""

_LONGEST: Final = 4096
"""The most characters of a token that a pattern matches: bounds the work at each place where a token may begin."""

_TOKEN: Final = rf"[A-Za-z0-9._~+/=-]{{8,{_LONGEST}}}"

_KEY_BEGIN: Final = r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----"
_KEY_END: Final = r"-----END [A-Z ]{0,40}PRIVATE KEY-----"
_KEY_OPEN: Final = re.compile(rf"{_KEY_BEGIN}(?:[^-]++|-(?!----))*+\Z")
_KEY_LINE: Final = re.compile(r"\s*+(?:[A-Za-z0-9+/=]*+|[A-Za-z-]{1,40}:.*+)\s*+\Z")
"""A further line of a private key: its text, or (RFC 1421) a header."""

_SHAPES: Final = (
    # Whole private keys, also when the end was cut off.
    rf"{_KEY_BEGIN}(?:[^-]++|-(?!----))*+(?:{_KEY_END})?",
    r"\beyJ[A-Za-z0-9_-]{5,4096}\.[A-Za-z0-9_-]{2,4096}(?:\.[A-Za-z0-9_-]{0,4096}){0,3}",  # JSON Web Token
    r"\b(?:gh[opsur]_[A-Za-z0-9]{16,255}|github_pat_[A-Za-z0-9_]{20,255}|glpat-[A-Za-z0-9_-]{16,255})",
    r"\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{12,255}",  # OpenAI, Anthropic, Stripe
    r"\bxox[abeoprs]-[A-Za-z0-9-]{8,255}|\bxapp-[A-Za-z0-9-]{8,255}",  # Slack
    r"\b(?:AKIA|ASIA|AGPA|AIDA|AROA)[A-Z0-9]{16}\b",  # AWS
    r"\bAIza[A-Za-z0-9_-]{30,64}|\bya29\.[A-Za-z0-9_-]{16,512}",  # Google
    r"\b(?:hf_|npm_|pypi-|dop_v1_|SG\.)[A-Za-z0-9._-]{16,512}",
)
_SECRET_NAME: Final = r"(?:api[_-]?key|access[_-]?key|secret|token|passw(?:or)?d|passphrase|authorization|credential)s?"
_NO_PLACEHOLDER: Final = (
    rf"(?!(?:\$\{{(?:[a-z]{{1,20}}:)?[^\s}}:]{{1,200}}\}}|(?:[A-Z]{{1,40}}_){{0,8}}{_SECRET_NAME.upper()})"
    r"(?![^\s\"'&,;)\]}]))"
)
"""Not before a placeholder, which is no secret: a reference without a default, or the name of a secret in capitals
(`TOKEN`, `GITHUB_TOKEN`)."""

_BEFORE: Final = (
    r"(?i:\b(?:bearer|basic|digest)\s{1,8})(?=" + _TOKEN + r")" + _NO_PLACEHOLDER,
    r"(?<=://)(?=[^\s/@]{1,512}@)",  # user and password of a URL
    r"(?i:\b(?:set-)?cookie\s{0,8}[:=]\s{0,8})",
    rf"(?i:{_SECRET_NAME}[\"']?\s{{0,8}}[:=]\s{{0,8}}[\"']?(?:(?:bearer|basic)\s{{1,8}})?+)" + _NO_PLACEHOLDER,
)
_VALUES: Final = (_TOKEN, r"[^\s/@]{1,512}(?=@)", r"[^\r\n]{1,4096}", r"[^\s\"'&,;)\]}]{3,4096}")

_BY_SHAPE: Final = re.compile("|".join(_SHAPES))
_BY_PLACE: Final = tuple(re.compile(f"({before})({value})") for before, value in zip(_BEFORE, _VALUES, strict=True))


class Redactor:
    """Replaces certain secrets, and all that has the shape of a secret, by `MASK`.

    Args:
        secrets: Values as they were handed out; those that are too short are ignored. They are also recognized when
            encoded for URLs, JSON or Base64.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        # The longest first: one may be the beginning of another.
        # A secret of several lines is often shown line by line.
        secrets = [secret for secret in secrets if len(secret) >= _MIN_LENGTH]
        parts = {part for secret in secrets for part in secret.splitlines() if len(part) >= _MIN_LENGTH}
        encoded = {form for secret in secrets for form in _encoded(secret)}
        self._secrets = sorted({*secrets, *parts, *encoded}, key=len, reverse=True)

    def and_also(self, secrets: Iterable[str]) -> Redactor:
        """Return a redactor of these and further secrets."""
        both = Redactor(secrets)
        both._secrets = sorted({*self._secrets, *both._secrets}, key=len, reverse=True)
        return both

    def __call__(self, text: str) -> str:
        """Replace every secret in a text by `MASK`."""
        text = _BY_SHAPE.sub(MASK, self.without_known(text))
        for pattern in _BY_PLACE:
            text = pattern.sub(rf"\g<1>{MASK}", text)
        return text

    def without_known(self, text: str) -> str:
        """Replace the secrets that are known by value, plain or encoded."""
        for secret in self._secrets:  # one pattern of them all would take seconds to compile where one is large
            text = text.replace(secret, MASK)
        return text

    def without_known_in(self, value: Any) -> Any:
        """Replace the secrets known by value in all texts of a JSON value; without secrets, nothing is copied."""
        if not self._secrets:
            return value
        if isinstance(value, str):
            return self.without_known(value)
        if is_object(value):
            return {key: self.without_known_in(item) for key, item in value.items()}
        return [self.without_known_in(item) for item in value] if is_array(value) else value


class LineRedactor:
    """Removes secrets from text that comes line by line, where a private key spans many lines."""

    def __init__(self, redactor: Redactor) -> None:
        self._redacted = redactor
        self._in_key = False

    def __call__(self, line: str) -> str:
        """Replace every secret in a line by `MASK`; return an empty line if it continues a private key."""
        if self._in_key:
            self._in_key = _KEY_LINE.match(line) is not None
            if self._in_key or re.search(_KEY_END, line):
                return ""
        self._in_key = _KEY_OPEN.search(line) is not None
        return self._redacted(line)


def _encoded(secret: str) -> Iterator[str]:
    """Yield the forms of a value in a URL, in JSON, and in Base64, alone or behind other text (`user:secret`)."""
    data = secret.encode("utf-8", "surrogatepass")
    for quoted in (quote(data, safe=""), quote(data), quote_plus(data)):
        yield quoted
        yield re.sub("%..", lambda match: match[0].lower(), quoted)
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    for before in range(3):  # three bytes are four characters: where the secret begins among them makes three forms
        whole = b64encode(b"\0" * before + data).decode().rstrip("=")
        inner = whole[(4 * before + 2) // 3 : (before + len(data)) * 8 // 6]
        if len(inner) >= _MIN_LENGTH:
            yield inner
            yield inner.translate(_URL_SAFE)


def redacted(text: str, secrets: Iterable[str] = ()) -> str:
    """Replace all secrets in a text; see `Redactor`, which is cheaper for more than one text.

    Args:
        secrets: Values that must not appear.
    """
    return Redactor(secrets)(text)
