"""Everything that works with an agent works with it through a bridge: the same tests, `link` being another."""

from __future__ import annotations

from importlib import import_module

import pytest

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")]

for _name in ("changes", "introduction", "prompts_and_resources", "side_by_side", "talking", "tool_search", "tools"):
    _module = import_module(f"tests.interaction.test_{_name}")
    globals().update({name: item for name, item in vars(_module).items() if name.startswith("test_")})
