"""Stands in for a bridge in the background. Run with `-I -S`, so that it starts in no time.

Usage: `fake_bridge.py SOCKET HOW VERSION LOCK`. HOW is what it does with whoever connects: `greet`, `refuse`, `report`,
`hang`, `stammer` or `close`; or what it does instead: `fail` to start, `sleep` before it can be connected to. LOCK is a
descriptor that it closes once it can.
"""

import json
import os
import socket
import sys
import threading
import time


def say(text: str) -> None:
    """Write to the log."""
    os.write(2, text.encode() + b"\n")


def serve(connection: socket.socket, path: str, how: str, version: str) -> None:
    """Answer one greeting; end if that asks for it."""
    if how == "close":
        return connection.close()
    wanted = json.loads(connection.makefile("rb").readline() or b"{}").get("gaia-bridge", {})
    say(f"{os.getpid()} hears {wanted.get('do')} from {wanted.get('version')}")
    if how == "hang":
        threading.Event().wait()
    if how == "stammer":
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    else:
        told = {"version": version, "pid": os.getpid(), "keep": 77.0, "heard": wanted}
        if how == "report" and wanted.get("do") == "status":
            told["report"] = "x" * 300_000
        if how == "refuse" and wanted.get("do") == "serve":
            told["error"] = "expected something else"
        ends = wanted.get("do") in ("drain", "stop") and wanted.get("pid") in (None, os.getpid())
        if ends:
            os.unlink(path)
        connection.sendall(json.dumps({"gaia-bridge": told}, separators=(",", ":")).encode() + b"\n")
        if ends:
            os._exit(0)
    threading.Event().wait()


def main() -> None:
    """Serve for ever."""
    path, how, version, lock = sys.argv[1:]
    say(f"started {os.getpid()}")
    if how == "fail":
        say("x" * 5_000)
        say("gaia-bridge background: error: the agent is broken: no module named 'x'")
        sys.exit(66)
    if how == "sleep":
        time.sleep(3600)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(128)
    os.close(int(lock))
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve, args=(connection, path, how, version), daemon=True).start()


main()
