"""Queries a registry of MCP servers, over its API v0.1. Its answers are not trusted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import anyio
from msgspec.structs import replace

from gaia_bridge.client.transport import UnreachableError, UpstreamError
from gaia_bridge.client.transports.http.http_client import HttpClient, HttpReply
from gaia_bridge.errors import ServerUnavailableError
from gaia_bridge.model import HttpServerSpec
from gaia_bridge.settings import RegistryLimits, UpstreamLimits
from gaia_bridge.text.escaping import one_line
from gaia_bridge.text.web_addresses import is_loopback_host
from gaia_bridge_desk.server_registry.documents import Listed, Page, RegistryFormatError, listed_of, page_of

LATEST: Final = "latest"
"""The name of a server's newest version."""

T = TypeVar("T")

_API: Final = "/v0.1"
_PAGE: Final = 100
"""Servers on one page; the official registry gives no more."""
_VERSIONS_SHOWN: Final = 10
_GONE: Final = 404
_TOO_MANY: Final = 429
_SERVER_FAULT: Final = 500
_WAY_OUT: Final = "is this machine on the network? another registry is named with --registry URL"


class RegistryError(ServerUnavailableError):
    """A registry that does not answer as one.

    Args:
        base: Its address.
        problem: The problem and its remedy.
    """

    def __init__(self, base: str, problem: str) -> None:
        super().__init__(base, problem)
        self.args = (f"the registry at {base} {problem}",)


class NotListedError(RegistryError):
    """The registry does not have the requested server or version."""


def base_of(url: str) -> str:
    """Return the address of a registry, without the path of its API, which may have been copied as well.

    Args:
        url: The address that the user typed.

    Raises:
        ValueError: The address is not valid; the message says why.
    """
    expected = "expected https://HOST"
    if not url.isprintable() or " " in url:
        raise ValueError(f"has a blank, or what cannot be seen; {expected}")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise ValueError(f"is no URL; {expected}") from None
    if parts.scheme not in ("http", "https") or not host:
        raise ValueError(f"is no URL of https; {expected}")
    if parts.scheme == "http" and not is_loopback_host(host):
        raise ValueError(f"is not encrypted, and what a registry says is run; {expected}")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError(f"has more than a host and a path; {expected}")
    path = parts.path.rstrip("/")
    for end in ("/servers", "/v0.1", "/v0"):
        path = path.removesuffix(end)
    return f"{parts.scheme}://{parts.netloc}{path}"


class RegistryClient:
    """One registry. Each request has a connection of its own: there are few.

    Args:
        base: Its address, as `base_of` makes it.
        limits: The limits for requests.
    """

    def __init__(self, base: str, limits: RegistryLimits) -> None:
        self.base = base
        self._limits = limits

    async def search(self, word: str, most: int) -> tuple[list[Listed], bool]:
        """Return the newest versions of the servers whose names contain a word. Deleted ones are left out.

        Args:
            word: The word.
            most: The most servers to return.

        Returns:
            The servers, and whether there may be more.

        Raises:
            RegistryError: The registry does not answer as one.
        """
        servers: dict[str, Listed] = {}
        cursor = ""
        for _ in range(self._limits.pages):
            page = await self._page(word, cursor, min(most, _PAGE))
            for listed in page.servers:
                official = listed.official
                if official.status != "deleted" and official.is_latest is not False:
                    servers.setdefault(listed.server.name, listed)
            if len(servers) >= most or not page.cursor or page.cursor == cursor:
                break
            cursor = page.cursor
        else:
            return list(servers.values())[:most], True
        return list(servers.values())[:most], bool(page.cursor) or len(servers) > most

    async def server(self, name: str, version: str = LATEST) -> Listed:
        """Return one version of a server.

        Args:
            name: Its whole name.
            version: The version.

        Raises:
            NotListedError: The registry has no such server, or not in that version.
            RegistryError: The registry does not answer as one.
        """
        path = f"/servers/{quote(name, safe='')}/versions"
        body = await self._get(f"{path}/{quote(version, safe='')}")
        listed = self._parse(listed_of, body)
        if listed.server.name != name or version not in (LATEST, listed.server.version):
            other = one_line(f"{listed.server.name} {listed.server.version}", 200)
            raise RegistryError(self.base, f"was asked for {name} {version}, and answered with {other}; it is not used")
        return listed

    async def versions(self, name: str) -> list[str]:
        """Return some versions of a server, the newest first; none if there is no such server.

        Raises:
            RegistryError: The registry does not answer as one.
        """
        try:
            page = self._parse(page_of, await self._get(f"/servers/{quote(name, safe='')}/versions"))
        except NotListedError:
            return []
        return [one_line(listed.server.version, 60) for listed in page.servers][:_VERSIONS_SHOWN]

    async def _page(self, word: str, cursor: str, limit: int) -> Page:
        asked = {"search": word, "limit": str(limit), "version": LATEST} | ({"cursor": cursor} if cursor else {})
        try:
            return self._parse(page_of, await self._get(f"/servers?{urlencode(asked)}"))
        except NotListedError:
            raise RegistryError(
                self.base, f"has no {_API}/servers: it is no registry of MCP servers; name one with --registry URL"
            ) from None

    def _parse(self, read: Callable[[bytes], T], body: bytes) -> T:
        try:
            return read(body)
        except RegistryFormatError as error:
            raise RegistryError(self.base, _no_registry(str(error))) from None

    async def _get(self, path: str) -> bytes:
        """Return the body of an answer in JSON.

        Raises:
            NotListedError: The registry has nothing at that path.
            RegistryError: The registry does not answer as one.
        """
        limits = self._limits
        bounds = replace(UpstreamLimits(), message_bytes=limits.answer_bytes)
        try:
            with anyio.fail_after(limits.timeout):
                client = HttpClient(HttpServerSpec("registry", f"{self.base}{_API}{path}"), bounds)
                try:
                    reply = await client.send("GET", {"accept": "application/json"}, url=client.url)
                    return await self._body(reply)
                finally:
                    await client.close()
        except TimeoutError:
            problem = f"did not answer within {limits.timeout:g} s; try again, or name another one with --registry URL"
            raise RegistryError(self.base, problem) from None
        except UnreachableError as error:
            raise RegistryError(self.base, f"{error}; {_WAY_OUT}") from None
        except UpstreamError as error:
            raise RegistryError(self.base, str(error)) from None

    async def _body(self, reply: HttpReply) -> bytes:
        is_json = reply.content_type.endswith("json")
        if reply.ok and is_json:
            return await reply.body()
        refusal = reply.refusal()
        await reply.close()
        if reply.status == _GONE:
            raise NotListedError(self.base, "does not have that")
        if reply.ok:
            raise RegistryError(self.base, _no_registry(reply.content_type or "what has no type"))
        advice = "try again later" if reply.status == _TOO_MANY or reply.status >= _SERVER_FAULT else "see --registry"
        raise RegistryError(self.base, f"{refusal}; {advice}")


def _no_registry(came: str) -> str:
    return (
        f"answered with {one_line(came, 300)}, which no registry of MCP servers does: the address may be wrong "
        "(--registry URL), or this network wants a login in the browser first"
    )
