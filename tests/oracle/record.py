"""Records what clients of other hands send over HTTP: `python -m tests.oracle.record`, after their packages changed.

Each plays its round (`tests/foreign`) against the agent of that folder; `wires/` gets one file of JSON lines per
client: the method, the headers that MCP knows, and the body of every request, in the order in which they came. Names of
sessions are left out, and so are answers to the server and the states that it handed out: only it can take them.
The wire of VS Code was taken by hand from the log of a proxy: one session, and the subscription of another.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import anyio

from gaia_bridge.bridge import Bridge
from gaia_bridge.protocol.json_types import JSON
from gaia_bridge.server.http.access_policy import AccessPolicy
from gaia_bridge.server.http.listener import HttpServer, bind
from tests.conformance.runner import install_packages, node_binary
from tests.foreign.smoke_agent import SmokeAgent
from tests.support.installed_programs import MCP1, python_with

WIRES: Final = Path(__file__).with_name("wires")
FOREIGN: Final = Path(__file__).resolve().parent.parent / "foreign"
CONFORMANCE: Final = FOREIGN.with_name("conformance")

KEPT: Final = frozenset(
    ("accept", "content-type", "last-event-id", "mcp-method", "mcp-name", "mcp-protocol-version", "mcp-session-id")
)
"""Headers that say something to a server of MCP; the others tell of the machine."""
ROUND_SECONDS: Final = 60


class _Recorder:
    """An application that notes what it is asked, and has another answer."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.noted: list[JSON] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode(): value.decode() for name, value in scope["headers"] if name.decode() in KEPT}
        if "mcp-session-id" in headers:
            headers["mcp-session-id"] = "SESSION"
        note: JSON = {"method": scope["method"], "headers": headers}
        self.noted.append(note)
        body = bytearray()

        async def take() -> Any:
            message = await receive()
            if message["type"] == "http.request" and message.get("body"):
                body.extend(message["body"])
                if not message.get("more_body"):
                    note["body"] = json.loads(body)
            return message

        await self._app(scope, take, send)


async def _wire_of(command: list[str]) -> list[JSON]:
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
                await anyio.run_process([*command, f"http://127.0.0.1:{port}/mcp"])
            server.stop()
    return [note for note in recorder.noted if _lasts(note.get("body"))]


def _lasts(body: Any) -> bool:
    """Whether a body means something elsewhere: answers to a server, and the state it handed out, do not."""
    return body is None or ("method" in body and "requestState" not in (body.get("params") or {}))


def _clients() -> Mapping[str, list[str]]:
    install_packages(CONFORMANCE)
    install_packages(FOREIGN)
    typescript = [node_binary(CONFORMANCE), str(FOREIGN / "typescript_client.mjs")]
    return {
        "python-1": [python_with(MCP1), str(FOREIGN / "python_client.py"), "http"],
        "typescript-1": [*typescript, "sdk", "http", "legacy"],
        "typescript-2": [*typescript, "client", "http", "legacy"],
        "typescript-2-modern": [*typescript, "client", "http", "auto"],
    }


def main() -> None:
    """Write all of them anew."""
    for name, command in _clients().items():
        noted = anyio.run(_wire_of, command)
        lines = [json.dumps(note, ensure_ascii=False) + "\n" for note in noted]
        (WIRES / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
