"""Where a broken event stream is taken up again, and how soon, whatever the server says. Pure."""

from __future__ import annotations

import re
from typing import Final

from gaia_bridge.client.transports.sse_parser import EventStream
from gaia_bridge.settings import UpstreamLimits

_USABLE_ID: Final = re.compile(r"[\x21-\x7e]([\x20-\x7e]{0,1022}[\x21-\x7e])?")
"""What a header carries unchanged; the length is ours."""
_DOUBLINGS: Final = 10


class Place:
    """The place in an event stream up to which everything has come.

    Args:
        limits: How soon a stream is asked for again, at least and at most.
    """

    def __init__(self, limits: UpstreamLimits) -> None:
        self.messages = 0
        """How many have come."""
        self._limits = limits
        self._last_id = ""
        self._retry = 0.0
        self._put_off = 0.0

    @property
    def is_resumable(self) -> bool:
        """Whether the server has named the place, so that it can go on from there."""
        return bool(_USABLE_ID.fullmatch(self._last_id))

    @property
    def headers(self) -> dict[str, str]:
        """Ask the server to go on from here, if it has named the place."""
        return {"last-event-id": self._last_id} if self.is_resumable else {}

    def note(self, stream: EventStream) -> None:
        """What a stream has said about itself holds for the next one too."""
        self._last_id = stream.last_id or self._last_id
        self._retry = self._retry if stream.retry is None else stream.retry
        self._put_off = 0.0

    def put_off(self, retry_after: float | None) -> None:
        """Instead of a stream came an answer, which may have said when to ask again.

        Args:
            retry_after: Seconds, if it did.
        """
        self._put_off = min(retry_after or 0.0, self._limits.retry_after_cap)

    def pause(self, failures: int = 0) -> float:
        """Seconds to wait before the stream is asked for again.

        Args:
            failures: How often in a row that has led to nothing; each doubles the time.
        """
        floor = self._limits.retry_floor * 2.0 ** min(max(failures - 1, 0), _DOUBLINGS)
        return max(min(max(self._retry, floor), self._limits.retry_cap), self._put_off)
