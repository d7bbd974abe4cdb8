"""The first line in each direction on a front's socket, and the errors that a front writes itself."""

from __future__ import annotations

import json

from gaia_bridge.version import __version__

TYPE_CHECKING = False  # see gaia_bridge
if TYPE_CHECKING:
    from typing import Any

_KEY = "gaia-bridge"
"""The only key of a greeting, so that nothing else is taken for one."""

LINE_BYTES = 65_536
"""The longest greeting."""

STATUS_BYTES = 64 * LINE_BYTES
"""The longest answer to `STATUS`: a thousand servers and fronts take less."""

GREETING = b'{"%s"' % _KEY.encode()
"""How every greeting begins, and no message of MCP."""

SERVE, STATUS, KEEP, STOP, DRAIN = "serve", "status", "keep", "stop", "drain"
"""What a bridge is asked for: to serve a client; how it is; to stay for another time without a client, which it tells
all fronts; to end; to end once nobody is waiting for an answer."""

MOVE, REST = "move", "rest"
"""What it says to a front: another bridge takes its place, to which the front goes on once it has said `MOVE` as well;
it is being ended on purpose, and is not to be started before the client wants something."""


class GreetingError(Exception):
    """What came is no greeting."""


def written(**fields: object) -> bytes:
    """A greeting, with the version of whoever writes it, as a line."""
    return GREETING + b":" + json.dumps({"version": __version__, **fields}).encode() + b"}\n"


def read_greeting(line: bytes) -> dict[str, Any]:
    """What a greeting says.

    Raises:
        GreetingError: It is none.
    """
    try:
        found: dict[str, Any] = json.loads(line)[_KEY]
        if isinstance(found["version"], str):
            return found
    except (ValueError, TypeError, KeyError, RecursionError):
        pass
    raise GreetingError(f'{line[:60]!r} came; expected {{"{_KEY}": {{"version": ...}}}}')


def is_newer(version: str, other: str) -> bool:
    """Whether one version of the bridge is newer than another: by its numbers, as far as both have them."""
    return _numbers(version) > _numbers(other)


def _numbers(version: str) -> list[int]:
    numbers: list[int] = []
    for part in version.split("."):
        if not part.isdecimal():
            break
        numbers.append(int(part))
    return numbers
