"""The first line in each direction on a front's socket, and the errors that a front writes itself."""

from __future__ import annotations

import json

from gaia_bridge.version import __version__

TYPE_CHECKING = False  # see gaia_bridge
if TYPE_CHECKING:
    from typing import Any

_KEY = "gaia-bridge"
"""The only key of a greeting, so that no other message is mistaken for one."""

LINE_BYTES = 65_536
"""The longest greeting."""

STATUS_BYTES = 64 * LINE_BYTES
"""The longest answer to `STATUS`: a thousand servers and fronts take less."""

GREETING = b'{"%s"' % _KEY.encode()
"""The beginning of every greeting, and of no message of MCP."""

SERVE, STATUS, KEEP, STOP, DRAIN = "serve", "status", "keep", "stop", "drain"
"""Requests to a bridge: serve a client; send its status; stay for another time without a client, which it passes on to
all fronts; end; end once no client waits for an answer."""

MOVE, REST = "move", "rest"
"""Messages of a bridge to a front. MOVE: another bridge takes its place, to which the front goes once it has answered
`MOVE`. REST: it is ended on purpose, and is not to be started before the client wants something."""


class GreetingError(Exception):
    """A line that is no greeting."""


def format_greeting(**fields: object) -> bytes:
    """Format a greeting, with the version of this program, as a line."""
    return GREETING + b":" + json.dumps({"version": __version__, **fields}).encode() + b"}\n"


def read_greeting(line: bytes) -> dict[str, Any]:
    """Parse a greeting.

    Raises:
        GreetingError: The line is no greeting.
    """
    try:
        fields: dict[str, Any] = json.loads(line)[_KEY]
        if isinstance(fields["version"], str):
            return fields
    except (ValueError, TypeError, KeyError, RecursionError):
        pass
    raise GreetingError(f'{line[:60]!r} came; expected {{"{_KEY}": {{"version": ...}}}}')


def is_newer(version: str, other: str) -> bool:
    """Return whether one version of the bridge is newer than another: by its numbers, as far as both have them."""
    return _numbers(version) > _numbers(other)


def _numbers(version: str) -> list[int]:
    numbers: list[int] = []
    for part in version.split("."):
        if not part.isdecimal():
            break
        numbers.append(int(part))
    return numbers
