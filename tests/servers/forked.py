"""Starts a server that is written with the SDK in a moment: by a fork of a process that has imported the SDK already.

    python -S forked.py SOCKET SCRIPT [ARGUMENT...]     stands in for the server, as its parent expects it
    python forked.py --serve LISTENER OWNER             forks; ends when nobody holds the other end of the pipe OWNER

The server has the descriptors, environment and folder of its stand-in, which passes signals on and ends as the server
does. If the stand-in is killed, the server is killed as well.
"""

from __future__ import annotations

import marshal
import os
import select
import signal
import socket
import sys


def stand_in(path: str, arguments: list[str]) -> None:
    """Let the server be forked, and end when it ends."""
    order = marshal.dumps((os.getcwd(), arguments, dict(os.environ)))
    wire = socket.socket(socket.AF_UNIX)
    wire.connect(path)
    socket.send_fds(wire, [len(order).to_bytes(4, "big")], [0, 1, 2])
    wire.sendall(order)
    os.closerange(0, 3)  # so that the end of the server closes its pipes
    pid = int.from_bytes(wire.recv(4), "big")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: os.kill(pid, number))
    code = int.from_bytes(wire.recv(2), "big", signed=True)
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def serve(listener: socket.socket, owner: int) -> None:
    """Fork a server for each stand-in, until the owner has ended."""
    if os.fork():
        os._exit(0)
    os.setsid()  # nobody finds this process among the children of a test
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    import gc
    import importlib

    for name in ("mcp.server.mcpserver", "mcp.server.stdio"):
        importlib.import_module(name)
    gc.freeze()
    while owner not in select.select([listener.fileno(), owner], [], [])[0]:
        wire, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            _watch(wire)
        wire.close()


def _watch(wire: socket.socket) -> None:
    """Fork the server, report its end, and kill it if its stand-in is gone."""
    head, descriptors, _, _ = socket.recv_fds(wire, 4, 3)
    order = b""
    while len(order) < int.from_bytes(head, "big"):
        order += wire.recv(65536)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid == 0:
        wire.close()
        _become(descriptors, *marshal.loads(order))
    for descriptor in (0, 1, 2, *descriptors):
        os.close(descriptor)
    wire.sendall(pid.to_bytes(4, "big"))
    end = os.pidfd_open(pid)
    if end not in select.select([end, wire.fileno()], [], [])[0]:
        os.kill(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    try:
        wire.sendall(code.to_bytes(2, "big", signed=True))
    finally:
        os._exit(0)


def _become(descriptors: list[int], folder: str, arguments: list[str], environment: dict[str, str]) -> None:
    """Run the script of the server as `python SCRIPT` does."""
    import runpy

    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = arguments
    sys.path[0] = os.path.dirname(arguments[0])
    code = 0
    try:
        runpy.run_path(arguments[0], run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        code = 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve(socket.socket(fileno=int(sys.argv[2])), int(sys.argv[3]))
    else:
        stand_in(sys.argv[1], sys.argv[2:])
