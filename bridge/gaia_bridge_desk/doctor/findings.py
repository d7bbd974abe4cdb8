"""What the doctor finds: kinds of findings, each with an id that stays, and single findings of a kind."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final

from msgspec import Struct

from gaia_bridge.text.json_types import JSON
from gaia_bridge.text.redaction import redacted


class Level(Enum):
    """How bad a finding is."""

    OK = "ok"
    """As it should be."""
    INFO = "info"
    """Good to know; nothing is wrong."""
    WARNING = "warning"
    """Something does not work for somebody, or will not one day."""
    ERROR = "error"
    """Something that is set up does not work."""


NOTHING: Final = "nothing is to be done"
"""The remedy of what is as it should be."""


class NothingDoneError(Exception):
    """A repair was not made, because things are no longer as they were found; says how they are."""


class Repair(Struct, frozen=True):
    """What `--fix` does about a finding.

    Args:
        text: What that is, for whoever is asked; continues "it would ...".
        apply: Does it, after it has looked again.
    """

    text: str
    apply: Callable[[], None]


class Finding(Struct, frozen=True):
    """One thing that was found.

    Args:
        kind: What sort of thing.
        message: What it is, here.
        remedy: What to do about it, here.
        about: What it is about: a file, a program, a server.
        repair: What `--fix` does about it, if it does.
    """

    kind: Kind
    message: str
    remedy: str
    about: str = ""
    repair: Repair | None = None

    @property
    def level(self) -> Level:
        """How bad it is."""
        return self.kind.level

    def as_json(self) -> JSON:
        """As programs are told."""
        return {
            "id": self.kind.id,
            "level": self.level.value,
            "about": self.about,
            "message": redacted(self.message),
            "why": self.kind.why,
            "remedy": self.remedy,
            "fixable": self.repair is not None,
        }


class Kind(Struct, frozen=True):
    """A sort of findings.

    Args:
        id: What it is called for ever: its subject, and a word for it.
        level: How bad it is.
        matter: What is the matter, in general.
        why: Why that matters.
        remedy: What to do about it, in general.
        mended: Whether `--fix` mends such, where they are ours.
    """

    id: str
    level: Level
    matter: str
    why: str
    remedy: str = NOTHING
    mended: bool = False

    def found(self, message: str, about: str = "", remedy: str | None = None, repair: Repair | None = None) -> Finding:
        """One of them.

        Args:
            message: What it is, here.
            about: What it is about.
            remedy: What to do about it here, where that is more than what is done in general.
            repair: What `--fix` does about it.
        """
        return Finding(self, message, self.remedy if remedy is None else remedy, about, repair)
