"""Ends the processes that a bridge leaves behind. Run as a program of its own, one for each bridge with children.

Usage: `python -I -S guardian.py`, with the parent's news on standard input, a line each: `watch ID`, `group ID PGID`,
`leave ID`, `process PID`, `socket PATH IDENTITY` (the path in hexadecimal digits), `slow ID`, `asked ID`, `quick ID`.
ID is the value of the environment
variable that a child and its descendants are marked with: children by `process`, what agents start by `guarding`. A
process that is known by its number alone is one that was forked, and has no environment of its own, or a descendant
that was seen when the bridge ended.

A parent-death signal (`PR_SET_PDEATHSIG`) would not do: it reaches the child that was launched, and not the one that
serves where `npx` or a shell lies in between; it depends on the thread that launched it; and only Linux has it. This
reaches every process of the child's group, and on Linux also those that left it, by the mark that they inherited, or by
the session of the child.

A child that is `slow` may be downloading: it is sent SIGTERM once, because npm stops to take back its work at the
second one, and is killed much later. It is marked as `asked` where the bridge has sent SIGTERM itself.

This module imports next to nothing, because it costs memory for as long as a bridge has children.
"""

import os
import select
import signal
import time

GRACE = 0.5
"""Seconds between SIGTERM and SIGKILL. The children's input has ended already, with the bridge."""
ROLLBACK_GRACE = 30.0
"""The same for children that may be downloading, as `UpstreamLimits.rollback_grace`."""
MARK = "GAIA_BRIDGE_CHILD"
"""The environment variable that marks a child and its descendants."""
AGENTS_MARK = "GAIA_BRIDGE_AGENTS"
"""The environment variable that marks processes that agents start, and their descendants."""
_LOOK = 1000
"""Milliseconds between two checks whether the parent is alive, where the system has no event for that."""
_PAUSE = 0.1
"""Seconds between two checks whether children that may be downloading are gone."""
_PROCESS = "process"
_MANY = 100
"""The number of known processes from which on those that are gone are forgotten."""


def marked(identity: str, session: int = 0) -> list[int]:
    """Return the processes with a mark, or of a session, that we may read; none where there is no `/proc`."""
    entries = {f"{MARK}={identity}".encode(), f"{AGENTS_MARK}={identity}".encode()}
    processes: list[int] = []
    for pid in _numbers():
        if pid != os.getpid():
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    belongs = not entries.isdisjoint(file.read().split(b"\0"))
                if belongs or (session and _fields(pid)[3] == b"%d" % session):
                    processes.append(pid)
            except OSError:  # it is gone, or another user's
                pass
    return processes


def started(pid: int) -> str:
    """Return a value that tells a process from a later one with its number: its start time; empty if it is gone."""
    try:
        return _fields(pid)[19].decode() if os.path.isdir("/proc/self") else str(os.getsid(pid))
    except OSError:
        return ""


def parents() -> list[tuple[int, int]]:
    """Return a pair (parent, process) for every process; none where there is no `/proc`."""
    pairs: list[tuple[int, int]] = []
    for pid in _numbers():
        try:
            pairs.append((int(_fields(pid)[1]), pid))
        except OSError:  # it is gone
            pass
    return pairs


def _numbers() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return []


def _fields(pid: int) -> list[bytes]:
    """Return the fields of `/proc/PID/stat` after the name of the program: state, parent, group, session, ..."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()


def send(number: int, children: dict[str, int]) -> bool:
    """Send a signal to all processes of the children; return whether there were any.

    The children are groups by ids (0: not known), and processes as `News` names them.
    """
    reached = False
    for identity, group in children.items():
        if identity.startswith(_PROCESS):
            reached |= _is_alive(identity, group) and _quietly(os.kill, group, number)
            continue
        if group:
            reached |= _quietly(os.killpg, group, number)
        for pid in marked(identity, group):
            reached |= _quietly(os.kill, pid, number)
    return reached


def main() -> None:
    """Listen until the parent is gone, then end the processes that it left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    news = News()
    children = follow_parent(os.getppid(), news)
    for path, identity in news.sockets:
        remove_socket(path, identity)
    slow = {identity: children.pop(identity) for identity in news.slow if children.get(identity)}
    for identity, group in slow.items():
        if identity not in news.asked:
            _quietly(os.killpg, group, signal.SIGTERM)
    if children and send(signal.SIGTERM, children):
        time.sleep(GRACE)
        send(signal.SIGKILL, children)
    deadline = time.monotonic() + ROLLBACK_GRACE
    while any(_quietly(os.killpg, group, 0) for group in slow.values()) and time.monotonic() < deadline:
        time.sleep(_PAUSE)
    send(signal.SIGKILL, slow)


def socket_identity(path: str) -> str:
    """Return a value that tells a file from a later one with its name; empty if there is no file."""
    try:
        about = os.lstat(path)
    except OSError:
        return ""
    return f"{about.st_dev}-{about.st_ino}-{about.st_mtime_ns}"


def remove_socket(path: str, identity: str) -> None:
    """Remove a file, if it still has this identity."""
    if identity and socket_identity(path) == identity:
        try:
            os.unlink(path)
        except OSError:
            pass


def follow_parent(parent: int, news: "News") -> dict[str, int]:
    """Read the parent's news until it is gone; return the children that it had then."""
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
    while os.getppid() == parent:
        ended = any(descriptor == watched for descriptor, _ in poll.poll(None if watched else _LOOK))
        if not news.read(children) or ended:
            break
    news.read(children)
    return children


class News:
    """The lines on standard input, which may arrive in arbitrary pieces."""

    def __init__(self) -> None:
        self._rest = b""
        self.sockets: list[tuple[str, str]] = []
        """The files to remove when the parent is gone: their paths and identities."""
        self.slow: set[str] = set()
        """Children that may be downloading."""
        self.asked: set[str] = set()
        """Those of them that were already sent SIGTERM."""

    def read(self, children: dict[str, int]) -> bool:
        """Read all that has arrived; return whether more may come."""
        while True:
            try:
                chunk = os.read(0, 65536)
            except BlockingIOError:
                return True
            if not chunk:
                return False
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            for line in lines:
                self._take(children, line.decode("ascii", "replace").split())

    def _take(self, children: dict[str, int], words: list[str]) -> None:
        match words:
            case ["watch", identity]:
                children.setdefault(identity, 0)
            case ["group", identity, group] if group.isdecimal():
                children[identity] = int(group)
            case ["leave", identity]:
                children.pop(identity, None)
            case ["process", pid] if pid.isdecimal():
                _add_process(children, int(pid))
            case ["socket", path, identity]:
                self.sockets.append((os.fsdecode(bytes.fromhex(path)), identity))
            case ["slow" | "asked" as word, identity]:
                (self.slow if word == "slow" else self.asked).add(identity)
            case ["quick", identity]:
                self.slow.discard(identity)
            case _:  # cannot happen: only the bridge writes here
                pass


def _is_alive(identity: str, pid: int) -> bool:
    return identity == f"{_PROCESS} {started(pid)} {pid}"


def _add_process(children: dict[str, int], pid: int) -> None:
    if len(children) >= _MANY:
        for identity, number in list(children.items()):
            if identity.startswith(_PROCESS) and not _is_alive(identity, number):
                del children[identity]
    if start := started(pid):
        children[f"{_PROCESS} {start} {pid}"] = pid


def _quietly(kill: object, target: int, number: int) -> bool:
    try:
        kill(target, number)  # type: ignore[operator] # one of the two of `os`; `typing` would cost a megabyte
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main()
