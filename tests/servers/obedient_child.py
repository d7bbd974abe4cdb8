"""A child that does what it is told, however bad: at its start, and with each request.

    python -S obedient_child.py CODE

The code runs with the helpers below. A request's code is its `params.do`; what it has to say goes through `reply` or,
where no server may say such a thing, through `raw`. Notifications are remembered in `heard`.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from typing import Any

held: list[Any] = []
heard: list[Any] = []
current: Any = None


def raw(data: bytes) -> None:
    """Write bytes to the standard output."""
    while data:
        data = data[os.write(1, data) :]


def send(message: dict[str, Any]) -> None:
    """Send a message."""
    raw(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def reply(result: Any = None) -> None:
    """Answer the current request."""
    send({"id": current, "result": {} if result is None else result})


def alive(role: str) -> None:
    """Hold a connection for as long as this process lives."""
    link = socket.create_connection(("127.0.0.1", int(os.environ["LIVENESS"])))
    link.sendall(f"{role} {os.getpid()}\n".encode())
    held.append(link)


def spawn(code: str, **options: Any) -> None:
    """Start another such process; it does not share our standard streams."""
    options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **options}
    held.append(subprocess.Popen([sys.executable, "-S", __file__, code], **options))


def stay() -> None:
    """Never end, whatever is asked politely."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        time.sleep(3600)


if len(sys.argv) > 1:
    exec(sys.argv[1])
rest = b""
while chunk := os.read(0, 65536):
    *lines, rest = (rest + chunk).split(b"\n")
    for line in lines:
        message = json.loads(line)
        if "id" in message and "method" in message:
            current = message["id"]
            exec(message["params"]["do"])
        else:
            heard.append(message)
