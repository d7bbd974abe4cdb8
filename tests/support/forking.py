"""Servers that are written with the SDK, which takes a second to import: imported once, and forked for each start."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

__all__ = ["forked"]

SERVERS: Final = Path(__file__).parents[1] / "servers"

# Both are there before the first test, which counts the open descriptors.
_OWNED, _OWNER = os.pipe()
_LISTENER: Final = socket.socket(socket.AF_UNIX)
atexit.register(_LISTENER.close)


def forked(script: str, *arguments: str) -> tuple[str, ...]:
    """Return the arguments with which Python starts the script in `tests/servers`."""
    return "-S", str(SERVERS / "forked.py"), _address(), str(SERVERS / script), *arguments


@functools.cache
def _address() -> str:
    """Start the process that forks, which ends with this one."""
    folder = tempfile.mkdtemp(prefix="forked-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    address = f"{folder}/socket"
    _LISTENER.bind(address)
    _LISTENER.listen(32)
    inherited = _LISTENER.fileno(), _OWNED
    command = [sys.executable, str(SERVERS / "forked.py"), "--serve", *map(str, inherited)]
    subprocess.run(command, pass_fds=inherited, check=True, stdin=subprocess.DEVNULL, start_new_session=True)
    return address
