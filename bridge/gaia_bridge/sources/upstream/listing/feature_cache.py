"""The last offers of upstream servers, on disk, so that a bridge can list them before any server has been started.

One file for each launch line, named by its fingerprint, readable by its owner alone. It is a cache: a fault in a
file or the folder counts as an empty cache. Its content is checked again as if the server had sent it.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from gaia_bridge.calls.bridge_hops import came_through
from gaia_bridge.client import Era, ServerHandshake
from gaia_bridge.config.file_editor import make_private_folder
from gaia_bridge.config.paths import home_folder
from gaia_bridge.model import ListPage, ServerFeatures, ServerSpec
from gaia_bridge.protocol.kinds import KINDS
from gaia_bridge.protocol.vocabulary import server_info
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.sources.upstream.listing.feature_lists import introduced, with_list
from gaia_bridge.text.json_types import JSON, is_array, is_object
from gaia_bridge.version import __version__

logger = logging.getLogger(__name__)

Unseen = tuple[ServerSpec, int | None, Path | None]
"""A server that starts for the first time: its entry, its process, and the folder for its lists."""
_SUFFIX: Final = ".json"
LOCK_SUFFIX: Final = ".lock"
"""The end of the names of locks in the folder, each beside the entry of the server that a process lists."""


def default_cache_folder() -> Path | None:
    """Return the folder of the cache, `~/.gaia/cache`; `None` if this user has no home folder."""
    try:
        return home_folder() / ".gaia" / "cache"
    except RuntimeError:
        return None


class Remembered(Struct, frozen=True):
    """The facts about a server from its last run."""

    features: ServerFeatures
    """The whole offer of the server, including what the configuration does not permit."""
    era: Era
    """The family of revisions that it used."""
    both: bool | None = None
    """Whether it supports the other family too, as far as that was tried."""


class FeatureCache:
    """The offers of all servers.

    Args:
        folder: The folder of the cache; created when the first offer is stored. With `None`, nothing is kept.
    """

    def __init__(self, folder: Path | None, limits: UpstreamLimits | None = None) -> None:
        self.folder = folder
        self._limits = limits or UpstreamLimits()

    async def load(self, fingerprint: str, name: str) -> Remembered | None:
        """Return the cached facts of a launch line; `None` if there are none.

        Args:
            fingerprint: The fingerprint of the launch line; letters and digits.
        """
        if self.folder is None:
            return None
        document = await anyio.to_thread.run_sync(self._read, self.folder / (fingerprint + _SUFFIX))
        return None if document is None else _remembered(name, document)

    async def store(self, fingerprint: str, remembered: Remembered, secrets: tuple[str, ...] = ()) -> None:
        """Store the facts of a launch line; they replace the earlier ones. Never raises.

        Args:
            secrets: Texts that must not reach the disk. An offer that repeats one of them is not kept, and neither is
                that of another bridge: only this run knows which definitions came through which bridge.
        """
        if self.folder is None:
            return
        features = remembered.features
        if any(map(_of_bridge, filter(None, (features, features.other)))):  # the ids of bridges are those of this run
            await self.forget(fingerprint)
            return
        content = json.dumps(_document(remembered), ensure_ascii=False)
        # A server may repeat values of its environment in a description.
        if len(content) > self._limits.cache_bytes or any(_quoted(secret) in content for secret in secrets):
            await self.forget(fingerprint)
            return
        data = content.encode(errors="surrogatepass")
        await anyio.to_thread.run_sync(self._write, self.folder / (fingerprint + _SUFFIX), data)

    async def forget(self, fingerprint: str) -> None:
        """Remove the facts of a launch line."""
        if self.folder is not None:
            await anyio.to_thread.run_sync(_remove, self.folder / (fingerprint + _SUFFIX))

    def _read(self, path: Path) -> JSON | None:
        try:
            with path.open("rb") as file:
                data = file.read(4 * self._limits.cache_bytes + 1)
            if len(data) > 4 * self._limits.cache_bytes:
                return None
            document: object = json.loads(data)
            os.utime(path)  # used now: it is not among those that make room for others
        except (OSError, ValueError, RecursionError) as error:
            if not isinstance(error, FileNotFoundError):
                logger.debug("%s is no use: %s", path, error)
            return None
        return document if is_object(document) and document.get("version") == __version__ else None

    def _write(self, path: Path, data: bytes) -> None:
        import tempfile

        try:
            make_private_folder(path.parent)
            descriptor, temporary = tempfile.mkstemp(dir=path.parent)  # readable by its owner alone
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(data)
                os.replace(temporary, path)
            except BaseException:
                _remove(Path(temporary))
                raise
            self._make_room(path.parent)
        except OSError as error:
            logger.debug("%s cannot be written: %s", path, error)

    def _make_room(self, folder: Path) -> None:
        """Keep the files used last. Also removes temporary files and locks of a process that was killed."""
        entries: list[tuple[float, Path]] = []
        for entry in os.scandir(folder):
            with suppress(OSError):  # another process may be faster
                if entry.name.endswith(LOCK_SUFFIX):
                    _remove_free_lock(Path(entry.path))
                else:
                    entries.append((entry.stat().st_mtime, Path(entry.path)))
        for _, path in sorted(entries, reverse=True)[self._limits.cache_entries :]:
            _remove(path)


def lock_entry(path: Path) -> int | None:
    """Open and lock a lock file; return its descriptor, or `None` if another process holds it or has just removed it.

    Whoever holds the lock may remove the file: a process that has opened it before, and gets the lock afterwards, sees
    here that the file is gone.

    Raises:
        OSError: The file cannot be opened, or the file system has no locks.
    """
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(lock), path.stat()):
            return lock
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(lock)
        raise
    os.close(lock)
    return None


def _remove_free_lock(path: Path) -> None:
    if (lock := lock_entry(path)) is not None:
        _remove(path)
        os.close(lock)


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _of_bridge(features: ServerFeatures) -> bool:
    return any(came_through(definition) for listed in KINDS.values() for definition in listed.of(features))


def _document(remembered: Remembered) -> JSON:
    other = remembered.features.other
    return {
        "version": __version__,
        "era": remembered.era.value,
        "both": remembered.both,
        **_document_of(remembered.features),
        "other": None if other is None else _document_of(other),
    }


def _document_of(features: ServerFeatures) -> JSON:
    return {
        "modern": features.modern,
        "serverInfo": features.implementation or server_info(features.info),
        "instructions": features.info.instructions,
        "capabilities": features.declared or {},
        **{listed.attribute: list(listed.of(features)) for listed in KINDS.values()},
        "pages": {
            kind: [[page.cursor, page.keys, page.more] for page in pages] for kind, pages in features.pages.items()
        },
    }


def _remembered(name: str, document: JSON) -> Remembered | None:
    try:
        era = Era(document.get("era"))
    except ValueError:
        return None
    modern = document.get("modern")
    modern = modern if isinstance(modern, bool) else era is Era.MODERN
    if (features := _features(name, document, modern=modern)) is None:
        return None
    other = document.get("other")
    if is_object(other):
        features = replace(features, other=_features(name, other, modern=not modern))
    both = document.get("both")
    return Remembered(features, era, both if isinstance(both, bool) else None)


def _features(name: str, document: JSON, *, modern: bool) -> ServerFeatures | None:
    info, capabilities, instructions = (document.get(key) for key in ("serverInfo", "capabilities", "instructions"))
    lists: list[Any] = [document.get(listed.attribute) for listed in KINDS.values()]
    if not (is_object(info) and is_object(capabilities) and all(is_array(items) for items in lists)):
        return None
    handshake = ServerHandshake(
        revision="",
        modern=modern,
        info=info,
        capabilities=capabilities,
        instructions=instructions if isinstance(instructions, str) else None,
    )
    features = introduced(name, handshake)
    for listed, items in zip(KINDS.values(), lists, strict=True):
        features = with_list(features, listed, items)
    return replace(features, pages=_pages(document.get("pages")))


def _pages(document: object) -> dict[str, tuple[ListPage, ...]]:
    """Return the pages of the lists; for a list that cannot be read, the server is asked."""
    lists: dict[str, tuple[ListPage, ...]] = {}
    for kind, pages in document.items() if is_object(document) else ():
        with suppress(TypeError, ValueError):
            lists[kind] = tuple(ListPage(cursor, tuple(keys), dict(more)) for cursor, keys, more in pages)
    return lists
