"""Ends the children of a bridge that was killed. Run as a program of its own, one for each bridge that has children.

Usage: `python -I -S guardian.py`, with the parent's news on standard input, a line each: `watch ID`, `group ID PGID`,
`leave ID`. ID is the value of the environment variable that `process` marks a child and all its descendants with.

A parent-death signal (`PR_SET_PDEATHSIG`) would not do: it reaches the child that was launched, and not the one that
serves where `npx` or a shell lies in between; it depends on the thread that launched it; and only Linux has it. This
reaches every process of the child's group, and on Linux also those that left it, by the mark that they inherited.

It imports next to nothing, because it costs memory for as long as a bridge has children.
"""

import os
import select
import signal
import time

__all__ = ["MARK", "News", "follow_parent", "main", "marked", "note", "send"]

GRACE = 0.5
"""Seconds between SIGTERM and SIGKILL. The children's input has ended already, with the bridge."""

MARK = "GAIA_BRIDGE_CHILD"
"""The environment variable that marks a child and its descendants."""


def marked(identity: str, proc: str = "/proc") -> list[int]:
    """The processes that carry a mark, of those that we may look at; none where there is no `/proc`.

    Args:
        identity: The mark's value.
        proc: Where the system shows its processes.
    """
    entry = f"{MARK}={identity}".encode()
    found: list[int] = []
    try:
        names = os.listdir(proc)
    except OSError:
        return found
    for name in names:
        if name.isdecimal() and int(name) != os.getpid():
            try:
                with open(f"{proc}/{name}/environ", "rb") as file:
                    if entry in file.read().split(b"\0"):
                        found.append(int(name))
            except OSError:  # it is gone, or somebody else's
                pass
    return found


def send(number: int, children: dict[str, int]) -> None:
    """Send a signal to everything that belongs to the children, by their ids and groups (0: not known)."""
    for identity, group in children.items():
        if group:
            _quietly(os.killpg, group, number)
        for pid in marked(identity):
            _quietly(os.kill, pid, number)


def main() -> None:
    """Listen until the parent is gone, then end what it left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    children = follow_parent(os.getppid())
    if children:
        send(signal.SIGTERM, children)
        time.sleep(GRACE)
        send(signal.SIGKILL, children)


def follow_parent(parent: int) -> dict[str, int]:
    """Take in the parent's news until it is gone; returns the children that it had then."""
    poll = select.poll()
    poll.register(0, select.POLLIN)
    watched = None
    # The end of input is not enough: a process that the parent has forked may hold the other end of our input.
    if hasattr(os, "pidfd_open"):
        try:
            watched = os.pidfd_open(parent)
            poll.register(watched, select.POLLIN)
        except OSError:
            pass
    os.set_blocking(0, False)
    children: dict[str, int] = {}
    news = News()
    while os.getppid() == parent:
        ended = any(descriptor == watched for descriptor, _ in poll.poll())
        if not news.read(children) or ended:
            break
    news.read(children)
    return children


class News:
    """The lines on standard input, which may come in any cut."""

    def __init__(self) -> None:
        self._rest = b""

    def read(self, children: dict[str, int]) -> bool:
        """Take in what is there right now; returns whether more may come."""
        while True:
            try:
                chunk = os.read(0, 65536)
            except BlockingIOError:
                return True
            if not chunk:
                return False
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            for line in lines:
                note(children, line.decode("ascii", "replace").split())


def note(children: dict[str, int], words: list[str]) -> None:
    """Take in one line of news."""
    match words:
        case ["watch", identity]:
            children.setdefault(identity, 0)
        case ["group", identity, group] if group.isdecimal():
            children[identity] = int(group)
        case ["leave", identity]:
            children.pop(identity, None)
        case _:  # only we write here
            pass


def _quietly(kill: object, target: int, number: int) -> None:
    try:
        kill(target, number)  # type: ignore[operator] # one of the two of `os`; `typing` would cost a megabyte
    except OSError:
        pass


if __name__ == "__main__":
    main()
