"""What can go wrong on the way to a token. The texts continue a sentence that begins with the server's name."""

from __future__ import annotations

from gaia_bridge.outbound.transport import UpstreamError

__all__ = ["AuthorizationError", "FetchError", "LoginRequiredError"]


class AuthorizationError(UpstreamError):
    """The server wants to know who asks, and no token could be had.

    Args:
        problem: Why, without anything that is secret.
    """

    def __init__(self, problem: str) -> None:
        super().__init__(f"could not be authorised: {problem}")
        self.problem = problem


class FetchError(AuthorizationError):
    """An address that the server or its authorization server named was not fetched, or gave no answer."""


class LoginRequiredError(AuthorizationError):
    """Only the user can go on, and nobody may be asked here.

    Args:
        command: What the user has to run.
    """

    def __init__(self, command: str) -> None:
        super().__init__(f"it wants a login; run: {command}")
        self.command = command
