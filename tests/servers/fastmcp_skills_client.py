"""A client of FastMCP that uses skills (SEP-2640): `python fastmcp_skills_client.py NUMBER URL|COMMAND ARGS...`.

It waits until there are so many: on a busy machine, a server may start later than a list can wait for it.

Prints, as JSON, the digest of every file of every skill, as its entry says it and as it was read.
"""

import asyncio
import base64
import hashlib
import json
import sys
from typing import Any

from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from fastmcp.skills import SkillsClientExtension


async def main() -> None:
    number, target, *args = sys.argv[1:]
    transport: Any = target if target.startswith("http") else StdioTransport(command=target, args=args)
    found: dict[str, dict[str, list[str]]] = {}
    async with Client(transport, extensions=[SkillsClientExtension()]) as client:
        async with asyncio.timeout(60):
            while len(skills := await client.list_skills()) < int(number):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        for skill in skills:
            assert await client.get_skill(skill.uri) == skill
            files = found[skill.uri] = {}
            for file in skill.resources:
                [content] = await client.read_resource(file.uri)
                data = content.text.encode() if hasattr(content, "text") else base64.b64decode(content.blob)
                files[file.uri] = [file.digest, f"sha256:{hashlib.sha256(data).hexdigest()}"]
        prompts = [prompt.name for prompt in await client.list_prompts()]
    sys.stdout.write(json.dumps({"skills": found, "prompts": prompts}))


asyncio.run(main())
