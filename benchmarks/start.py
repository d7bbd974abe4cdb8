"""What a start costs until the first answer on stdio: of an agent by hand, and of one with decorated functions.

    python -m benchmarks.start [--repeat 21] [--json]

Both are started in turn, as is Python alone; the least of each counts, since a busy machine only adds. Memory is PSS:
what processes share is counted once.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import psutil

from benchmarks.load import LEGACY, PipeClient, message
from benchmarks.relay import running

AIM_MS: Final = 15.0
AIM_MIB: Final = 2.0
"""By how much more an agent with decorated functions of plain types may take."""
BY_HAND: Final = """
from gaia.agents.base import MCPAgent

class Agent(MCPAgent):
    def get_mcp_tool_definitions(self):
        text = {"type": "string"}
        return [{"name": "echo", "inputSchema": {"type": "object", "properties": {"text": text}, "required": ["text"]}}]

    def execute_mcp_tool(self, tool_name, arguments):
        return {"text": arguments["text"]}
"""
DECORATED: Final = '''
from gaia_bridge import tool

@tool
def echo(text: str, times: int = 1) -> str:
    """Say it again."""
    return text * times
'''

Row = dict[str, float]


def started(folder: Path, words: list[str]) -> Row:
    """Start a program once, and call its tool."""
    began = time.perf_counter()
    with running([sys.executable, *words], folder, piped=True) as process:
        row: Row = {}
        if "-c" in words:
            assert process.stdout is not None
            process.stdout.readline()
        else:
            client = PipeClient(LEGACY, "echo", process)
            client.greet()
            row["first_answer_ms"] = (client.first_answer - began) * 1_000
            client.ask(message("tools/list", {}))
        info = psutil.Process(process.pid)
        return {
            "first_answer_ms": (time.perf_counter() - began) * 1_000,
            "called_ms": (time.perf_counter() - began) * 1_000,
            **row,
            "cpu_ms": sum(info.cpu_times()[:2]) * 1_000,
            "pss_mib": info.memory_full_info().pss / 2**20,
        }


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description="Measure what a start costs.")
    parser.add_argument("--repeat", type=int, default=21)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        commands = {"python": ["-c", "print(1, flush=True); input()"]}
        for kind, source in (("by hand", BY_HAND), ("decorated", DECORATED)):
            file = folder / f"{kind.replace(' ', '_')}.py"
            file.write_text(source, encoding="utf-8")
            commands[kind] = ["-m", "gaia_bridge", "serve", "--stdio", str(file)]
        rounds = [{kind: started(folder, words) for kind, words in commands.items()} for _ in range(options.repeat + 1)]
    least = {
        kind: {key: min(played[kind][key] for played in rounds[1:]) for key in rounds[0][kind]} for kind in commands
    }
    if options.json:
        sys.stdout.write(json.dumps(least, indent=2) + "\n")
        return
    for kind, row in least.items():
        sys.stdout.write(f"| {kind} | {' | '.join(f'{key} {value:.1f}' for key, value in row.items())} |\n")
    more = {key: least["decorated"][key] - value for key, value in least["by hand"].items()}
    sys.stdout.write(
        f"decorated: {more['first_answer_ms']:+.1f} ms (aim: {AIM_MS:g}), "
        f"{more['pss_mib']:+.1f} MiB (aim: {AIM_MIB:g})\n"
    )


if __name__ == "__main__":
    main()
