"""Limits and deadlines of talking to a model server, each with its reason."""

from __future__ import annotations

from gaia_bridge.constants import KIB, MIB
from gaia_bridge.settings import Limits

__all__ = ["ModelLimits"]


class ModelLimits(Limits, frozen=True):
    """How long a model is waited for, and how much it may say."""

    connect: float = 5.0
    """Seconds to reach the server: it is on this machine, or there is a network."""
    probe: float = 2.0
    """Seconds in which a server of this machine has to show its models, when it was not said which one to use."""
    models: float = 30.0
    """Seconds for the list of models: a list is data, not work, but some servers look through their disk."""
    first: float = 600.0
    """Seconds until the first word: a local server loads the model before, and reads a long conversation."""
    between: float = 180.0
    """Seconds between two words: some servers hold a whole tool call back until it is complete."""
    ending: float = 5.0
    """Seconds for what follows the last word, such as usage figures; without them, the reply is complete as well."""
    total: float = 3_600.0
    """Seconds that are spent waiting for one reply; finite, so that nothing waits for ever."""
    farewell: float = 0.25
    """Seconds for the server to end an answer that is complete, so that the connection can be used again."""
    retries: int = 4
    """How often a request is sent again that the server was too busy for, or that broke before it was answered."""
    retry_pause: float = 0.5
    """Seconds before the first of them, doubled each time, where the server does not say how long."""
    retry_wait: float = 60.0
    """Seconds that one such pause may have; a server that wants more is reported at once."""
    load_wait: float = 300.0
    """Seconds for a server that says that it is loading the model, however often it is asked meanwhile."""
    load_pause: float = 2.0
    """Seconds between two such questions."""
    reply_bytes: int = 32 * MIB
    """One reply as it comes, which is some 200 bytes a word in a stream."""
    event_bytes: int = 4 * MIB
    """One event of a stream: a whole tool call, such as a file that is written."""
    error_bytes: int = 64 * KIB
    """Bytes that are read of an error response."""
    models_bytes: int = 4 * MIB
    """The list of models: the largest hosts have thousands."""
    tool_calls: int = 128
    """Tool calls in one reply; no model has use for more, and each costs a place."""
