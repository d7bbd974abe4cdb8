"""Chat models for `gaia-bridge serve`: the agent of document 001, example 3, one that borrows, and one that hangs."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from typing import Any

from gaia.agents.base import Agent, ApiAgent, MCPAgent
from gaia_bridge.chat_types import ChatRequest, Reply, ToolCall, Usage
from gaia_bridge.errors import ModelUnreachableError


class CodeAgent(MCPAgent, ApiAgent, Agent):
    """Code agent exposed via MCP and OpenAI API."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.analysed: list[str] = []

    def get_mcp_tool_definitions(self) -> list[dict[str, Any]]:
        path = {"type": "object", "properties": {"file_path": {"type": "string"}}, "required": ["file_path"]}
        return [{"name": "analyze-code", "description": "Analyze code quality", "inputSchema": path}]

    def execute_mcp_tool(self, tool_name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        self.analysed.append(arguments["file_path"])
        return {"quality_score": 85, "issues": 3, "analysed": len(self.analysed)}

    def get_model_id(self) -> str:
        return "gaia-code"

    def get_model_info(self) -> dict[str, Any]:
        return {"max_input_tokens": 32768, "max_output_tokens": 8192, "description": "Autonomous Python coding agent"}

    async def answer_chat(self, request: ChatRequest) -> AsyncGenerator[str | Reply]:
        question = request.messages[-1]["content"]
        usage = Usage(len(request.messages), 2)
        if request.client_tools and request.messages[-1]["role"] == "user":
            name = request.client_tools[0]["function"]["name"]
            yield Reply("", (ToolCall("call-1", name, json.dumps({"question": question})),), usage=usage)
            return
        if question == "unreachable":
            raise ModelUnreachableError("No model server answers.", "Start one.")
        if question == "broken":
            raise RuntimeError("a secret")
        yield "I analysed "
        yield Reply(f"I analysed {', '.join(self.analysed) or 'nothing'}; you said {question}.", usage=usage)


class BorrowerAgent(ApiAgent):
    """Calls each tool that it is lent."""

    async def answer_chat(self, request: ChatRequest) -> AsyncGenerator[str | Reply]:
        for lent in request.lent_tools:
            result = await lent.call({"file_path": "main.py"})
            yield f"{lent.definition['name']}: {json.dumps(result['structuredContent'])}"


class HangingAgent(ApiAgent):
    """Begins to answer."""

    async def answer_chat(self, request: ChatRequest) -> AsyncGenerator[str | Reply]:
        yield "One moment, "
        print("hanging", file=sys.stderr, flush=True)  # noqa: T201
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            print("cancelled", file=sys.stderr, flush=True)  # noqa: T201
            raise
