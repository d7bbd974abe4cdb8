"""How clients are told apart by what they call themselves."""

from __future__ import annotations

from typing import Final

_EDITIONS: Final = (" - insiders", " - exploration", " insiders", " dev")
"""What early editions of an editor have behind its name."""

_VIA: Final = " (via "
"""What mcp-remote appends to the name of the client that it speaks for, before its own."""


def known_name(client: str) -> str:
    """The name of a client as tables have it: in lower case, without the edition, and without who speaks for it."""
    name = client.partition(_VIA)[0].strip().casefold()
    edition = next((edition for edition in _EDITIONS if name.endswith(edition)), "")
    return name.removesuffix(edition)
