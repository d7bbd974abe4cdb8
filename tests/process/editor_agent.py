"""An agent for `gaia-bridge acp` that makes noise wherever it can. Its model is where the environment says."""

from __future__ import annotations

import os
import subprocess
import sys

from gaia.agents.base import Agent, get_request_context, tool

print("printed while it is imported")  # noqa: T201


class NoisyAgent(Agent):
    """Writes to standard output in every way."""

    def _get_system_prompt(self) -> str:
        print("printed in a hook")  # noqa: T201
        return "You are noisy."

    def _register_tools(self) -> None:
        @tool(annotations={"destructiveHint": True})
        def delete_file(path: str) -> str:
            """Delete a file, with noise."""
            print("printed in a tool", flush=True)  # noqa: T201
            os.write(1, b"written to descriptor 1\n")
            subprocess.run([sys.executable, "-S", "-c", "print('printed by a child')"], check=True)
            return f"deleted {path}; input is {sys.stdin.read()!r}"

        @tool
        def count_words(path: str) -> str:
            """Count the words of a file in a terminal of the editor."""
            editor = get_request_context().editor
            assert editor is not None
            words = editor.read_text_file(path).split()
            code = "import os, sys; print(len(sys.argv) - 1, 'words in', os.getcwd())"
            end = editor.run(sys.executable, "-S", "-c", code, *words)
            editor.write_text_file("words.txt", end.output)
            return f"{end.exit_code}"

        @tool
        def hang() -> str:
            """Wait until it is cancelled."""
            get_request_context().wait_cancelled(60)
            return "late"
