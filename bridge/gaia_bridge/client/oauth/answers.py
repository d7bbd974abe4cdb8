"""Checks answers of authorization servers before the SDK reads them: the SDK's errors repeat them, tokens too.

A failure of an authorization server is not a refusal. Only a refusal makes a refresh token worthless and justifies
asking the user again.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import parse_qs

import httpx2
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import ValidationError

from gaia_bridge.client.transport import AuthorizationError
from gaia_bridge.client.transports.http.http_values import named_status, url_for_log
from gaia_bridge.text.escaping import one_line
from gaia_bridge.text.json_text import from_json
from gaia_bridge.text.json_types import is_object

_REFUSALS: Final = (400, 401, 403)
"""The statuses with which token endpoints refuse a refresh token (RFC 6749, section 5.2, and deviations from it)."""
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")
"""Tokens that a header carries unchanged: those of RFC 6750, section 2.1, and more."""
_LONGEST: Final = 10**11
"""Seconds, some thousand years: the limit of lifetimes, beyond which there is no date to store."""


def grant_of(request: httpx2.Request) -> str | None:
    """Return the grant type of a token request; `None` if a request is not one."""
    if request.method != "POST" or not request.headers.get("content-type", "").startswith(
        "application/x-www-form-urlencoded"
    ):
        return None
    return parse_qs(request.content.decode("ascii", "replace")).get("grant_type", [""])[0]


def refused_renewal(request: httpx2.Request, response: httpx2.Response) -> str | None:
    """Return the error code with which a refresh token was refused; `None` if none was."""
    if grant_of(request) != "refresh_token" or response.status_code not in _REFUSALS:
        return None
    return _error_of(response)[0]


def without_scope(request: httpx2.Request, response: httpx2.Response) -> httpx2.Request | None:
    """Return the registration without scope to make instead of one that was refused; `None` if there is none.

    Scopes of a server are often unknown to its authorization server, which then refuses a client that is registered
    with them (oidc-provider). A login may request them nevertheless.
    """
    if request.method != "POST" or grant_of(request) is not None or response.status_code != 400:
        return None
    registration = from_json(request.content)
    if _error_of(response)[0] != "invalid_client_metadata" or "scope" not in registration:
        return None
    rest = {name: value for name, value in registration.items() if name != "scope"}
    return httpx2.Request("POST", request.url, json=rest, headers={"accept": request.headers.get("accept", "*/*")})


def check_answer(request: httpx2.Request, response: httpx2.Response) -> None:
    """Raise `AuthorizationError` if an answer is an error, or lacks the data with which the flow continues."""
    if request.method != "POST" or refused_renewal(request, response) is not None:
        return
    place = url_for_log(request.url)
    if response.status_code not in (200, 201):
        words = one_line(": ".join(part for part in _error_of(response) if part), 200)
        raise AuthorizationError(
            f"{place} answered with HTTP {named_status(response.status_code)}" + (f", {words}" if words else "")
        )
    wants_token = grant_of(request) is not None
    if not (_has_token(response.content) if wants_token else _has_registration(response.content)):
        kind = one_line(response.headers.get("content-type", "no type"), 60)
        raise AuthorizationError(f"{place} answered without a {'token' if wants_token else 'registration'} ({kind})")


def _has_token(content: bytes) -> bool:
    try:
        token = OAuthToken.model_validate_json(content)
    except ValidationError:
        return False
    # A token that no header can carry would fail every later request, without leading to a new login.
    return bool(_TOKEN.fullmatch(token.access_token)) and -_LONGEST < (token.expires_in or 0) < _LONGEST


def _has_registration(content: bytes) -> bool:
    try:
        return bool(OAuthClientInformationFull.model_validate_json(content).client_id)
    except ValidationError:
        return False


def _error_of(response: httpx2.Response) -> tuple[str, str]:
    """Return the error and its description (RFC 6749, section 5.2), empty where they are absent."""
    try:
        content: object = response.json()
    except ValueError:
        return "", ""
    if not is_object(content):
        return "", ""
    error, description = content.get("error"), content.get("error_description")
    return error if isinstance(error, str) else "", description if isinstance(description, str) else ""
