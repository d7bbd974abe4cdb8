"""Limits and deadlines of conversations, each with its reason."""

from __future__ import annotations

from gaia.agents.base.console import CONFIRM_TIMEOUT
from gaia_bridge.constants import KIB, MIB
from gaia_bridge.settings import Limits

__all__ = ["CLIENT_SESSION", "DEFAULT_SESSION", "SERVED_SESSION", "ChatLimits"]

DEFAULT_SESSION = "default"
"""The session of callers that name none."""

CLIENT_SESSION = "api:"
"""The prefix of session names that clients of the OpenAI endpoint choose: none of them is the agent's own."""

SERVED_SESSION = "served:"
"""The prefix of sessions that whoever serves the agent names for a client: only `end_chat` ends them."""


class ChatLimits(Limits, frozen=True):
    """The limits of one agent's conversations."""

    max_steps: int = 20
    """Answers of the model in one turn. A model that calls tools for ever is asked to come to an end."""
    nesting: int = 8
    """Turns that wait for one another, as where a tool asks an agent: with more, an agent asks itself for ever."""
    sampled_tokens: int = 8_192
    """Tokens of one answer of a client's model by default: a request to a client needs a number."""
    turn_timeout: float = 1_800.0
    """Seconds for one turn, tools included: a local model and a build together take many minutes."""
    tool_timeout: float = 120.0
    """Seconds for one tool call, unless the tool says otherwise. Then the model gets an error, and goes on."""
    confirm_timeout: float = CONFIRM_TIMEOUT + 5
    """Seconds for a person to confirm a tool call; silence is no. The console itself gives up a little earlier."""
    threads: int = 16
    """Blocking tool calls of one agent at once."""
    step_threads: int = 4
    """Threads for what happens between tool calls, such as the prompt's hooks: tools that hang must not hold it up."""
    queue: int = 1_024
    """Tool calls that may wait for a thread: fifty conversations with several calls each."""
    parallel_tools: int = 8
    """Tool calls of one turn at once. More wait."""
    calls: int = 64
    """Tool calls in one answer of the model that are run; a model that wants more has lost its way."""
    result_bytes: int = 256 * KIB
    """Of one tool's result that the model is given; more would fill the context of any local model."""
    pieces: int = 64
    """Pieces of text that wait for a slow reader; then the model waits."""
    history_bytes: int = 8 * MIB
    """Of one session's messages, as JSON: more than any model can read, and a thousand sessions must fit in memory."""
    console_lines: int = 256
    """Lines that wait for a slow terminal; more are not shown."""
    console_patience: float = 2.0
    """Seconds that the end of a turn waits for a slow terminal."""
    name_chars: int = 256
    """Of a session's name: it may come from a client, and is kept and listed."""
    suspended: int = 256
    """Turns that wait for a client to run its own tools, for clients without a session; of more, those used last."""
    suspended_bytes: int = 64 * MIB
    """Of all those together: each may have read a few large files."""
    sweep_interval: float = 60.0
    """Seconds between two looks for stale sessions, which are made when a session is created."""
