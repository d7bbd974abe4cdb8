"""The client that the official suite observes: what a scenario asks for, done with our own outbound core.

The suite runs `python client_program.py URL` with the scenario's name in `MCP_CONFORMANCE_SCENARIO` and what the client
has to know in `MCP_CONFORMANCE_CONTEXT`. Like the bridge, and unlike the clients that the suite is made for, it is not
told which revision the server speaks: it finds out.

With `MCP_CONFORMANCE_THROUGH=bridge` it does it through a bridge, whose client half is what the suite then observes.

Exit status: 0 it did what was asked; 1 it did not, or refused a server that must be refused.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import anyio
import httpx2
from msgspec.structs import replace

from gaia_bridge.client import ClientDelegate, Connection, connect
from gaia_bridge.client.transports.http.streamable_http import StreamableHttpTransport
from gaia_bridge.errors import BridgeError
from gaia_bridge.model import HttpServerSpec, OAuthOptions
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.text.json_types import JSON

REDIRECT_URI: Final = "http://127.0.0.1:3000/callback"
"""Nobody listens there: the login is over as soon as the authorization server says to go there."""
METADATA_URL: Final = "https://conformance-test.local/client-metadata.json"
"""The suite's mock authorization servers know it, and do not fetch it."""
EXAMPLES: Final[JSON] = {"string": "x", "integer": 1, "number": 1, "boolean": True, "object": {}, "array": []}
"""A value of each type."""

Play = Callable[[Connection, JSON], Awaitable[object]]
"""Does what a scenario asks for, with the scenario's context."""


class Role(ClientDelegate):
    """Declares everything, and answers every question with what fits."""

    capabilities: JSON = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}

    async def answer(self, method: str, params: JSON, during: int | None = None) -> JSON:
        match method:
            case "elicitation/create":
                return {"action": "accept", "content": filled_in(params.get("requestedSchema", {}))}
            case "sampling/createMessage":
                return {"role": "assistant", "model": "none", "content": {"type": "text", "text": "42"}}
            case _:
                return {"roots": []}


def filled_in(schema: JSON) -> JSON:
    """An object with all defaults of a schema (SEP-1034), and with examples of what has none but is required."""
    properties: JSON = schema.get("properties", {})
    required = schema.get("required", ())
    return {
        name: described.get("default", EXAMPLES.get(described.get("type", "string")))
        for name, described in properties.items()
        if "default" in described or name in required
    }


async def call(connection: Connection, name: str, arguments: JSON) -> JSON:
    return await connection.request("tools/call", {"name": name, "arguments": arguments})


async def call_with_examples(connection: Connection, tools: Sequence[JSON]) -> None:
    for tool in tools:
        await call(connection, tool["name"], filled_in(tool["inputSchema"]))


async def list_tools(connection: Connection, _: JSON) -> None:
    await connection.list_all("tool")


async def call_first_tool(connection: Connection, _: JSON) -> None:
    await call_with_examples(connection, (await connection.list_all("tool"))[:1])


async def call_all_tools(connection: Connection, _: JSON) -> None:
    await call_with_examples(connection, await connection.list_all("tool"))


async def use_everything(connection: Connection, context: JSON) -> None:
    await call_all_tools(connection, context)
    for resource in await connection.list_all("resource"):
        await connection.request("resources/read", {"uri": resource["uri"]})
    for prompt in await connection.list_all("prompt"):
        await connection.request("prompts/get", {"name": prompt["name"]})


async def replay_calls(connection: Connection, context: JSON) -> None:
    known = {tool["name"] for tool in await connection.list_all("tool")}
    for wanted in context["toolCalls"]:
        if wanted["name"] in known:
            await call(connection, wanted["name"], wanted["arguments"])


async def echo_schema(connection: Connection, _: JSON) -> None:
    [tool] = [tool for tool in await connection.list_all("tool") if tool["name"] == "json_schema_2020_12_tool"]
    await call(connection, "json_schema_echo", {"schema": tool["inputSchema"]})


async def list_skills(connection: Connection, _: JSON) -> None:
    await connection.list_all("skill")


async def use_skills(connection: Connection, _: JSON) -> None:
    """Read all files of all skills, each skill's `SKILL.md` first, for as long as they are what their entries say."""
    from gaia_bridge.sources.skills.verification import verified

    for skill in await connection.list_all("skill"):
        for file in sorted(skill["resources"], key=lambda file: str(file["uri"]) != skill["uri"]):
            result = await connection.request("resources/read", {"uri": file["uri"]})
            verified(skill, file["uri"], result["contents"])


PLAYS: Final[dict[str, Play]] = {
    "initialize": list_tools,
    "json-schema-ref-no-deref": list_tools,
    "json-schema-2020-12-preservation": echo_schema,
    "http-standard-headers": use_everything,
    "http-custom-headers": replay_calls,
    "http-invalid-tool-headers": call_all_tools,
    "sep-2322-client-request-state": call_all_tools,
    "sep-2640-client-no-prefetch": list_skills,
    **{f"sep-2640-client-verify-{what}": use_skills for what in ("digest", "frontmatter", "size")},
}
"""Scenarios that ask for more, or less, than listing the tools and calling the first."""


class UnattendedLogin:
    """A user who agrees to everything at once. Implements `UserInteraction` and `Login`."""

    redirect_uri = REDIRECT_URI

    @asynccontextmanager
    async def login(self, redirect_uris: Sequence[str]) -> AsyncGenerator[UnattendedLogin]:
        yield self

    async def authorize(self, url: str) -> Any:
        from mcp.client.auth import AuthorizationCodeResult

        async with httpx2.AsyncClient() as browser:
            answer = await browser.get(url, follow_redirects=False)
        sent = dict(parse_qsl(urlsplit(answer.headers["location"]).query))
        return AuthorizationCodeResult(code=sent["code"], state=sent.get("state"), iss=sent.get("iss"))


async def authorization(scenario: str, spec: HttpServerSpec, context: JSON, folder: Path) -> httpx2.Auth:
    """What a user would have configured for a server that wants to know who we are.

    The modules are loaded here, because the other scenarios do without: each runs in a process of its own.
    """
    from gaia_bridge.client.oauth.provider import oauth_for

    sys.path.append(str(Path(__file__).parents[2]))  # the program is started by its path
    from tests.support.oauth_grants import advertised_issuers, identity_exchange, signed_assertion

    client_id, secret = context.get("client_id"), context.get("client_secret")
    match scenario:
        case "auth/client-credentials-basic":
            [issuer] = await advertised_issuers(spec)
            options = OAuthOptions(grant="client_credentials", client_id=client_id, client_secret=secret, issuer=issuer)
        case "auth/client-credentials-jwt":
            [issuer] = await advertised_issuers(spec)
            assertion = signed_assertion(context["client_id"], context["private_key_pem"], context["signing_algorithm"])
            options = OAuthOptions(client_id=client_id, client_assertion=assertion, issuer=issuer)
        case "auth/enterprise-managed-authorization" | "auth/cross-app-access-complete-flow":
            [issuer] = await advertised_issuers(spec)
            exchange = identity_exchange(
                context["idp_token_endpoint"], context["idp_client_id"], context["idp_id_token"]
            )
            options = OAuthOptions(
                client_id=client_id, client_secret=secret, identity_assertion=exchange, issuer=issuer
            )
        case _:
            options = OAuthOptions(client_id=client_id, client_secret=secret, client_metadata_url=METADATA_URL)
    return oauth_for(replace(spec, oauth=options), interaction=UnattendedLogin(), folder=folder)


@asynccontextmanager
async def through_bridge(spec: HttpServerSpec) -> AsyncGenerator[HttpServerSpec]:
    """A bridge that publishes a server over HTTP; how to reach that server through it."""
    from gaia_bridge.bridge import Bridge
    from gaia_bridge.server.http.access_policy import AccessPolicy
    from gaia_bridge.server.http.listener import HttpServer, bind
    from gaia_bridge.sources.upstream.source import Upstream

    host = "127.0.0.1"
    async with Bridge() as bridge, anyio.create_task_group() as tasks:
        await bridge.add_upstream(spec, StreamableHttpTransport(spec, bridge.settings.upstream))
        [upstream] = bridge.sources
        sockets = bind(host, 0)
        port: int = sockets[0].getsockname()[1]
        app = bridge.asgi(AccessPolicy.for_address(host, port))
        server = HttpServer(app, sockets=sockets, limits=bridge.settings.http, on_shutdown=[bridge.close_streams])
        await tasks.start(server.run)
        if isinstance(upstream, Upstream):
            await upstream.wait_settled()
        yield HttpServerSpec("bridge", f"http://{host}:{port}/servers/{spec.name}/mcp")
        server.stop()


async def main(url: str, scenario: str, context: JSON) -> None:
    """Do what a scenario asks for.

    Raises:
        BridgeError: It could not be done.
    """
    spec, limits = HttpServerSpec("conformance", url), UpstreamLimits()
    with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
        auth = None
        if scenario.startswith("auth/"):
            auth = await authorization(scenario, spec, context, Path(folder))
        async with AsyncExitStack() as stack:
            if os.environ.get("MCP_CONFORMANCE_THROUGH") == "bridge":
                spec = await stack.enter_async_context(through_bridge(spec))
            transport = StreamableHttpTransport(spec, limits, auth=auth)
            connection = await stack.enter_async_context(connect(transport, Role(), limits))
            await PLAYS.get(scenario, call_first_tool)(connection, context)


if __name__ == "__main__":
    try:
        asyncio.run(
            main(
                sys.argv[-1],
                os.environ["MCP_CONFORMANCE_SCENARIO"],
                json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}")),
            )
        )
    except BridgeError as error:
        sys.exit(f"the server {error}")
