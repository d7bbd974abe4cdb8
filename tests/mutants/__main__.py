"""Applies each mutation to a copy of the project and runs the tests that have to notice: `python -m tests.mutants`.

    python -m tests.mutants               all of them, which takes twenty minutes on two cores
    python -m tests.mutants guard oauth   those with one of these words in the path of the file, or in the original text
    python -m tests.mutants --jobs 1      one at a time

The exit code is 1 if less than 92 % of the mutations are noticed, if an original text does not occur exactly once, or
if a survivor is not explained; 2 if the tests fail without any mutation.
"""

from __future__ import annotations

import argparse
import compileall
import os
import py_compile
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from tests.mutants.mutation import Mutation
from tests.mutants.tables import clients, daemon, desk, direct, server, upstreams

__all__ = ["main"]

ROOT: Final = Path(__file__).parents[2]
TABLE: Final = (*server.TABLE, *direct.TABLE, *upstreams.TABLE, *clients.TABLE, *daemon.TABLE, *desk.TABLE)

_COPIED: Final = ("agents", "benchmarks", "bridge", "docs", "tests", "vscode-config")
_FILES: Final = ("CHANGELOG.md", "LICENSE", "README.md", "pyproject.toml")
_OPTIONS: Final = "-x -q -n0 -p no:cacheprovider --no-header --tb=line --timeout=30"
"""Of pytest. A test of those that are named takes a few seconds at most, unless a mutation has it wait for ever."""
_PYTEST: Final = (sys.executable, "-m", "pytest", *_OPTIONS.split())
_SHARE: Final = 0.92
_SECONDS: Final = 240
"""For the tests of one mutation: one that makes them hang is noticed as well."""
_SECONDS_UNCHANGED: Final = 1_800
"""For all tests, before anything is mutated."""


class Copy:
    """A copy of the project, in which one mutation is tried at a time.

    Args:
        folder: Where it is.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._root = folder / "project"
        self._root.mkdir()
        for name in ("home", "tmp"):  # a mutated program must not write into the user's own
            (folder / name).mkdir()
        for name in _COPIED:
            ignored = shutil.ignore_patterns("__pycache__", "node_modules")
            shutil.copytree(ROOT / name, self._root / name, ignore=ignored, symlinks=True)
        for name in _FILES:
            shutil.copy(ROOT / name, self._root)
        # Judged by their content: two texts of one length within one second are the same to the usual way.
        checked = py_compile.PycInvalidationMode.CHECKED_HASH
        compileall.compile_dir(self._root / "bridge", quiet=1, invalidation_mode=checked)

    def passes(self, tests: Sequence[str], seconds: float) -> bool:
        """Whether tests pass, in time.

        Args:
            tests: The tests.
            seconds: For all of them.
        """
        paths = os.pathsep.join(str(self._root / name) for name in ("agents", "bridge", "."))
        home, tmp = str(self.folder / "home"), str(self.folder / "tmp")
        environ = {**os.environ, "PYTHONPATH": paths, "HOME": home, "TMPDIR": tmp}
        with open(self.folder / "output", "wb") as output:
            process = subprocess.Popen(
                [*_PYTEST, *tests],
                cwd=self._root,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                return process.wait(seconds) == 0
            except subprocess.TimeoutExpired:
                return False
            finally:
                try:
                    os.killpg(process.pid, signal.SIGKILL)  # and what it started
                except ProcessLookupError:
                    pass
                process.wait()

    def notices(self, mutation: Mutation) -> bool:
        """Whether the tests of a mutation fail because of it.

        Args:
            mutation: The mutation.
        """
        path = self._root / mutation.file
        text = path.read_text("utf-8")
        path.write_text(text.replace(mutation.original, mutation.mutated), "utf-8")
        try:
            return not self.passes(mutation.tests, _SECONDS)
        finally:
            path.write_text(text, "utf-8")

    @property
    def output(self) -> str:
        """What pytest wrote last."""
        return (self.folder / "output").read_text("utf-8", "replace")


@contextmanager
def copied() -> Generator[Copy]:
    """A copy of the project, to the end of the block."""
    with tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as folder:
        yield Copy(Path(folder))


def misplaced(mutation: Mutation) -> str:
    """Why a mutation cannot be applied; empty if it can."""
    try:
        times = (ROOT / mutation.file).read_text("utf-8").count(mutation.original)
    except OSError as error:
        return f"{mutation.file}: {error.strerror}"
    missing = [test for test in mutation.tests if not (ROOT / test.partition("::")[0]).exists()]
    if missing:
        return f"{mutation.file}: there is no {missing[0]}"
    return "" if times == 1 else f"{mutation.file}: {mutation.original!r} occurs {times} times; expected once"


def say(text: str) -> None:
    """Print one line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _try_all(chosen: Sequence[Mutation], jobs: int) -> list[Mutation] | None:
    """Those that no test notices; `None` if tests fail without any mutation."""
    with ExitStack() as stack:
        copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        first = stack.enter_context(copied())
        for copy in (first, *(stack.enter_context(copied()) for _ in range(jobs - 1))):
            copies.put(copy)
        tests = sorted({test for each in chosen for test in each.tests})
        if not first.passes([*tests, f"-n{jobs}"], _SECONDS_UNCHANGED):
            say(f"the tests fail, though nothing is mutated:\n{first.output[-4_000:]}")
            return None

        def try_one(mutation: Mutation) -> bool:
            copy = copies.get()
            try:
                is_noticed = copy.notices(mutation)
            finally:
                copies.put(copy)
            word = "killed  " if is_noticed else "SURVIVED"
            say(f"{word} {mutation.file}: {mutation.original!r} -> {mutation.mutated!r}")
            return is_noticed

        with ThreadPoolExecutor(jobs) as pool:
            noticed = list(pool.map(try_one, chosen))
    return [each for each, is_noticed in zip(chosen, noticed, strict=True) if not is_noticed]


def main() -> int:
    """Try the mutations that are named, or all."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description="Show that tests notice mutations.")
    parser.add_argument("words", nargs="*", help="parts of the path of the file, or of the original text")
    jobs = 1 + (os.cpu_count() or 1)  # some tests of a mutated program only wait
    parser.add_argument("--jobs", type=int, default=jobs, help="copies that are used at once")
    parser.add_argument("--list", action="store_true", help="only look whether each mutation can be applied")
    given = parser.parse_args()
    chosen = [
        each for each in TABLE if not given.words or any(map(f"{each.file} {each.original}".__contains__, given.words))
    ]
    if problems := [problem for each in chosen if (problem := misplaced(each))]:
        say("\n".join(problems))
        return 1
    if given.list or not chosen:
        say(f"{len(chosen)} of {len(TABLE)} mutations can be applied")
        return 0
    if (survivors := _try_all(chosen, given.jobs)) is None:
        return 2
    for each in survivors:
        say(f"{each.file}: {each.original!r} -> {each.mutated!r}: {each.why or 'NOT EXPLAINED'}")
    killed = len(chosen) - len(survivors)
    share = killed / len(chosen)
    say(f"{killed} killed, {len(survivors)} survived: {share:.1%}, expected at least {_SHARE:.0%}")
    return int(share < _SHARE or any(not each.why for each in survivors))


if __name__ == "__main__":
    sys.exit(main())
