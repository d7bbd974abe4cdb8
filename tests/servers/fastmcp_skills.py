"""Skills as FastMCP publishes them (SEP-2640): `python fastmcp_skills.py FOLDER`."""

import sys

from fastmcp import FastMCP
from fastmcp.server.providers.skills import SkillsDirectoryProvider
from fastmcp.skills.extension import SkillsExtension

mcp = FastMCP("shop")
provider = SkillsDirectoryProvider(roots=sys.argv[1], reload=True, experimental_skills=True)
mcp.add_provider(provider)
mcp.add_extension(SkillsExtension(providers=[provider]))

if __name__ == "__main__":
    mcp.run(show_banner=False)
