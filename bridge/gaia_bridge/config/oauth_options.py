"""The `oauth` of an entry: the user's arrangement with the server's authorization server (MCP basic/authorization).

    {"url": "https://...", "oauth": {"clientId": ..., "clientSecret": "${env:...}", "issuer": "https://..."}}

The keys are spelled as in the files of editors, so that entries for those can be used here.
"""

from __future__ import annotations

from typing import Final, Literal

from gaia_bridge.config.problems import EntryError
from gaia_bridge.config.values import Values
from gaia_bridge.model import OAuthOptions

PUBLIC_OAUTH_KEYS: Final = frozenset(
    {"callbackPort", "clientId", "clientMetadataUrl", "grantType", "issuer", "scopes", "tokenEndpointAuthMethod"}
)
"""Keys whose values are no secrets."""

OAUTH_KEYS: Final = PUBLIC_OAUTH_KEYS | {"clientSecret"}
"""All keys that are used."""


def oauth_options(values: Values) -> OAuthOptions | None:
    """Return the options for logging in to a server, mostly defaults; `None` if its entry turns the login off.

    Raises:
        EntryError: The options cannot be used; the message says why, and shows no value.
    """
    oauth = values.section("oauth")
    if oauth is None:
        return None
    grant: Literal["authorization_code", "client_credentials"] | None
    grant = oauth.choice("grantType", "authorization_code", "client_credentials")
    options = OAuthOptions(
        client_id=_filled(oauth, "clientId"),
        client_secret=_filled(oauth, "clientSecret"),
        client_metadata_url=_filled(oauth, "clientMetadataUrl"),
        issuer=_filled(oauth, "issuer"),
        scope=" ".join(oauth.words("scopes") or ()) or None,
        callback_port=oauth.count("callbackPort"),
        grant=grant or "authorization_code",
        token_endpoint_auth_method=oauth.choice("tokenEndpointAuthMethod", "client_secret_basic", "client_secret_post"),
    )
    if problem := options.problem:
        raise EntryError(f"its 'oauth' cannot be used: {problem}")
    return options


def _filled(oauth: Values, key: str) -> str | None:
    """Return a text; refuse an empty one, as a variable may have."""
    text = oauth.text(key)
    if text is not None and not text.strip():
        raise EntryError(f"'{key}' in 'oauth' is empty")
    return text
