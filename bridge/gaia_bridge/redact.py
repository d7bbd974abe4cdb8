"""Takes secrets out of text that goes to a log, a file or a status (S-36, F-112). Pure, and linear in the text.

Two ways to know a secret: by value, because the configuration gave it to the server whose words these are; and by
shape, because well-known services give their tokens a form of their own. It cannot be complete, and nothing relies on
it alone: payloads are not logged in the first place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

__all__ = ["MASK", "LineRedactor", "Redactor", "redacted"]

MASK: Final = "***"

_MIN_LENGTH: Final = 6
"""Characters of the shortest value that counts as a secret: shorter ones are in every text."""

_LONGEST: Final = 4096
"""Characters of a token that are looked for: bounds the work for each place where one may begin."""

_TOKEN: Final = rf"[A-Za-z0-9._~+/=-]{{8,{_LONGEST}}}"

_KEY_BEGIN: Final = r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----"
_KEY_END: Final = r"-----END [A-Z ]{0,40}PRIVATE KEY-----"
_KEY_OPEN: Final = re.compile(rf"{_KEY_BEGIN}(?:[^-]++|-(?!----))*+\Z")
_KEY_LINE: Final = re.compile(r"\s*+(?:[A-Za-z0-9+/=]*+|[A-Za-z-]{1,40}:.*+)\s*+\Z")
"""What follows the first line of a private key: its text, or (RFC 1421) a header."""

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
_BEFORE: Final = (
    r"(?i:\b(?:bearer|basic|digest)\s{1,8})(?=" + _TOKEN + r")",
    r"(?<=://)(?=[^\s/@]{1,512}@)",  # user and password of a URL
    r"(?i:\b(?:set-)?cookie\s{0,8}[:=]\s{0,8})",
    r"(?i:(?:api[_-]?key|access[_-]?key|secret|token|passw(?:or)?d|passphrase|authorization|credential)s?"
    r"[\"']?\s{0,8}[:=]\s{0,8}[\"']?(?:(?:bearer|basic)\s{1,8})?)",
)
_VALUES: Final = (_TOKEN, r"[^\s/@]{1,512}(?=@)", r"[^\r\n]{1,4096}", r"[^\s\"'&,;)\]}]{3,4096}")

_BY_SHAPE: Final = re.compile("|".join(_SHAPES))
_BY_PLACE: Final = tuple(re.compile(f"({before})({value})") for before, value in zip(_BEFORE, _VALUES, strict=True))


class Redactor:
    """Takes out certain secrets, and whatever has the shape of one.

    Args:
        secrets: Values, as they were handed out; those that are too short to tell are left in.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        # The longest first: one may be the beginning of another.
        # A secret of several lines is often shown line by line.
        parts = {part for secret in secrets for part in (secret, *secret.splitlines())}
        self._known = sorted((part for part in parts if len(part) >= _MIN_LENGTH), key=len, reverse=True)

    def __call__(self, text: str) -> str:
        """The text with every secret replaced by `MASK`."""
        for secret in self._known:  # one pattern of them all would take seconds to compile where one is large
            text = text.replace(secret, MASK)
        text = _BY_SHAPE.sub(MASK, text)
        for pattern in _BY_PLACE:
            text = pattern.sub(rf"\g<1>{MASK}", text)
        return text


class LineRedactor:
    """Takes secrets out of text that comes line by line, where a private key spans many.

    Args:
        redactor: What it takes out of each.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redacted = redactor
        self._in_key = False

    def __call__(self, line: str) -> str:
        """The line with every secret replaced by `MASK`; empty if it continues a private key."""
        if self._in_key:
            self._in_key = _KEY_LINE.match(line) is not None
            if self._in_key or re.search(_KEY_END, line):
                return ""
        self._in_key = _KEY_OPEN.search(line) is not None
        return self._redacted(line)


def redacted(text: str, secrets: Iterable[str] = ()) -> str:
    """The text without secrets; see `Redactor`, which is cheaper where there is more than one text.

    Args:
        text: Text of any origin.
        secrets: Values that must not show.
    """
    return Redactor(secrets)(text)
