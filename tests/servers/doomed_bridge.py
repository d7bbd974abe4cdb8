"""A process with children, to be killed: `python doomed_bridge.py`."""

from __future__ import annotations

import os

import anyio

from gaia_bridge.outbound.transports.stdio import StdioTransport
from gaia_bridge.settings import UpstreamLimits
from tests.children import Received, child

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


if __name__ == "__main__":
    anyio.run(main)
