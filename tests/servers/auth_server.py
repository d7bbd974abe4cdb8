"""An MCP server that wants a token, and the authorization server that gives it, on one port of this machine.

    async with auth_server() as server:
        ... server.url ... server.grants["refresh_token"] ... server.valid ...

What a test wants to go wrong, it changes: the documents, the handlers in `server.http.faults`, the sets of what counts.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.servers.evil_http import EvilServer, Exchange, evil_http

__all__ = ["AuthServer", "auth_server"]


class AuthServer:
    """The two servers; made by `auth_server`.

    Args:
        http: What they answer through.
    """

    def __init__(self, http: EvilServer) -> None:
        self.http = http
        self.url = http.url("mcp")
        """The MCP server."""
        self.issuer = http.url("").rstrip("/")
        self.protection: dict[str, Any] = {"resource": self.url, "authorization_servers": [self.issuer]}
        self.metadata: dict[str, Any] = {
            "issuer": self.issuer,
            "authorization_endpoint": http.url("authorize"),
            "token_endpoint": http.url("token"),
            "registration_endpoint": http.url("register"),
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
        }
        self.challenge = f'Bearer resource_metadata="{http.url(".well-known/oauth-protected-resource/mcp")}"'
        self.valid: dict[str, str] = {}
        """Access tokens that the MCP server takes, with their scopes."""
        self.refresh_tokens: set[str] = set()
        self.needed = ""
        """The scope that the MCP server wants; one more word than it can get means never."""
        self.expires_in: int | None = 3600
        self.wrong_issuer: str | None = None
        """What the answer to a login says instead of the issuer."""
        self.grants: Counter[str] = Counter()
        """Token requests, by their kind."""
        self.token_requests: list[dict[str, str]] = []
        self.clients: dict[str, dict[str, Any]] = {}
        self.authorizations: list[dict[str, str]] = []
        self.hold: asyncio.Event | None = None
        """Token requests wait for it."""
        self._codes: dict[str, dict[str, str]] = {}
        self._numbers = count(1)
        http.faults.update(
            {
                "mcp": self.serve_mcp,
                ".well-known": self.serve_documents,
                "register": self.serve_registration,
                "authorize": self.serve_authorization,
                "token": self.serve_token,
            }
        )

    async def serve_mcp(self, exchange: Exchange) -> None:
        """Answer any request, if it comes with a token of sufficient scope."""
        scheme, _, token = exchange.headers.get("authorization", "").partition(" ")
        scope = self.valid.get(token) if scheme == "Bearer" else None
        if scope is None:
            await exchange.answer(status=401, headers={"www-authenticate": self.challenge})
        elif not set(self.needed.split()) <= set(scope.split()):
            wanted = f'{self.challenge}, error="insufficient_scope", scope="{self.needed}"'
            await exchange.answer(status=403, headers={"www-authenticate": wanted})
        else:
            await exchange.answer(exchange.result(token=token))

    async def serve_documents(self, exchange: Exchange) -> None:
        """Answer with one of the two metadata documents."""
        documents = {"oauth-protected-resource": self.protection, "oauth-authorization-server": self.metadata}
        document = documents.get(exchange.path[1])
        await (exchange.answer(status=404) if document is None else exchange.answer(document))

    async def serve_registration(self, exchange: Exchange) -> None:
        """Register whoever asks."""
        client_id = f"client-{next(self._numbers)}"
        self.clients[client_id] = exchange.message
        await exchange.answer({**exchange.message, "client_id": client_id}, status=201)

    async def serve_authorization(self, exchange: Exchange) -> None:
        """Log in whoever comes, at once."""
        request = _single(urlsplit(exchange.target).query)
        self.authorizations.append(request)
        code = f"code-{next(self._numbers)}"
        self._codes[code] = request
        answer = {"code": code, "state": request["state"], "iss": self.wrong_issuer or self.issuer}
        await exchange.answer(status=302, headers={"location": f"{request['redirect_uri']}?{urlencode(answer)}"})

    async def serve_token(self, exchange: Exchange) -> None:
        """Change a code, a refresh token or a client's secret for an access token."""
        form = _single(exchange.body.decode())
        self.grants[form["grant_type"]] += 1
        self.token_requests.append(form)
        if self.hold is not None:
            await self.hold.wait()
        if not self._is_granted(form):
            await exchange.answer({"error": "invalid_grant", "error_description": "unknown or used"}, status=400)
            return
        await exchange.answer(self.issue(self._scope_of(form)))

    def issue(self, scope: str = "") -> dict[str, Any]:
        """A new pair of tokens, as the token endpoint gives it."""
        number = next(self._numbers)
        access, refresh = f"access-{number}", f"refresh-{number}"
        self.valid[access] = scope
        self.refresh_tokens.add(refresh)
        lifetime = {} if self.expires_in is None else {"expires_in": self.expires_in}
        return {"access_token": access, "refresh_token": refresh, "token_type": "bearer", "scope": scope, **lifetime}

    def _is_granted(self, form: dict[str, str]) -> bool:
        if form.get("resource") != self.url:
            return False
        if form["grant_type"] == "refresh_token":
            known = form["refresh_token"] in self.refresh_tokens
            self.refresh_tokens.discard(form["refresh_token"])
            return known
        if form["grant_type"] == "authorization_code":
            request = self._codes.get(form["code"], {})
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
            return (request.get("code_challenge"), request.get("client_id")) == (challenge, form["client_id"])
        return form["grant_type"] == "client_credentials"

    def _scope_of(self, form: dict[str, str]) -> str:
        return self._codes.get(form.get("code", ""), form).get("scope", "")


@asynccontextmanager
async def auth_server() -> AsyncGenerator[AuthServer]:
    """Run both servers for the length of a block."""
    async with evil_http() as http:
        yield AuthServer(http)


def _single(query: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(query).items()}
