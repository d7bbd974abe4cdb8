"""An agent that writes to standard output, and reads standard input, in every way there is."""

from __future__ import annotations

import atexit
import ctypes
import logging
import os
import subprocess
import sys
from typing import Any

CHILD = """
import os, sys
print("from a child", flush=True)
assert sys.stdin.read() == ""
for number in range(3, 100):
    try:
        os.write(number, b"from a child through descriptor %d" % number)
    except OSError:
        pass
"""
libc = ctypes.CDLL(None)


def make_noise(when: str) -> None:
    """Write everywhere where a line could slip into the protocol."""
    print(f"print {when}")  # noqa: T201
    sys.stdout.buffer.write(f"buffer {when}\n".encode())
    if sys.__stdout__ is not None:
        sys.__stdout__.write(f"original {when}\n")
    os.write(1, f"descriptor {when}\n".encode())
    libc.puts(f"libc {when}".encode())
    logging.getLogger("noisy").info("logging %s", when)
    with open("/dev/stdout", "w", encoding="utf-8") as out:
        out.write(f"device {when}\n")


logging.getLogger("noisy").addHandler(logging.StreamHandler(sys.stdout))
logging.getLogger("noisy").setLevel(logging.INFO)
make_noise("at import")
atexit.register(make_noise, "at exit")


class NoisyAgent:
    """See the module."""

    def __init__(self) -> None:
        make_noise("in the constructor")

    def get_mcp_tool_definitions(self) -> list[dict[str, Any]]:
        make_noise("in a listing")
        return [{"name": "shout", "inputSchema": {}}]

    def execute_mcp_tool(self, tool_name: str, arguments: dict[str, Any]) -> Any:
        make_noise("in a tool")
        libc.system(b"echo from a shell")
        child = subprocess.run([sys.executable, "-S", "-c", CHILD], close_fds=False, check=False)
        try:
            typed = input("from a prompt")
        except EOFError:
            typed = None
        return {"child": child.returncode, "typed": typed, "read": os.read(0, 10).decode()}
