"""Records what clients of other hands send over HTTP: `python -m tests.oracle.record [CLIENT...]`.

Each plays its round (`tests/foreign`) against the agent of that folder; `wires/` gets one file of JSON lines per
client: the method, the headers that MCP knows, and the body of every request, in the order in which they came, and
whether an earlier one was unanswered then. `SESSION`, `QUESTION` and `STATE` stand for what the server made up.
The wire of VS Code was taken by hand from the log of a proxy: one session, and the subscription of another.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import anyio

from gaia_bridge.bridge import Bridge
from gaia_bridge.server.http.access_policy import AccessPolicy
from gaia_bridge.server.http.listener import HttpServer, bind
from gaia_bridge.text.json_types import JSON
from tests.conformance.foreign_servers import FASTMCP_WITH_TASKS
from tests.conformance.runner import node_binary
from tests.foreign.smoke_agent import SmokeAgent
from tests.foreign.test_foreign_clients import TYPESCRIPT, inspections
from tests.foreign.test_frameworks import SMOLAGENTS
from tests.oracle.endpoints import ANY_QUESTION, ANY_STATE
from tests.support.installed_programs import MCP1, MCP2, PythonPackages

WIRES: Final = Path(__file__).with_name("wires")
FOREIGN: Final = Path(__file__).resolve().parent.parent / "foreign"

KEPT: Final = frozenset(
    ("accept", "content-type", "last-event-id", "mcp-method", "mcp-name", "mcp-protocol-version", "mcp-session-id")
)
"""Headers that say something to a server of MCP; the others tell of the machine."""
ROUND_SECONDS: Final = 60
URL: Final = "URL"
MCP_OF_2024: Final = ("mcp==1.6.0", "pydantic<2.12")
"""The last one of 2024-11-05, which has HTTP with SSE alone; it uses what a later pydantic lacks."""
MCP_OF_2025: Final = ("mcp==1.9.4", "pydantic<2.12")
"""The last one of 2025-03-26."""
SMOKED: Final = json.dumps({"unit": "m", "lengths": [{"value": 1.5}, {"value": 2}]})
"""What smolagents calls a tool with."""


class _Note(NamedTuple):
    """One request over HTTP."""

    request: JSON
    number: int
    """How many came before."""
    overtaken: list[int]
    """How many had come when it was answered; nothing yet, if it never was."""

    def waits_for(self, other: _Note) -> bool:
        """Whether this request of MCP, or answer to one, came while the other was unanswered."""
        return (
            _is_asked(self.request)
            and _is_asked(other.request)
            and other.number < self.number < (other.overtaken or [sys.maxsize])[0]
        )


def _is_asked(request: JSON) -> bool:
    body = request.get("body", {})
    return "id" in body and body.get("method") != "subscriptions/listen"


class _Recorder:
    """An application that notes what it is asked, and has another answer."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.noted: list[_Note] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode(): value.decode() for name, value in scope["headers"] if name.decode() in KEPT}
        if "mcp-session-id" in headers:
            headers["mcp-session-id"] = "SESSION"
        note: JSON = {"method": scope["method"], "headers": headers}
        overtaken: list[int] = []
        self.noted.append(_Note(note, len(self.noted), overtaken))
        body = bytearray()

        async def take() -> Any:
            message = await receive()
            if message["type"] == "http.request" and message.get("body"):
                body.extend(message["body"])
                if not message.get("more_body"):
                    note["body"] = _portable(json.loads(body))
            return message

        async def give(message: Any) -> None:
            if message["type"] == "http.response.body" and not message.get("more_body"):
                overtaken.append(len(self.noted))
            await send(message)

        await self._app(scope, take, give)


def _portable(body: JSON) -> JSON:
    """A body without what only the server that it was sent to knows."""
    if "method" not in body:
        return {**body, "id": ANY_QUESTION}
    params: JSON = body.get("params") or {}
    if "requestState" not in params:
        return body
    [answer] = params["inputResponses"].values()
    return {**body, "params": {**params, "inputResponses": {ANY_QUESTION: answer}, "requestState": ANY_STATE}}


class _Round(NamedTuple):
    """How a client is run.

    Args:
        commands: One after the other.
        path: Of the URL that takes the place of `URL` in them.
    """

    commands: Sequence[Sequence[str]]
    path: str = "/mcp"


async def _wire_of(commands: Sequence[Sequence[str]], path: str) -> list[JSON]:
    async with Bridge() as bridge:
        await bridge.add_agent(SmokeAgent(), "smoke")
        sockets = bind("127.0.0.1", 0)
        port = sockets[0].getsockname()[1]
        recorder = _Recorder(bridge.asgi(AccessPolicy.for_address("127.0.0.1", port)))
        limits = bridge.settings.http
        server = HttpServer(recorder, sockets=sockets, limits=limits, on_shutdown=[bridge.close_streams])
        async with anyio.create_task_group() as tasks:
            await tasks.start(server.run)
            with anyio.fail_after(ROUND_SECONDS):
                for command in commands:
                    url = f"http://127.0.0.1:{port}{path}"
                    await anyio.run_process([url if it is URL else it for it in command], stderr=None)
            server.stop()
    return [
        {**note.request, **({"overlaps": True} if any(note.waits_for(other) for other in recorder.noted) else {})}
        for note in recorder.noted
    ]


def _clients() -> Mapping[str, _Round]:
    suite, _ = (packages.install() for packages in TYPESCRIPT)
    node = node_binary(suite.parent)
    typescript = [node, str(FOREIGN / "typescript_client.mjs")]
    python2, early = str(FOREIGN / "python2_client.py"), str(FOREIGN / "early_python_client.py")
    fastmcp, smolagents = FASTMCP_WITH_TASKS.install(), SMOLAGENTS.install()
    smoked = [smolagents, str(FOREIGN / "smolagents_client.py"), URL, "add_lengths", SMOKED]
    return {
        "python-2024-11-05": _Round([[PythonPackages(MCP_OF_2024).install(), early, "sse", URL]], "/sse"),
        "python-2025-03-26": _Round([[PythonPackages(MCP_OF_2025).install(), early, "http", URL]]),
        "python-1": _Round([[PythonPackages((MCP1,)).install(), str(FOREIGN / "python_client.py"), "http", URL]]),
        "python-2": _Round([[PythonPackages((MCP2,)).install(), python2, "mcp", "legacy", URL]]),
        "python-2-modern": _Round([[PythonPackages((MCP2,)).install(), python2, "mcp", "auto", URL]]),
        "fastmcp": _Round([[fastmcp, python2, "fastmcp", "legacy", URL]]),
        "fastmcp-modern": _Round([[fastmcp, python2, "fastmcp", "auto", URL]]),
        "smolagents": _Round([smoked]),
        "inspector": _Round(inspections(node, "http", "legacy", [URL])),
        "inspector-modern": _Round(inspections(node, "http", "modern", [URL])),
        "typescript-1": _Round([[*typescript, "sdk", "http", "legacy", URL]]),
        "typescript-2": _Round([[*typescript, "client", "http", "legacy", URL]]),
        "typescript-2-modern": _Round([[*typescript, "client", "http", "auto", URL]]),
    }


def main(only: Sequence[str]) -> None:
    """Write them anew.

    Args:
        only: Their names; none are all.
    """
    for name, played in _clients().items():
        if only and name not in only:
            continue
        noted = anyio.run(_wire_of, *played)
        lines = [json.dumps(note, ensure_ascii=False) + "\n" for note in noted]
        (WIRES / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
