"""CORS, for the pages of other origins that the operator allows. Most bridges allow none, and do not import this."""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from typing import Final

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Scope, Send

_METHODS: Final = ("GET", "POST", "DELETE")


class CrossOrigin:
    """The CORS headers for allowed pages of other origins, which may read some of our own response headers."""

    def __init__(self, app: ASGIApp, origins: Collection[str], exposed: Sequence[str]) -> None:
        self._cors = CORSMiddleware(
            app,
            allow_origins=origins,
            allow_methods=_METHODS,
            # A browser needs each name spelled out, also the open-ended Mcp-Param-*, so what it asks for is mirrored.
            # The page was allowed by its full name; a list of headers would guard nothing more.
            allow_headers=("*",),
            allow_private_network=True,
            expose_headers=exposed,
        )

    def preflight(self, scope: Scope) -> ASGIApp | None:
        """Return the answer to a preflight request, or `None` for any other request."""
        headers = Headers(scope=scope)
        if scope["method"] != "OPTIONS" or "access-control-request-method" not in headers:
            return None
        return self._cors.preflight_response(headers)

    def sending(self, scope: Scope, send: Send) -> Send:
        """Return a `send` that adds the headers with which the page may read the answer."""
        return functools.partial(self._cors.send, send=send, request_headers=Headers(scope=scope))
