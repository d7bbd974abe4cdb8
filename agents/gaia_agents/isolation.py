"""Work on hostile input in a helper process, which may hang, crash or swell without hurting this one.

A regular expression can take for ever, and Python's `re` keeps the interpreter lock all the while; a source file can
be nested so deeply that parsing it overflows the stack. Neither may happen in the process that serves editors, and no
thread can be stopped from outside. The helper is killed at the deadline and when the request is cancelled, and its own
limits on processor time and memory (`gaia_agents.helper`) hold even if this process is gone.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gaia_bridge.calls.request_context import RequestContext
from gaia_bridge.errors import ToolError
from gaia_bridge.text.json_types import JSON

__all__ = ["Helper", "start_helper"]

_WATCH_SECONDS = 0.1
"""How often the deadline and the request are looked at."""
_BOOT = "import sys; sys.path.append(sys.argv[1]); from gaia_agents.helper import main; main()"
_PYTHON_OPTIONS = ("-I", "-S", "-X", "utf8")
"""No environment, no site-packages, no current folder on the import path: nothing from the workspace is ever run."""


class Helper:
    """A running helper process; `start_helper` makes and ends it."""

    def __init__(self, process: subprocess.Popen[bytes], seconds: float, request: RequestContext | None) -> None:
        self.timed_out = False
        """Whether it was ended at the deadline. What it reported until then is still true."""
        self._process = process
        self._deadline = time.monotonic() + seconds
        self._request = request
        self._finished = threading.Event()
        self._watchdog = threading.Thread(target=self._watch, name="gaia-agents-watchdog", daemon=True)
        self._watchdog.start()

    def events(self) -> Iterator[JSON]:
        """Yield the task's reports, until it is done or the deadline comes.

        Raises:
            ToolError: The task refused the job, or the process crashed.
            RequestCancelledError: The request was cancelled.
        """
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.endswith(b"\n"):  # else it was killed in the middle of a line
                event: JSON = json.loads(line)
                if "error" in event:
                    raise ToolError(event["error"])
                yield event
        code = self._process.wait()
        if self._request is not None:
            self._request.raise_if_cancelled()
        if code and not self.timed_out:
            raise ToolError(
                f"the helper process ended with status {code}: the files are too large or too deeply nested"
            )

    def end(self) -> None:
        """End the process, whatever it is doing, and everything that belongs to it."""
        self._finished.set()
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._watchdog.join()

    def _watch(self) -> None:
        while not self._finished.wait(_WATCH_SECONDS):
            self.timed_out = time.monotonic() > self._deadline
            if self.timed_out or (self._request is not None and self._request.cancelled):
                self._process.kill()
                return


@contextmanager
def start_helper(
    task: str, job: JSON, paths: Iterable[str], *, folder: Path, seconds: float, request: RequestContext | None
) -> Generator[Helper, None, None]:
    """Run a task of `gaia_agents.helper` on files.

    Args:
        task: `search` or `analyse`.
        job: What to do, JSON-serialisable.
        paths: The files, relative to `folder`.
        folder: Where the helper works.
        seconds: After that it is killed.
        request: The request that it works for, if any; cancelling it kills the helper.

    Raises:
        ToolError: No process could be started.
    """
    with tempfile.TemporaryFile() as jobs:
        jobs.write(json.dumps({"task": task, "seconds": seconds, **job}).encode() + b"\n")
        jobs.writelines(json.dumps(path).encode() + b"\n" for path in paths)
        jobs.seek(0)
        try:
            process = subprocess.Popen(
                [sys.executable, *_PYTHON_OPTIONS, "-c", _BOOT, str(Path(__file__).parent.parent)],
                stdin=jobs,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=folder,
                env={},
            )
        except OSError as error:
            raise ToolError(
                f"no helper process could be started: {error.strerror}; free some memory and try again"
            ) from None
        helper = Helper(process, seconds, request)
        try:
            yield helper
        finally:
            helper.end()
