"""Scripts for `tests/servers/model_server.py`, whose docstring says what they mean, and the server as a process.

    with scripted_model(call("add", a=1, b=2), say("It is $result.")) as server:
        agent = Agent(tools=[add], base_url=server.base_url)
        assert agent.run("How much is 1 + 2?") == "It is 3."
        assert server.requests()[0].tool_names == ["add"]

    rules = [rule(r"weather in (\\w+)", call("weather", city="$1"), say("$result in $1"))]
    with scripted_model(rules=rules, dialect="ollama") as server: ...

Everything is written in Python here, and sent as JSON. `say`, `call`, `calls` and `fault` make replies; `rule` makes a
rule. `hold="gate"` makes a reply wait until `server.release("gate")`; `server.wait_held("gate")` returns once it does.
Each `wait_...` blocks; in async tests, `await server.until(server.wait_held, "gate")`.
"""

from __future__ import annotations

import atexit
import functools
import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio.to_thread

from gaia_bridge.text.json_types import JSON
from tests.servers.model_dialects import DIALECTS
from tests.servers.model_server import FAULTS

__all__ = ["ModelHandle", "Recorded", "call", "calls", "fault", "rule", "say", "script", "scripted_model"]

ROOT = Path(__file__).parents[2]
PATIENCE = 20.0
"""Seconds after which a control request gives up; the server itself does so earlier."""


def say(text: str | Sequence[str], **more: Any) -> JSON:
    """A reply that is text: in a chunk per word, or in these chunks. `$1`, `$result`, ... are filled in."""
    return {"text": text if isinstance(text, str) else list(text), **more}


def call(name: str, /, arguments: JSON | str | None = None, **named: Any) -> JSON:
    """A reply that calls one tool, with arguments by name, as an object, or as text that may be malformed."""
    return calls((name, named if arguments is None else arguments))


def calls(*asked: tuple[str, JSON | str], **more: Any) -> JSON:
    """A reply that calls several tools; `text=` is said before."""
    return {"calls": [{"name": name, "arguments": arguments} for name, arguments in asked], **more}


def fault(name: str, times: int = 1, **more: Any) -> JSON:
    """A failure: one of `model_server.FAULTS`. `retry_after` and `message` may be given."""
    assert name in FAULTS, f"{name} is none of {FAULTS}"
    return {"fault": name, "times": times, **more}


def rule(when: str, *replies: JSON, on: str = "user", loop: bool = False) -> JSON:
    """Replies to whatever this regular expression is found in: the `user`'s last message, or a `tool` result."""
    return {"when": when, "replies": list(replies), "on": on, "loop": loop}


def script(*replies: JSON, rules: Sequence[JSON] = (), dialect: str = "openai", **more: Any) -> JSON:
    """A whole script; `more` are its other fields: `models`, `api_key`, `refuses`, `quirks`, `order`, ..."""
    return {"replies": list(replies), "rules": list(rules), "dialect": dialect, **more}


@dataclass(frozen=True, slots=True)
class Recorded:
    """One request that the server got."""

    number: int
    client: str
    """The same for all requests on one connection."""
    method: str
    path: str
    headers: dict[str, str]
    body: JSON
    outcome: str
    status: int

    @property
    def messages(self) -> list[JSON]:
        """The conversation."""
        found: list[JSON] = self.body["messages"]
        return found

    @property
    def system(self) -> str:
        """The system prompt, or nothing."""
        first = self.messages[0]
        return str(first["content"]) if first["role"] == "system" else ""

    @property
    def tools(self) -> list[JSON]:
        """The tools that were offered, in OpenAI's shape."""
        found: list[JSON] = self.body.get("tools", [])
        return found

    @property
    def tool_names(self) -> list[str]:
        """Their names."""
        return [tool["function"]["name"] for tool in self.tools]


class ModelHandle:
    """A running server; made by `scripted_model`."""

    def __init__(self, url: str, pid: int, dialect: str) -> None:
        self.url = url
        self.pid = pid
        self._dialect = dialect

    @property
    def base_url(self) -> str:
        """What an OpenAI client is given."""
        return self.url + DIALECTS[self._dialect].base_path

    def play(self, new: JSON) -> None:
        """Begin anew with another script (see `script`); what was recorded is forgotten."""
        self._dialect = new.get("dialect", "openai")
        self._control("PUT", "script", new)

    def requests(self) -> list[Recorded]:
        """All requests for chat completions so far, oldest first."""
        return [request for request in self.all_requests() if request.path.endswith("/chat/completions")]

    def all_requests(self) -> list[Recorded]:
        """All requests so far, also those for the list of models."""
        return [Recorded(**item) for item in self._control("GET", "requests")]

    def state(self) -> JSON:
        """`counts` (requests, ended, finished, disconnected), `held` by gate, `peak` of requests at once."""
        found: JSON = self._control("GET", "state")
        return found

    def release(self, gate: str) -> None:
        """Open a gate, also for those who come later."""
        self._control("POST", "release", {"gate": gate})

    def wait_requests(self, count: int = 1) -> None:
        """Return once there were so many requests."""
        self._control("POST", "wait", {"what": "requests", "count": count})

    def wait_held(self, gate: str, count: int = 1) -> None:
        """Return once so many replies wait at a gate."""
        self._control("POST", "wait", {"what": "held", "gate": gate, "count": count})

    def wait_ended(self, count: int = 1, outcome: str = "ended") -> None:
        """Return once so many requests have ended; `outcome` may be `finished` or `disconnected`."""
        self._control("POST", "wait", {"what": "ended", "outcome": outcome, "count": count})

    async def until(self, wait: Callable[..., None], *args: Any, **kwargs: Any) -> None:
        """One of the `wait_...` methods, without standing still."""
        await anyio.to_thread.run_sync(functools.partial(wait, *args, **kwargs))

    def _control(self, method: str, what: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/control/{what}", data, method=method)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=PATIENCE) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(f"{what}: {error.read().decode()}") from None


@contextmanager
def scripted_model(
    *replies: JSON,
    rules: Sequence[JSON] = (),
    dialect: str = "openai",
    is_gone_afterwards: bool = False,
    **more: Any,
) -> Generator[ModelHandle]:
    """The server as a process of its own, playing `script(...)` of these arguments.

    A process that has nothing left to do plays the script of the next test, unless it is to be gone afterwards: to
    start one takes a second.

    Raises:
        AssertionError: The script had nothing for some request.
    """
    process, url = _idle.pop() if _idle else _started()
    handle = ModelHandle(url, process.pid, dialect)
    try:
        handle.play(script(*replies, rules=rules, dialect=dialect, **more))
        yield handle
        state = handle.state()
        assert not (problems := state["problems"]), problems
        if not is_gone_afterwards and state["counts"].get("requests") == state["counts"].get("ended"):
            _idle.append((process, url))
    finally:
        if not any(process is kept for kept, _ in _idle):
            _end(process)


_idle: list[tuple[subprocess.Popen[bytes], str]] = []


def _started() -> tuple[subprocess.Popen[bytes], str]:
    command = [sys.executable, "-m", "tests.servers.model_server"]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(json.dumps(script()).encode() + b"\n")
    process.stdin.flush()
    url = process.stdout.readline().decode().strip()
    assert url, "the scripted model server did not start: see its error output"
    return process, url


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    with process:  # closes the pipes, and waits
        pass


@atexit.register
def _end_all() -> None:
    for process, _ in _idle:
        _end(process)
