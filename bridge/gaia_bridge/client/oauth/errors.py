"""What can go wrong on the way to a token. The texts continue a sentence that begins with the server's name."""

from __future__ import annotations

from gaia_bridge.client.transport import AuthorizationError
from gaia_bridge.text.escaping import one_line


class FetchError(AuthorizationError):
    """An address that the server or its authorization server named was not fetched, or gave no answer."""


class LoginNotAcceptedError(AuthorizationError):
    """The server refuses what a login has just given, and another login would give the same."""


class LoginRefusedError(AuthorizationError):
    """The browser came back with an error instead of a code.

    Args:
        reason: What was said, as it came; empty if nothing was.
        issuer: Which authorization server it claims to come from, if it does (RFC 9207).
    """

    def __init__(self, reason: str, issuer: str | None = None) -> None:
        super().__init__(f"the login was refused ({one_line(reason, 200) or 'without a reason'})")
        self.issuer = issuer


class LoginRequiredError(AuthorizationError):
    """Only the user can go on, and nobody may be asked here."""

    def __init__(self, command: str) -> None:
        super().__init__(f"it wants a login; run: {command}")
        self.command = command
