"""The known facts about the eras of one server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from gaia_bridge.client import Era, ServerHandshake
from gaia_bridge.contract import ClientRequest
from gaia_bridge.model import ServerOptions

OPTION_OF: Final[Mapping[Era, Literal["handshake", "2026-07-28"]]] = {Era.LEGACY: "handshake", Era.MODERN: "2026-07-28"}
"""The names of the eras in the configuration (`ServerOptions.era`)."""


def era_of(request: ClientRequest) -> Era:
    """Return the era of a client."""
    return Era.MODERN if request.modern else Era.LEGACY


def only_era(options: ServerOptions) -> Era | None:
    """Return the only era that an entry allows; `None` for both."""
    return next((era for era, name in OPTION_OF.items() if name == options.era), None)


class KnownEras:
    """The known facts about the eras of one server."""

    def __init__(self, options: ServerOptions, first: Era | None = None) -> None:
        self.only = only_era(options)
        """The only era that the configuration allows, if it names one."""
        self.first = self.only or first
        """The era to try first; `None` where nothing is known."""
        self._has: dict[Era, bool] = {}

    @property
    def both(self) -> bool | None:
        """Whether the server speaks both eras; `None` if that is not known yet."""
        facts = [self._has.get(era) for era in Era]
        return False if False in facts else None if None in facts else True

    def recall(self, era: Era, both: bool | None) -> None:
        """Use the facts of the last run: the era, and whether the server has both."""
        if self.only is None:
            self.first = era
            self._has = {Era.LEGACY: True, Era.MODERN: True} if both else {era: True}
            if both is False or era is Era.LEGACY:  # the modern one is always asked for first
                self._has[_other(era)] = bool(both)

    def may_have(self, era: Era) -> bool:
        """Return whether the server speaks an era, or may do so."""
        return self._has.get(era) is not False

    def prefer(self, era: Era) -> None:
        """Try this era first with the next connection, if the server has both."""
        if self.first is not era and self.both and self.only is None:
            self.first = era

    def turn_to(self, era: Era) -> None:
        """Try this era first with the next connection."""
        self.first = self.only or era

    def begin(self) -> Era | None:
        """Return the era to try first now; it is forgotten unless `record` confirms it."""
        era, self.first = self.first, self.only
        return era

    def record(self, handshake: ServerHandshake, tried: Era | None) -> None:
        """Record the eras that an opened connection shows."""
        if self.only is not None:
            return
        self.first = handshake.next_era
        self._has[handshake.era] = True
        if handshake.also_modern:
            self._has[Era.MODERN] = True
        elif (tried or Era.MODERN) is not handshake.era:
            self._has[_other(handshake.era)] = False

    def note(self, era: Era, *, had: bool) -> None:
        """Record whether the server speaks an era."""
        self._has[era] = had


def _other(era: Era) -> Era:
    return Era.LEGACY if era is Era.MODERN else Era.MODERN
