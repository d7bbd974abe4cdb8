"""A process with children, to be killed: `python doomed_bridge.py`.

With `leave`, it has one, and ends while that is being stopped, as soon as its input ends. With
`stubborn`, it ignores SIGTERM.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys

import anyio
import anyio.to_thread

from gaia_bridge.client.transports.children.stdio import StdioTransport
from gaia_bridge.settings import UpstreamLimits
from tests.support.obedient_children import Received, child

CHILDREN = {
    "polite": "",
    "stubborn": "os.close(0); stay()",
    "parent": "spawn('alive(\"grandchild\"); stay()'); spawn('alive(\"stray\"); stay()', start_new_session=True)",
}


async def main() -> None:
    """Run the children until the end."""
    async with anyio.create_task_group() as tasks:
        for role, code in CHILDREN.items():
            tasks.start_soon(run, f"alive({role!r}); {code}")


async def run(code: str) -> None:
    """One child."""
    spec = child(code, LIVENESS=os.environ["LIVENESS"])
    async with StdioTransport(spec, UpstreamLimits()).connect(Received()):
        await anyio.sleep_forever()


async def stop_one(stopping: asyncio.Event) -> None:
    """Run a child until the input ends, then stop it."""
    spec = child(f"alive('stubborn'); {CHILDREN['stubborn']}", LIVENESS=os.environ["LIVENESS"])
    async with StdioTransport(spec, UpstreamLimits()).connect(Received()):
        await anyio.to_thread.run_sync(sys.stdin.read)
        asyncio.get_running_loop().call_soon(stopping.set)


def leave() -> None:
    """Run a loop, and drop it with all that it has when a child is being stopped on it."""
    loop = asyncio.new_event_loop()
    stopping = asyncio.Event()
    stopped = loop.create_task(stop_one(stopping))
    loop.run_until_complete(stopping.wait())
    loop.close()
    del stopped
    gc.collect()


if __name__ == "__main__":
    if "stubborn" in sys.argv:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "leave" in sys.argv:
        leave()
    else:
        anyio.run(main)
