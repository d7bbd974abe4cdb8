"""Standard output is for results."""

from __future__ import annotations

import os
import subprocess

import pytest

from gaia_bridge_cli.output import stdout_to_stderr


def test_what_is_written_meanwhile_goes_to_standard_error(capfd: pytest.CaptureFixture[str]) -> None:
    print("before", flush=True)  # noqa: T201 - what an agent may do
    with stdout_to_stderr():
        print("printed", flush=True)  # noqa: T201 - what an agent may do
        os.write(1, b"written\n")
        subprocess.run(["echo", "by a child"], check=True)
    print("after", flush=True)  # noqa: T201 - what an agent may do
    captured = capfd.readouterr()
    assert captured.out == "before\nafter\n"
    assert captured.err == "printed\nwritten\nby a child\n"


def test_standard_output_is_given_back_after_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ZeroDivisionError), stdout_to_stderr():
        raise ZeroDivisionError
    os.write(1, b"after\n")
    assert capfd.readouterr().out == "after\n"
