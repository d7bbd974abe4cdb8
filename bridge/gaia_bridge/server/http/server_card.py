"""The server card of an endpoint: the facts that a client may read before it connects (SEP-2127).

It says who the endpoint is, where its transports are and which revisions they speak, and nothing of tools, prompts or
resources: these are listed to clients that have connected. The specification reserves `/server-card` below the path of
Streamable HTTP for it; https://github.com/modelcontextprotocol/experimental-ext-server-card has text and schema.

The specification opens cards to pages of every origin, because what it has in mind is public. Here the guard decides,
as for everything else: a bridge on somebody's machine tells no foreign page what it publishes.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final
from urllib.parse import quote

from gaia_bridge.protocol.revisions import HANDSHAKE_REVISIONS, Revisions
from gaia_bridge.server.catalog import Catalog
from gaia_bridge.server.dispatcher import Dispatcher
from gaia_bridge.server.http.access_policy import AccessPolicy, split_authority
from gaia_bridge.server.transports.http_exchange import Headers, HttpExchange
from gaia_bridge.server.transports.scope_keys import MOUNTED_AT
from gaia_bridge.text.escaping import one_line
from gaia_bridge.text.json_text import valid_json
from gaia_bridge.text.json_types import JSON, is_array, is_object
from gaia_bridge.text.web_addresses import ADDRESS_CHARACTER, is_web_address

_MEDIA_TYPE: Final = b"application/mcp-server-card+json"
_SCHEMA: Final = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
_AGE: Final = 60
"""Seconds for which a client need not ask again. Those of the specification's example are good for an hour; an agent
that is being written changes every minute."""
_LONGEST: Final = {"title": 100, "description": 100, "version": 255}
_LONGEST_NAME: Final = 200
_QUALIFIED: Final = re.compile(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+")
_NO_NAME: Final = re.compile(r"[^a-zA-Z0-9._-]+")
_IMAGE: Final = re.compile(rf"data:{ADDRESS_CHARACTER}+")
_ICON: Final[Mapping[str, Callable[[object], bool]]] = {
    "mimeType": lambda value: isinstance(value, str),
    "sizes": lambda value: is_array(value) and all(isinstance(size, str) for size in value),
    "theme": lambda value: value in ("dark", "light"),
}
"""The fields that an icon may have beside its address, with their checks."""
_TOKEN: Final[JSON] = {
    "name": "Authorization",
    "description": "The token that this server asks for",
    "isRequired": True,
    "isSecret": True,
    "value": "Bearer {token}",
    "variables": {"token": {"description": "The token alone", "isRequired": True, "isSecret": True}},
}


async def answer_card(exchange: HttpExchange, dispatcher: Dispatcher, prefix: str, policy: AccessPolicy) -> None:
    """Answer a request for the card of an endpoint, which is below the path `prefix`. The guard has let it through."""
    asks_token = policy.token.text is not None
    if exchange.method not in ("GET", "HEAD"):
        await exchange.nothing(405, [(b"allow", b"GET, HEAD")])
        return
    await dispatcher.catalog.settle()
    scope = exchange.scope
    path = quote(scope.get(MOUNTED_AT, "") + prefix)  # as HTTP+SSE tells it
    origin = policy.public.origin if policy.public else f"{scope['scheme']}://{exchange.headers['host']}"
    card = server_card(dispatcher.catalog, dispatcher.settings.revisions, origin + path, asks_token=asks_token)
    body = json.dumps(valid_json(card), ensure_ascii=False, separators=(",", ":")).encode()
    tag = f'"{hashlib.sha256(body).hexdigest()}"'
    shared = "private" if asks_token else "public"
    head: Headers = [
        (b"access-control-allow-origin", b"*"),
        (b"access-control-allow-methods", b"GET"),
        (b"access-control-allow-headers", b"Content-Type"),
        (b"cache-control", f"{shared}, max-age={_AGE}".encode()),
        (b"etag", tag.encode()),
        (b"vary", b"Host"),
    ]
    kept = {each.strip().removeprefix("W/") for each in exchange.headers.get("if-none-match", "").split(",")}
    if kept & {tag, "*"}:  # the client has this very card already (RFC 9110, section 13.1.2)
        await exchange.whole(b"", 304, head)
        return
    head += [(b"content-type", _MEDIA_TYPE), (b"content-length", b"%d" % len(body))]
    await exchange.whole(b"" if exchange.method == "HEAD" else body, 200, head)


def server_card(catalog: Catalog, revisions: Revisions, place: str, *, asks_token: bool) -> JSON:
    """Return the card of an endpoint.

    Args:
        place: Its address, without that of a transport: `http://127.0.0.1:8765/agents/code`.
    """
    info = catalog.implementation(modern=True)
    headers = {"headers": [_TOKEN]} if asks_token else {}
    name = str(info.get("name", ""))
    texts = _cut("description", info.get("description")), _cut("description", info.get("title"))
    card: JSON = {
        "$schema": _SCHEMA,
        "name": _qualified(name, place.partition("://")[2].partition("/")[0]),
        "version": _cut("version", info.get("version")) or "0",
        "description": next(filter(None, texts), _cut("description", f"The MCP server {name}")),
    }
    if title := _cut("title", info.get("title")):
        card["title"] = title
    if is_web_address(url := info.get("websiteUrl")):
        card["websiteUrl"] = url
    if icons := list(_icons(info.get("icons"))):
        card["icons"] = icons
    every = [*HANDSHAKE_REVISIONS, *revisions.names]
    card["remotes"] = [
        {"type": "streamable-http", "url": f"{place}/mcp", "supportedProtocolVersions": every, **headers},
        {"type": "sse", "url": f"{place}/sse", "supportedProtocolVersions": list(HANDSHAKE_REVISIONS), **headers},
    ]
    return card


def _qualified(name: str, authority: str) -> str:
    """Return a name behind that of its machine, reversed: `localhost/code`, `com.example.tools/code`."""
    if _QUALIFIED.fullmatch(name) and len(name) <= _LONGEST_NAME:
        return name
    host, _ = split_authority(authority)
    is_address = host.startswith("[") or host.rpartition(".")[2].isdigit()
    space = "localhost" if is_address else ".".join(reversed(host.lower().strip(".").split("."))).replace("_", "-")
    short = _NO_NAME.sub("-", name).strip("-") or "server"
    return f"{space[: _LONGEST_NAME // 2] or 'localhost'}/{short[: _LONGEST_NAME // 2 - 1]}"


def _cut(field: str, text: object) -> str:
    """Return a text as a card may have it; empty if there is none, or nothing but blanks."""
    return one_line(str(text or ""), _LONGEST[field])


def _icons(icons: object) -> Iterator[JSON]:
    for icon in icons if is_array(icons) else ():
        if (
            is_object(icon)
            and isinstance(src := icon.get("src"), str)
            and (is_web_address(src) or _IMAGE.fullmatch(src))
        ):
            yield {"src": src, **{key: icon[key] for key, fits in _ICON.items() if fits(icon.get(key))}}
