"""Errors of logins and tokens. The texts continue a sentence that begins with the server's name."""

from __future__ import annotations

from gaia_bridge.client.transport import AuthorizationError
from gaia_bridge.text.escaping import one_line


class FetchError(AuthorizationError):
    """An address that the server or its authorization server named was not fetched, or gave no answer."""


class LoginNotAcceptedError(AuthorizationError):
    """The server refuses the token of a login that was just made, and another login would give the same."""


class LoginRefusedError(AuthorizationError):
    """The browser came back with an error instead of a code.

    The reason is the text of the answer; the issuer is the authorization server that it claims to come from (RFC 9207).
    """

    def __init__(self, reason: str, issuer: str | None = None) -> None:
        super().__init__(f"the login was refused ({one_line(reason, 200) or 'without a reason'})")
        self.issuer = issuer


class LoginRequiredError(AuthorizationError):
    """A login by the user is needed, and the user cannot be asked here."""

    def __init__(self, command: str) -> None:
        super().__init__(f"it wants a login; run: {command}")
        self.command = command
