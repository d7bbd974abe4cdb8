"""An agent that talks with several people at once, each of whom has a session.

    python docs/examples/runtime/sessions.py

It needs a model server (docs/models.md).
"""

from __future__ import annotations

import asyncio

from gaia.mcp.aio import ToolAgent


async def main() -> None:
    agent = ToolAgent(session_timeout=3600)
    agent.set_session_callbacks(
        on_session_created=lambda session_id: print(f"{session_id} came"),
        on_session_destroyed=lambda session_id: print(f"{session_id} went"),
    )
    agent.create_session("ada", system_message="You speak with Ada.", metadata={"plan": "free"})
    answers = await asyncio.gather(
        agent.chat("My name is Ada.", session_id="ada"),
        agent.chat("My name is Ben.", session_id="ben"),  # made when it is first used
    )
    print(*answers, sep="\n")
    print(await agent.chat("What is my name?", session_id="ada"))
    for session in agent.list_sessions():
        print(f"{session['session_id']}: {session['message_count']} messages, {session['metadata']}")

    agent.destroy_session("ada")
    print(f"{agent.cleanup_stale_sessions()} stale sessions")  # those that nobody used for an hour
    agent.close()


asyncio.run(main())
