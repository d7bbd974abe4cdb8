"""Errors of logins and tokens. The texts continue a sentence that begins with the server's name."""

from __future__ import annotations

import shlex

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
    """A login by the user is needed, and the user cannot be asked here.

    Args:
        command: The command to log in.
        with_token: The remedy with a token, where the server may want one that no login gives; empty otherwise.
    """

    def __init__(self, command: str, with_token: str = "") -> None:
        super().__init__(
            f"it wants a login or a token; run: {command}; or add it {with_token}"
            if with_token
            else f"it wants a login; run: {command}"
        )
        self.command = command
        self.with_token = with_token


def with_token(name: str, url: str, options: str = "") -> str:
    """Return the remedy for a server that wants a token and offers no login, as the end of a sentence.

    Args:
        name: The server's name.
        url: Its address, without secrets.
        options: Further options of the command, with a space before each.
    """
    command = f"gaia-bridge add {shlex.quote(name)} {shlex.quote(url)} --header 'Authorization:Bearer ${{env:TOKEN}}'"
    return f"with a token, by {command}{options} (for a bridge with --auth, ${{file:~/.gaia/bridge-token}})"
