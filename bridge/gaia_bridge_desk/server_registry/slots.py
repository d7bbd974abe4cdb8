"""Places of a launch line that are filled in: the values to ask a user for, and the resulting texts. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gaia_bridge_desk.server_registry.documents import Input, Scalar

_VARIABLE: Final = re.compile(r"\{([^{}]{1,200})\}")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")

Answers = Mapping[str, Sequence[str]]
"""The user's values, by their names; more than one where a value may be repeated."""


class AnswersError(ValueError):
    """Values that contradict each other; the text says which."""


class Asked(Struct, frozen=True):
    """A value that a user is asked for.

    Args:
        name: The value's name; the same name is the same value, wherever it stands.
        about: The author's description.
        required: Whether there must be a value.
        repeated: Whether there may be several.
    """

    name: str
    about: Input
    required: bool
    repeated: bool = False

    @property
    def default(self) -> str | None:
        """The value if the user gives none. A default with a reference to another value is at most an example."""
        text = None if self.about.default is None else plain(self.about.default)
        return text or None if text is None or "${" not in text else None


class Slot(Struct, frozen=True):
    """A place, made of texts and of values to ask for.

    Args:
        parts: The parts, one after the other.
        repeated: Whether the place may occur several times.
    """

    parts: tuple[str | Asked, ...]
    repeated: bool = False

    @property
    def asked(self) -> list[Asked]:
        """The values to ask for."""
        return [part for part in self.parts if isinstance(part, Asked)]

    def values(self, answers: Answers, kept: Callable[[Asked, str], str]) -> list[str]:
        """Return the texts for the place: none if a part has no value.

        Args:
            answers: The values.
            kept: Returns the text to write in the place of a value.

        Raises:
            AnswersError: The parts have different numbers of values, or a place that is not repeated has several.
        """
        counts = {part.name: len(answers.get(part.name, ())) for part in self.asked}
        most = max(counts.values(), default=1)
        if 0 in counts.values():
            return []
        for name, count in counts.items():
            if count not in (1, most) or (most > 1 and not self.repeated):
                expected = f"1 or {most} of them" if self.repeated else "one"
                raise AnswersError(f"{name!r} has {count} values; expected {expected}")
        return [self._once(answers, number, kept) for number in range(most)]

    def _once(self, answers: Answers, number: int, kept: Callable[[Asked, str], str]) -> str:
        texts: list[str] = []
        for part in self.parts:
            if isinstance(part, str):
                texts.append(part)
            else:
                values = answers[part.name]
                texts.append(kept(part, values[number if len(values) > 1 else 0]))
        return "".join(texts)


def plain(value: Scalar) -> str:
    """Return a value as text: `true` and `false`, and numbers as decimals."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def slot_of(name: str, about: Input, *, repeated: bool = False, open_names: bool = False) -> Slot:
    """Return the place that an input describes.

    Args:
        name: The name to ask a user for if the input has no value.
        about: The input.
        repeated: Whether the place may occur several times.
        open_names: Whether every `{name}` is asked for; if not, those that are not in `variables` stay as they are.
    """
    if about.value is None:
        return Slot((Asked(name, about, about.is_required, repeated),), repeated)
    parts: list[str | Asked] = []
    for number, text in enumerate(_VARIABLE.split(plain(about.value))):
        if number % 2 == 0:
            parts.append(text)
            continue
        unknown = Input(is_required=True) if open_names and _NAME.fullmatch(text) else None
        inner = about.variables.get(text, unknown)
        if inner is None or (parts and str(parts[-1]).endswith("$")):  # `${...}` is a reference of ours
            parts.append(f"{{{text}}}")
        elif inner.value is not None:
            parts.append(plain(inner.value))
        else:
            required = inner.is_required or (about.is_required and inner.default is None)
            parts.append(Asked(text, inner, required, repeated))
    return Slot(tuple(part for part in parts if part != "") or ("",), repeated)


def asked_in(slots: Iterable[Slot]) -> list[Asked]:
    """Return the values to ask for in several places, each name once."""
    values: dict[str, Asked] = {}
    for asked in (asked for slot in slots for asked in slot.asked):
        if (earlier := values.get(asked.name)) is None:
            values[asked.name] = asked
            continue
        secret = earlier.about.is_secret or asked.about.is_secret
        values[asked.name] = replace(
            earlier,
            required=earlier.required or asked.required,
            repeated=earlier.repeated and asked.repeated,
            about=replace(earlier.about, is_secret=secret),
        )
    return list(values.values())
