"""What a start costs until the first answer on stdio: of an agent by hand, and of one with decorated functions.

    python -m benchmarks.start [--repeat 21]

Both are started in turn; the least of each counts, since a busy machine only adds. Memory is PSS:
what processes share is counted once.
"""

from __future__ import annotations

import argparse
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
_PLAIN: Final = """
from gaia.agents.base import MCPAgent

class Agent(MCPAgent):
    def get_mcp_tool_definitions(self):
        text = {"type": "string"}
        return [{"name": "echo", "inputSchema": {"type": "object", "properties": {"text": text}, "required": ["text"]}}]

    def execute_mcp_tool(self, tool_name, arguments):
        return {"text": arguments["text"]}
"""
_DECORATED: Final = '''
from gaia_bridge import tool

@tool
def echo(text: str, times: int = 1) -> str:
    """Say it again."""
    return text * times
'''

AGENTS: Final = {"plain": _PLAIN, "decorated": _DECORATED}
Row = dict[str, float]


def started(folder: Path, file: Path) -> Row:
    """Start an agent once, and call its tool."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "gaia_bridge", "serve", "--stdio", str(file)]
    with running(command, folder, piped=True) as process:
        client = PipeClient(LEGACY, "echo", process)
        client.greet()
        client.ask(message("tools/list", {}))
        info = psutil.Process(process.pid)
        return {
            "first_answer_ms": (client.first_answer - began) * 1_000,
            "cpu_ms": sum(info.cpu_times()[:2]) * 1_000,
            "pss_mib": info.memory_full_info().pss / 2**20,
        }


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description="Measure what a start costs.")
    parser.add_argument("--repeat", type=int, default=21)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        files = {kind: Path(name) / f"{kind}.py" for kind in AGENTS}
        for kind, file in files.items():
            file.write_text(AGENTS[kind], encoding="utf-8")
        rounds = [{kind: started(Path(name), file) for kind, file in files.items()} for _ in range(options.repeat + 1)]
    least = {kind: {key: min(played[kind][key] for played in rounds[1:]) for key in rounds[0][kind]} for kind in AGENTS}
    for kind, row in least.items():
        sys.stdout.write(f"| {kind} | {' | '.join(f'{key} {value:.1f}' for key, value in row.items())} |\n")
    more = {key: value - least["plain"][key] for key, value in least["decorated"].items()}
    sys.stdout.write(
        f"decorated: {more['first_answer_ms']:+.1f} ms (aim: {AIM_MS:g}), "
        f"{more['pss_mib']:+.1f} MiB (aim: {AIM_MIB:g})\n"
    )


if __name__ == "__main__":
    main()
