"""Stores logins: one file for each server, readable by its owner alone, shared by all our processes.

A file holds what belongs together and is replaced as a whole: the tokens, the client registration they were given to,
and the metadata of the authorization server that gave both. So a refresh token is never sent to another server than
the one that issued it, also after a restart.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import logging
import os
import stat
import tempfile
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import anyio.to_thread
import filelock
from mcp.shared.auth import OAuthClientInformationFull, OAuthMetadata, OAuthToken, ProtectedResourceMetadata
from mcp.shared.auth_utils import resource_url_from_server_url
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gaia_bridge.client.oauth.kept import default_folder, prefix_of
from gaia_bridge.client.transport import AuthorizationError
from gaia_bridge.config.file_editor import make_private_folder

logger = logging.getLogger(__name__)

_LARGEST: Final = 1024 * 1024
"""The most bytes of a file that we could have written."""
_POSIX: Final = os.name == "posix"
_POLL: Final = 0.05
"""Seconds between two attempts at the lock, which has no event."""


class StoredLogin(BaseModel):
    """The stored data of one server's authorisation. Its `repr` shows nothing that is secret."""

    model_config = ConfigDict(frozen=True)

    resource: str
    """The server (RFC 8707)."""
    client: OAuthClientInformationFull | None = Field(default=None, repr=False)
    """Our client registration at the authorization server, if there is one."""
    tokens: OAuthToken | None = Field(default=None, repr=False)
    expires_at: float | None = None
    """The expiry of the access token, in seconds of the Unix epoch, if the authorization server sent it."""
    server: OAuthMetadata | None = Field(default=None, repr=False)
    """The authorization server that issued all of this; `None` if it has no metadata."""
    protection: ProtectedResourceMetadata | None = Field(default=None, repr=False)
    """The server's metadata about its authorization servers."""

    @property
    def access_token(self) -> str | None:
        """The access token, if there is one."""
        return self.tokens.access_token if self.tokens else None

    @property
    def stale(self) -> bool:
        """Whether the access token has expired; `False` if the expiry is not known."""
        return self.expires_at is not None and time.time() >= self.expires_at

    @property
    def issuer(self) -> str | None:
        """The authorization server, by the name it gives itself."""
        return str(self.server.issuer) if self.server else None


class TokenStore:
    """The login at one server; a `TokenStorage` of the SDK.

    Args:
        client_id: The client that the user has registered there, if any: another one has another login.
        issuer: The authorization server that the user has named, if any: its tokens are never sent to another.
    """

    def __init__(
        self, server_url: str, client_id: str | None = None, issuer: str | None = None, folder: Path | None = None
    ) -> None:
        self._resource = resource_url_from_server_url(server_url)
        belongs_to = json.dumps([self._resource, client_id, issuer])
        key = hashlib.sha256(belongs_to.encode()).hexdigest()[:24]
        prefix = prefix_of(urlsplit(self._resource).hostname or "")
        self._folder = folder or default_folder()
        self.path = self._folder / f"{prefix}{key}.json"
        self.login = StoredLogin(resource=self._resource)
        """The login that was last read or written."""
        self._server: OAuthMetadata | None = None
        self._protection: ProtectedResourceMetadata | None = None
        self._held = False

    @asynccontextmanager
    async def locked(self, seconds: float) -> AsyncGenerator[None]:
        """Keep all others from changing this login.

        Raises:
            AuthorizationError: Another process keeps it for `seconds`, or the folder cannot be used.
        """
        lock = filelock.AsyncFileLock(
            self.path.with_suffix(".lock"), mode=0o600, thread_local=False, run_in_executor=False
        )
        with _failures(self.path):
            await anyio.to_thread.run_sync(_make_private, self._folder)
            try:
                await lock.acquire(timeout=seconds, poll_interval=_POLL)
            except filelock.Timeout:
                raise AuthorizationError(f"another process has been logging in for {seconds:g} s") from None
        self._held = True
        try:
            yield
        finally:
            self._held = False
            await lock.release()

    async def load(self) -> StoredLogin:
        """Read the stored login; an empty one, if there is none that can be read.

        Within `locked`, a file that is no login is renamed, so that its content is not lost when a new one is written.

        Raises:
            AuthorizationError: The file belongs to another user, or the system does not let us read it.
        """
        with _failures(self.path):
            content = await anyio.to_thread.run_sync(_read, self.path)
            self.login = StoredLogin(resource=self._resource)
            login = None if content is None else _parsed(content)
            if login is not None and login.resource == self._resource:
                self.login = login
            elif content is not None and self._held:
                aside = self.path.with_suffix(".damaged")
                await anyio.to_thread.run_sync(os.replace, self.path, aside)
                logger.warning("%s is no login of ours; it is kept as %s, log in again", self.path, aside)
        self.set_metadata(self.login.server, self.login.protection)
        return self.login

    def set_metadata(self, server: OAuthMetadata | None, protection: ProtectedResourceMetadata | None) -> None:
        """Set the metadata that is written with the next tokens or client: of their server, and of the MCP server."""
        self._server, self._protection = server, protection

    async def forget(self, *, client: bool = False) -> None:
        """Delete the tokens, because they are of no use any more; and the client registration, if `client` is set."""
        change: dict[str, object] = {"tokens": None, "expires_at": None}
        await self._save(self.login.model_copy(update=change | ({"client": None} if client else {})))

    async def get_tokens(self) -> OAuthToken | None:
        """Return the tokens that were last read or written."""
        return self.login.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store new tokens, with the metadata of their server."""
        expires_at = None if tokens.expires_in is None else time.time() + tokens.expires_in
        change = {"tokens": tokens, "expires_at": expires_at, "server": self._server, "protection": self._protection}
        await self._save(self.login.model_copy(update=change))

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return the client registration that was last read or written."""
        return self.login.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Store a new client registration, with the metadata of its server. Tokens of another client are deleted."""
        await self._save(
            StoredLogin(resource=self._resource, client=client_info, server=self._server, protection=self._protection)
        )

    async def _save(self, login: StoredLogin) -> None:
        content = login.model_dump_json(exclude_none=True, indent=1).encode()
        with _failures(self.path):
            await anyio.to_thread.run_sync(_write, self.path, content)
        self.login = login


def _parsed(content: bytes) -> StoredLogin | None:
    try:
        return StoredLogin.model_validate_json(content)
    except ValidationError:  # its text would repeat the content
        return None


@contextlib.contextmanager
def _failures(path: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise AuthorizationError(f"the login cannot be kept in {path} ({error.strerror})") from None


def _make_private(folder: Path) -> None:
    make_private_folder(folder)
    if _POSIX and stat.S_IMODE(folder.stat().st_mode) != 0o700:
        folder.chmod(0o700)


def _read(path: Path) -> bytes | None:
    """Read the file, if there is one. A file that others can read is made private; one that others own is refused."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or (_POSIX and status.st_uid != os.geteuid()):
            raise PermissionError(errno.EPERM, "it is no file of yours")
        if _POSIX and status.st_mode & 0o077:
            logger.warning("%s was open to other users; it is not any more", path)
            os.fchmod(descriptor, 0o600)
        return file.read(_LARGEST)


def _write(path: Path, content: bytes) -> None:
    """Replace the file in one step: readers see the old or the new content."""
    _make_private(path.parent)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)  # 0600, whatever the umask
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
