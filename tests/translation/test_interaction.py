"""Everything that works with an agent works with it through a bridge: the same tests, `link` being another."""

from __future__ import annotations

from typing import Any

import pytest

from tests.interaction import (
    test_changes,
    test_introduction,
    test_prompts_and_resources,
    test_side_by_side,
    test_talking,
    test_tools,
)

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")]

_MODULES: tuple[Any, ...] = (
    test_changes,
    test_introduction,
    test_prompts_and_resources,
    test_side_by_side,
    test_talking,
    test_tools,
)

for _module in _MODULES:
    _named: dict[str, Any] = vars(_module)
    globals().update({name: item for name, item in _named.items() if name.startswith("test_")})
