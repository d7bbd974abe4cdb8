"""Large results become links: a model reads what it needs of them, not all of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from gaia_bridge.calls.results.linking import Cut, ResultLinks
from gaia_bridge.constants import LEAST_RESULT
from gaia_bridge.middleware.base import CallNext, McpRequest, Middleware
from gaia_bridge.text.json_types import JSON


class ResultSize(Middleware):
    """Replaces what is large in the result of a tool by a link to a resource that holds it.

    The largest blocks first, until the result is small enough: of a text, its beginning stays. Of many blocks, the last
    ones become one link. Structured content is
    left out as well, unless the tool has an output schema, which promises it to the client's program. What it holds of
    a function that returns a text is shortened as the text is, as the schema permits any.

    The resource is read at the same endpoint, by whoever knows its URI, which nobody can guess. A result that was
    forgotten is a resource that is not there.

    Args:
        size: Bytes that a result may have.
        preview: Characters of a text that stay, at most.
        seconds: How long what is linked is kept.
        entries: How many links are kept.
        kept_size: Bytes that are kept for them, together. What is larger alone stays in its result.
    """

    capabilities: ClassVar[Mapping[str, JSON]] = {"resources": {}}

    def __init__(
        self,
        size: int = 65_536,
        *,
        preview: int = 1_000,
        seconds: float = 3_600.0,
        entries: int = 256,
        kept_size: int = 64 * 1_048_576,
    ) -> None:
        if size < LEAST_RESULT:
            raise ValueError(
                f"got a size of {size} bytes; expected at least {LEAST_RESULT}, as links have some hundred each"
            )
        self._cut = Cut(size, preview)
        self._links = ResultLinks(seconds, entries, kept_size)

    async def on_call_tool(self, request: McpRequest, call_next: CallNext) -> JSON:
        """Make the result small enough."""
        return self._links.shortened(await call_next(request), request.name, request.tool, self._cut)

    async def on_read_resource(self, request: McpRequest, call_next: CallNext) -> JSON:
        """Read what a link leads to."""
        contents = self._links.contents(request.name)
        return await call_next(request) if contents is None else {"contents": contents}
