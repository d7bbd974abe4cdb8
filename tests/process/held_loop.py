"""Holds its own event loop for ever, watched by a `Shutdown`. Say `uvloop` for the other loop."""

from __future__ import annotations

import sys

import anyio

from gaia_bridge_cli.deadline import ExitDeadline
from gaia_bridge_cli.serving import shutdown
from gaia_bridge_cli.serving.shutdown import Shutdown

shutdown.__dict__["STOP_DEADLINE"] = 0.2
deadline = ExitDeadline(0.2)


async def main() -> None:
    watched = Shutdown(deadline, 0.1, has_children=lambda: True, calls=list)
    async with anyio.create_task_group() as tasks:
        await tasks.start(watched.watch)
        print("held", flush=True)  # noqa: T201
        while True:
            pass


deadline.start()
anyio.run(main, backend_options={"use_uvloop": "uvloop" in sys.argv})
