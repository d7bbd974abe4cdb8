"""The least that a relay from HTTP to a child's standard streams can be: uvicorn, two JSON codecs, and no MCP.

    python raw_relay.py PORT COMMAND...

What the bridge needs beyond this is what the bridge does.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn


async def main(port: int, command: list[str]) -> None:
    """Serve until ended."""
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    assert child.stdin and child.stdout
    stdin, stdout, numbers = child.stdin, child.stdout, itertools.count(1)
    waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}

    async def read() -> None:
        async for line in stdout:
            answer = json.loads(line)
            waiting.pop(answer["id"]).set_result(answer)

    async def app(scope: Any, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]) -> None:
        message = json.loads((await receive())["body"])  # small requests come in one piece
        status, body = 202, b""
        if (asked := message.get("id")) is None:
            stdin.write(json.dumps(message).encode() + b"\n")
        else:
            message["id"] = number = next(numbers)
            waiting[number] = asyncio.get_running_loop().create_future()
            stdin.write(json.dumps(message).encode() + b"\n")
            status, body = 200, json.dumps(await waiting[number] | {"id": asked}).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    reading = asyncio.create_task(read())
    config = uvicorn.Config(app, port=port, log_level="error", access_log=False, lifespan="off")
    await uvicorn.Server(config).serve()
    reading.cancel()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvicorn.Config("").get_loop_factory()) as runner:
        runner.run(main(int(sys.argv[1]), sys.argv[2:]))
