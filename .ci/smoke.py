"""Run the README's first command as it is printed there, and see a client's first request answered.

Usage: `python .ci/smoke.py 'COMMAND'`. The command must end up serving at the default address.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from urllib.request import Request, urlopen

HOST, PORT = "127.0.0.1", 8765
INSTALL_LIMIT = 900
"""Seconds until the command serves: it may have to download everything first."""
STOP_LIMIT = 15
"""Seconds from SIGTERM to the end of the process (F-115)."""

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "smoke", "version": "1"}},
}


def main(command: str) -> int:
    """Return the exit code: 0 when the command served, answered and stopped."""
    if listening():
        return complain(f"something else listens on {HOST}:{PORT}")
    process = subprocess.Popen(["bash", "-c", command], stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        if not wait_until_listening(process):
            return complain(f"the command does not serve on {HOST}:{PORT}; its exit code is {process.poll()}")
        say(f"answered: {ask()[:300]}")
    finally:
        stopped = stop(process)
    return 0 if stopped and not listening() else complain(f"still running {STOP_LIMIT} s after SIGTERM")


def listening() -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, PORT)) == 0


def wait_until_listening(process: subprocess.Popen[bytes]) -> bool:
    deadline = time.monotonic() + INSTALL_LIMIT
    while time.monotonic() < deadline and process.poll() is None:
        if listening():
            return True
        time.sleep(0.2)
    return False


def ask() -> str:
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    with urlopen(f"http://{HOST}:{PORT}/health", timeout=10) as health:
        say(f"health: {health.status}")
    request = Request(f"http://{HOST}:{PORT}/mcp", json.dumps(INITIALIZE).encode(), headers)
    with urlopen(request, timeout=10) as answer:
        body: str = answer.read(100_000).decode()
    if '"serverInfo"' not in body:
        raise SystemExit(f"no initialize result: {body}")
    return body.strip()


def stop(process: subprocess.Popen[bytes]) -> bool:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_LIMIT
    while time.monotonic() < deadline:
        if process.poll() is not None and not listening():
            return True
        time.sleep(0.1)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    return False


def say(line: str) -> None:
    sys.stdout.write(line + "\n")


def complain(line: str) -> int:
    sys.stderr.write(line + "\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
