"""The paths outside of MCP: those for people and monitors, and those of other APIs. Starlette serves them."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from gaia_bridge.server.http.access_policy import AccessPolicy, is_person, words_for_people
from gaia_bridge.server.http.guard import HEALTH_PATH, bearer_token
from gaia_bridge.server.http.token import token_proof
from gaia_bridge.text.json_text import valid_json
from gaia_bridge.text.json_types import JSON

_CHALLENGE: Final = 128
"""Characters of a challenge; ours have 64."""
_Report = Callable[[], JSON]


def make_routes(report: Mapping[str, _Report], policy: AccessPolicy, further: Iterable[BaseRoute]) -> Starlette:
    """Build the application that serves these paths; each report is the answer of a plain GET route."""

    async def tell_people(request: Request) -> Response:
        if not is_person(request.scope):
            return Response(status_code=405, headers={"allow": "POST"})
        return PlainTextResponse(words_for_people(policy))

    routes: list[BaseRoute] = [Route("/", tell_people, methods=["GET"])]
    for path, answer in report.items():
        serve = _healthy(answer, policy) if path == HEALTH_PATH else _reporting(answer)
        routes.append(Route(path, serve, methods=["GET"]))
    return Starlette(routes=[*routes, *further])


def _reporting(answer: _Report) -> Callable[[Request], Awaitable[Response]]:
    async def report(request: Request) -> Response:
        return JSONResponse(valid_json(answer()))

    return report


def _healthy(answer: _Report, policy: AccessPolicy) -> Callable[[Request], Awaitable[Response]]:
    """Return the health check. A challenge lets a client see that we know the token before it sends its own. A client
    without the token that it needs learns only that we live.
    """

    async def report(request: Request) -> Response:
        health, token = answer(), policy.token.text
        if token is None:
            return JSONResponse(health)
        credential = bearer_token(request.headers.get("authorization", "").encode("latin-1"))
        if not hmac.compare_digest(credential, token.encode()):
            health = {"status": health["status"]}
        challenge = request.query_params.get("challenge", "")
        if 0 < len(challenge) <= _CHALLENGE:
            health["proof"] = token_proof(token, challenge, request.headers.get("host", ""))
        return JSONResponse(health)

    return report
