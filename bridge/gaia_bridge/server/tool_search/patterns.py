"""Regular expressions that a model wrote: matched in time linear in the text, and explained where they are none.

The engine is the one behind JSON Schema's `pattern`, which does not backtrack. Python's own, which can be kept
busy for hours with thirty characters, only says what is wrong with a pattern that the engine refused.
"""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import jsonschema_rs

MAX_PATTERN: Final = 500
"""Characters of a pattern: some forty tool names with `|` between them."""

_COMPILED: Final = 128 * 1024
"""Bytes of a compiled pattern, with which its cost per character of text grows; most have a few hundred."""

_STATES: Final = 1024 * 1024
"""Bytes of what the engine remembers while it matches."""


class PatternError(ValueError):
    """A pattern that cannot be used; says why."""


class Pattern:
    """A compiled pattern. It is looked for anywhere in a text, and case does not matter.

    Args:
        text: The pattern, as for Python's `re`, without look-around and back references.

    Raises:
        PatternError: It is none, or more than is allowed.
    """

    def __init__(self, text: str) -> None:
        if len(text) > MAX_PATTERN:
            raise PatternError(f"the pattern has {len(text):,} characters; at most {MAX_PATTERN} are allowed")
        try:
            self._validator = _compiled(text)
        except ValueError:
            raise PatternError(_explanation(text)) from None

    def matches(self, text: str) -> bool:
        """Whether the pattern is found in a text."""
        try:
            return self._validator.is_valid(text)
        except ValueError:  # lone surrogates, of which the engine knows nothing
            return self._validator.is_valid(text.encode("utf-8", "replace").decode("utf-8"))


def _compiled(text: str) -> jsonschema_rs.Validator:
    """A validator that takes the texts in which the pattern is found.

    Raises:
        ValueError: The engine refuses the pattern.
    """
    import jsonschema_rs

    options = jsonschema_rs.RegexOptions(size_limit=_COMPILED, dfa_size_limit=_STATES)
    return jsonschema_rs.validator_for({"pattern": f"(?i){text}"}, pattern_options=options)


def _explanation(text: str) -> str:
    """Why the engine refused a pattern."""
    try:
        with warnings.catch_warnings():  # of what a later Python would make of it
            warnings.simplefilter("ignore")
            re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        return f"the pattern is no regular expression: {error}"
    return (
        "the pattern uses something that is not supported here: look-around such as (?=x), back references such as \\1,"
        " \\Z, comments, a { without a backslash that begins no repetition, or repetitions that multiply"
    )
