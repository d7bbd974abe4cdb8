"""Follows the token file: a new token in it is the one that clients need, without a restart."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import anyio.to_thread

from gaia_bridge.errors import ConfigError
from gaia_bridge.runtime.file_watch import FILE_INTERVAL, FileWatch
from gaia_bridge.server.http.access_policy import LiveToken
from gaia_bridge.server.http.token import load_or_create_token

logger = logging.getLogger(__name__)


async def follow_token(token: LiveToken, path: Path, exchanged: Callable[[str], object]) -> None:
    """Follow every change of the token file until cancelled. A file that is removed is made anew, with another token.

    Args:
        exchanged: Called with another token before clients need it.
    """
    watch = FileWatch(lambda: (path,), FILE_INTERVAL)  # at the start, where the file was read just now
    while True:
        await watch.until_saved()
        await anyio.to_thread.run_sync(watch.read)
        try:
            text, _ = await anyio.to_thread.run_sync(load_or_create_token, path)
        except ConfigError as error:
            logger.warning("clients need the same token as before: %s", error)
            continue
        if text != token.text:
            exchanged(text)
            token.exchange(text)
            logger.warning("clients need another token from now on: that in %s", path)
