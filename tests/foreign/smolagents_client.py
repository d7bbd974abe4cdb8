"""What smolagents makes of an endpoint's tools, through mcpadapt: `smolagents_client.py URL TOOL [ARGUMENTS]`.

Runs in an environment of its own, with nothing of this project. Prints one JSON document.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from typing import Any


def main(url: str, called: str, arguments: str = "{}") -> None:
    """Print the names of the tools, and what one of them answers."""
    core: Any = import_module("mcpadapt.core")
    adapters: Any = import_module("mcpadapt.smolagents_adapter")
    server = {"url": url, "transport": "streamable-http"}
    with core.MCPAdapt(server, adapters.SmolAgentsAdapter()) as tools:
        by_name = {tool.name: tool for tool in tools}
        sys.stdout.write(json.dumps({"tools": list(by_name), "answer": by_name[called](**json.loads(arguments))}))


if __name__ == "__main__":
    main(*sys.argv[1:])
