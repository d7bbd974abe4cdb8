"""A socket that a killed process has left behind is removed, and nothing else that has its name by then."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from gaia_bridge.client.transports.children import guardian
from gaia_bridge.client.transports.children.guardian import remove_socket, socket_identity

PARENT = """
import subprocess, sys
news = subprocess.Popen([sys.executable, "-I", "-S", sys.argv[1]], stdin=subprocess.PIPE, stdout=sys.stdout)
for line in sys.argv[2:]:
    news.stdin.write(line.encode() + b"\\n")
news.stdin.flush()
"""


def news_of(path: Path, identity: str) -> str:
    return f"socket {os.fsencode(path).hex()} {identity}"


def after_the_end_of_a_parent(*news: str) -> None:
    """Have the program watch over a process that ends, and wait until both are gone."""
    command = [sys.executable, "-c", PARENT, str(guardian.__file__), *news]
    subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=30)  # its output ends with the last of them


def test_it_is_removed_when_its_process_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "of \udcff a bridge.sock"
    path.touch()
    after_the_end_of_a_parent(news_of(path, socket_identity(str(path))))
    assert not path.exists()


def test_the_next_one_of_that_name_is_left(tmp_path: Path) -> None:
    path, other = tmp_path / "a.sock", tmp_path / "b.sock"
    path.touch()
    other.touch()
    old = socket_identity(str(path))
    other.rename(path)
    after_the_end_of_a_parent(
        news_of(path, old), news_of(tmp_path / "never", ""), "socket", "socket zz 1 2", "nonsense"
    )
    assert path.exists()
    remove_socket(str(path), old)
    remove_socket(str(path), "")
    assert path.exists()
    remove_socket(str(path), socket_identity(str(path)))
    assert not path.exists()
    assert socket_identity(str(path)) == ""
