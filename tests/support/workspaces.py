"""Folders, repositories and requests for tests of the shipped agents."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import jsonschema_rs

from gaia_agents.base import ShippedAgent
from gaia_bridge.calls.request_context import RequestContext, request_scope
from gaia_bridge.contract import ClientRequest
from gaia_bridge.errors import RequestCancelledError
from gaia_bridge.model import LogMessage, Progress
from gaia_bridge.text.json_types import JSON

__all__ = ["DEMO", "RecordingChannel", "call", "git", "in_request", "repository", "write_files"]

T = TypeVar("T")

DEMO: dict[str, str | bytes] = {
    "README.md": "# Demo\n\nTODO: write\n",
    "src/app.py": 'import os\n\n\ndef run(path):\n    """Run."""\n    return os.path.join(path, "run")\n',
    "src/web/app.ts": "export function run() {} // FIXME\n",
    "tests/test_app.py": "def test_run():\n    pass\n",
    "image.bin": b"run\0\1\2",
    "wide.js": "x" * 5_000 + "needle" + "y" * 5_000 + "\n",
    ".gitignore": "build/\n*.log\n",
    "build/out.py": "def run(): ...\n",
    "run.log": "run\n",
}
"""A small project, with an ignored, a binary and a very wide file."""

IDENTITY = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}


def write_files(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Write files, with the folders that they need."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def call(agent: ShippedAgent, name: str, **arguments: Any) -> JSON:
    """Call a tool and check its result against the schema that it declares."""
    result = agent.execute_mcp_tool(name, arguments)
    (schema,) = [tool["outputSchema"] for tool in agent.get_mcp_tool_definitions() if tool["name"] == name]
    jsonschema_rs.validate(schema, json.loads(json.dumps(result)))
    return result


def git(folder: Path, *arguments: str, **env: str) -> str:
    """Run git in a folder, as Ada; what it prints."""
    done = subprocess.run(
        ["git", *arguments],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), **IDENTITY, **env},
        check=True,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    return done.stdout


def repository(folder: Path) -> Path:
    """Make `folder` a repository of Ada's, on branch main, without commits."""
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "config", "user.name", "Ada")
    git(folder, "config", "user.email", "ada@example.org")
    return folder


class RecordingChannel:
    """Stands where the core's channel to the client stands, and keeps what it is told."""

    is_asking = False
    editor = None

    def __init__(self, cancel_at: int | None = None) -> None:
        self.progress: list[tuple[float, float | None, str | None]] = []
        self.cancel = threading.Event()
        self._cancel_at = cancel_at

    @property
    def cancelled(self) -> bool:
        return self.cancel.is_set()

    def wait_cancelled(self, timeout: float) -> bool:
        return self.cancel.wait(timeout)

    def raise_if_cancelled(self) -> None:
        if self.cancelled:
            raise RequestCancelledError

    def post_progress(self, report: Progress) -> None:
        self.progress.append((report.progress, report.total, report.message))
        if len(self.progress) == self._cancel_at:
            self.cancel.set()

    def post_log(self, message: LogMessage) -> None:
        raise AssertionError("the shipped agents log nothing to clients")

    def ask(self, method: str, params: JSON) -> JSON:
        raise AssertionError("the shipped agents ask nothing")

    async def aask(self, method: str, params: JSON) -> JSON:
        raise AssertionError("the shipped agents ask nothing")

    def close_stream(self) -> None:
        raise AssertionError("the shipped agents keep their streams")


def in_request(channel: RecordingChannel, function: Callable[..., T], *args: Any) -> T:
    """Call a function as the bridge does while it works on a client's request."""
    request = RequestContext(channel, cast(ClientRequest, None), None)
    return request_scope(request).run(function, *args)
