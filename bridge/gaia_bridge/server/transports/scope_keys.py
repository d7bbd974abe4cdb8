"""Keys of an ASGI scope, and the names of extensions, by which the listener and the transports speak to each other."""

from __future__ import annotations

from typing import Final

BODY_ARRIVED: Final = "gaia_bridge.body_arrived"
"""The name of an ASGI extension of our listener: all of the body is here, so that nobody has to wait for it."""
SAME_HEAD: Final = "gaia_bridge.same_head"
"""The name of another extension: facts about the head of this request, kept for when the same head comes next on the
connection. A dictionary, with a key for each part of the code that keeps facts."""
WHOLE_BODY: Final = "gaia_bridge.whole_body"
"""The name of another extension: the bytes of a small body, if it came with a head like the one before. `receive`
returns them, too."""
DISCONNECT: Final = "gaia_bridge.disconnect"
"""The name of an ASGI extension of our listener, which other servers have not: a future that is done once the client
has left before its answer was complete."""
MOUNTED_AT: Final = "gaia_bridge.mounted_at"
"""The key of a scope for the path that leads to us: links that clients are given begin with it."""
PARSED: Final = "gaia_bridge.parsed"
"""The name of another extension: the JSON value of such a body, and its bytes, if it was read already."""
TAKES_OVER: Final = "gaia_bridge.takes_over"
"""The name of another extension: the `DirectCall` that this request takes over."""
DIRECT: Final = "gaia_bridge.direct"
"""The key of the `DirectClient` among the facts about a head, for requests with the same head."""
ADMITTED: Final = "gaia_bridge.admitted"
"""The key of a function among these facts that returns whether the guard still admits that head."""
