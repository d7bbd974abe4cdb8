"""Typed definitions: functions and methods that become tools, prompts, resources and completions of MCP."""
