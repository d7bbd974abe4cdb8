"""What of amd-gaia 0.25 an agent sees: its base classes with their constructor, abstract methods and side effects.

The tests install a copy of this file as `gaia.agents.base.mcp_agent`, in front of ours.
"""

from __future__ import annotations

import abc
import logging
import sys
from typing import Any

# Importing amd-gaia sets up logging for the whole process.
_console = logging.StreamHandler(sys.stderr)
_console.setFormatter(logging.Formatter("amd-gaia | %(message)s"))
logging.getLogger().addHandler(_console)
logging.getLogger().setLevel(logging.INFO)

logger = logging.getLogger(__name__)


class Agent(abc.ABC):
    """Takes no option that it does not know, and does not call the next class's constructor."""

    def __init__(
        self,
        use_claude: bool = False,
        use_chatgpt: bool = False,
        claude_model: str = "claude-sonnet-5",
        base_url: str | None = None,
        model_id: str | None = None,
        max_steps: int | None = None,
        debug_prompts: bool = False,
        show_prompts: bool = False,
        output_dir: str | None = None,
        streaming: bool = False,
        show_stats: bool = False,
        silent_mode: bool = False,
        debug: bool = False,
        output_handler: Any = None,
        max_plan_iterations: int = 3,
        max_consecutive_repeats: int = 4,
        min_context_size: int | None = None,
        skip_lemonade: bool = False,
        device: str | None = None,
        skill_set: str | None = None,
        resend_reasoning_across_requests: bool = False,
        max_output_tokens: int | None = None,
        context_eviction: str = "off",
        context_eviction_threshold_tokens: int = 24000,
        context_eviction_keep_steps: int = 4,
        context_eviction_min_batch_tokens: int = 4000,
    ) -> None:
        self.silent_mode = silent_mode
        if not skip_lemonade:
            logger.error("the local model server is not running")
        self._register_tools()

    @abc.abstractmethod
    def _register_tools(self) -> None: ...


class MCPAgent(Agent):
    """Abstract in two more methods; knows nothing of reading prompts and resources, or of changes."""

    @abc.abstractmethod
    def get_mcp_tool_definitions(self) -> list[dict[str, Any]]: ...

    @abc.abstractmethod
    def execute_mcp_tool(self, tool_name: str, arguments: dict[str, Any]) -> dict[str, Any]: ...

    def get_mcp_prompts(self) -> list[dict[str, Any]]:
        return []

    def get_mcp_resources(self) -> list[dict[str, Any]]:
        return []

    def get_mcp_server_info(self) -> dict[str, Any]:
        return {"name": f"GAIA {type(self).__name__}", "version": "2.0.0"}
