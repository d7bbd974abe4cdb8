"""The table of editors: where each keeps its MCP servers, how it writes one, and which MCP features it has. Facts.

Each entry names the source of its facts. The output of a program itself (`codex mcp add` and so on) counts more than
its documentation. How many tools and how large results a program takes is in `gaia_bridge.server.known_clients`,
because the core needs that while it serves; `Editor.client` is the name that leads there.

Features are those that a program declares, or was seen to use; a feature that is not listed was never seen. Sources:
the registry apify/mcp-client-capabilities, the documentation that the entries name, and for VS Code the messages that
it sent to our own tests.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

from msgspec import Struct, field

from gaia_bridge_desk.editors import references
from gaia_bridge_desk.editors.references import (
    CLAUDE,
    CLINE,
    COPILOT,
    CURSOR,
    GEMINI,
    OPENCODE,
    ROO,
    WINDSURF,
    Language,
)


class FileKind(Enum):
    """The format of a file."""

    JSON = "json"
    """Strict JSON: a comment makes the file unreadable for the editor."""
    JSONC = "jsonc"
    """JSON with comments and trailing commas."""
    TOML = "toml"


class FileScope(Enum):
    """The reach of a file."""

    USER = "user"
    """In every folder."""
    WORKSPACE = "workspace"
    """In one folder; the file is there."""
    REMOTE = "remote"
    """On this machine, for an editor that runs on another one and works here."""


class EntryShape(Struct, frozen=True, kw_only=True):
    """The form of a server's entry in a file.

    Args:
        stdio: The first members of a program's entry.
        http: The first members of an address's entry; `None` where the editor takes no addresses.
        command: The key of the program.
        args: The key of its arguments; `None` where the program and they are one list.
        env: The key of its variables.
        cwd: The key of its folder, where it has one.
        workspace: The text that stands for the open folder, if there is one.
        url: The key of the address.
        headers: The key of its headers.
        variable: The form of a reference to an environment variable, with `{}` for its name.
        bearer_variable: The key that names the variable with the token, where no header holds it.
        further: The last members of every entry.
        timeout: The unit of `timeout`, in seconds; `None` where that key means nothing.
        references: The references that the editor fills in.
        env_file: Whether `envFile` names a file of variables.
        plain_url: The transport of an address without a type: `sse` or `http`.
    """

    stdio: dict[str, Any] = field(default_factory=dict[str, Any])
    http: dict[str, Any] | None = field(default_factory=dict[str, Any])
    command: str = "command"
    args: str | None = "args"
    env: str = "env"
    cwd: str | None = "cwd"
    workspace: str | None = None
    url: str = "url"
    headers: str = "headers"
    variable: str | None = None
    bearer_variable: str | None = None
    further: dict[str, Any] = field(default_factory=dict[str, Any])
    timeout: float | None = None
    references: Language = references.NONE
    env_file: bool = False
    plain_url: str = "http"


class FilePlace(Struct, frozen=True):
    """A file of an editor.

    Args:
        scope: The reach of the file.
        folder: The folder, which begins with `~`, `{support}` (`~/Library/Application Support` on macOS, else
            `{config}`), `{config}` (`$XDG_CONFIG_HOME`, or `~/.config`), `{data}` (`$XDG_DATA_HOME`, or
            `~/.local/share`) or, in a workspace, `.`. If it exists, the editor counts as installed.
        names: The file's possible names; the first that exists is used, or else the first.
        variable: The variable of the environment that names another folder.
        shape: The form of its entries, where that is not the one of the editor's other files.
    """

    scope: FileScope
    folder: str
    names: tuple[str, ...]
    variable: str | None = None
    shape: EntryShape | None = None


class Editor(Struct, frozen=True, kw_only=True):
    """An editor, or another program that uses MCP servers.

    Args:
        name: Its name on the command line.
        title: Its full name.
        kind: The format of its files.
        root: The key of its servers.
        shape: The form of its entries.
        places: Its files, the usual one first; none where users have to add servers by hand.
        programs: Its commands, by which it is detected.
        settings: Files that list no servers, but list those that are switched off.
        prompts: Whether it asks the user for values (`inputs` beside the servers).
        sockets: Whether it reaches `unix:///...`.
        then: Instructions for after the installation.
        http_by_hand: How to add an address, where the file takes none.
        has_agents: Whether agents of others run in it, which it lends its servers.
        has_projects: Whether its file for all folders also has servers of single ones.
        client: The client name that it sends, where facts are known about that name.
        features: Those of `gaia_bridge_desk.doctor.servers.FEATURES` that it has, with commas; empty if no program.
    """

    name: str
    title: str
    kind: FileKind = FileKind.JSON
    root: str = "mcpServers"
    shape: EntryShape
    places: tuple[FilePlace, ...]
    programs: tuple[str, ...] = ()
    settings: tuple[FilePlace, ...] = ()
    prompts: bool = False
    sockets: bool = False
    then: str
    http_by_hand: str | None = None
    has_agents: bool = False
    has_projects: bool = False
    client: str = ""
    features: str

    def has_feature(self, name: str) -> bool:
        """Return whether the editor has a feature of the protocol."""
        return name in self.features.split(", ")

    @property
    def most_tools(self) -> int | None:
        """The largest number of tools that the editor takes, if known."""
        from gaia_bridge.server.known_clients import tool_limit

        return tool_limit(self.client)

    def shape_in(self, place: FilePlace | None) -> EntryShape:
        """Return the shape of a server in one of the files."""
        return self.shape if place is None or place.shape is None else place.shape


VSCODE: Final = EntryShape(
    stdio={"type": "stdio"},
    http={"type": "http"},
    workspace="${workspaceFolder}",
    variable="${{env:{}}}",
    references=references.VSCODE,
    env_file=True,
)
"""https://code.visualstudio.com/docs/agents/reference/mcp-configuration, and `gaia_bridge_desk.editors.vscode`."""

_CLAUDE_CODE: Final = EntryShape(
    stdio={"type": "stdio"}, http={"type": "http"}, cwd=None, variable="${{{}}}", timeout=0.001, references=CLAUDE
)
"""The form that `claude mcp add` of Claude Code 2.1.197 writes; `${VAR}`: https://code.claude.com/docs/en/mcp."""

_CLINE: Final = EntryShape(
    http={"type": "streamableHttp"},
    cwd=None,
    variable="${{env:{}}}",
    plain_url="sse",
    timeout=1,
    references=CLINE,
)
"""https://docs.cline.bot/mcp/mcp-overview; an address without a type is SSE to it, and `timeout` counts seconds."""

_START_IN_VSCODE: Final = "run MCP: List Servers in it, choose the server, and Start Server"

_GLOBAL_STORAGE: Final = "{support}/Code/User/globalStorage"


def _vscode(
    name: str, title: str, support: str, remote: str | None, program: str, client: str = "visual studio code"
) -> Editor:
    """Return VS Code, or an editor that is built from it. The file for machines that are used from others is
    `data/User/mcp.json`: https://github.com/microsoft/vscode/issues/269340. Whether VS Code asks for the inputs of that
    file is open (https://github.com/microsoft/vscode/pull/324124).

    Agents in its Agent Host are lent the servers of these files. They and its chat also read `.mcp.json`
    (https://code.visualstudio.com/docs/agents/reference/mcp-configuration), which is therefore not written beside: VS
    Code 1.139.1 shows prompts and resources of both, although it lists the second of one name as disabled."""
    places = [
        FilePlace(FileScope.USER, support, ("mcp.json",)),
        FilePlace(FileScope.WORKSPACE, "./.vscode", ("mcp.json",)),
    ]
    if remote is not None:
        places.append(FilePlace(FileScope.REMOTE, remote, ("mcp.json",)))
    return Editor(
        name=name,
        title=title,
        kind=FileKind.JSONC,
        root="servers",
        shape=VSCODE,
        places=tuple(places),
        programs=(program,),
        prompts=True,
        sockets=True,
        then=_START_IN_VSCODE,
        has_agents=True,
        client=client,
        features="tools, prompts, resources, resource updates, list changes, tasks, elicitation, sampling, roots",
    )


EDITORS: Final = (
    _vscode("vscode", "VS Code", "{support}/Code/User", "~/.vscode-server/data/User", "code"),
    _vscode(
        "vscode-insiders",
        "VS Code Insiders",
        "{support}/Code - Insiders/User",
        "~/.vscode-server-insiders/data/User",
        "code-insiders",
    ),
    _vscode("code-server", "code-server", "{data}/code-server/User", None, "code-server", "code-server"),
    Editor(  # https://cursor.com/docs/mcp.md
        name="cursor",
        title="Cursor",
        kind=FileKind.JSONC,
        shape=EntryShape(
            stdio={"type": "stdio"},
            cwd=None,
            workspace="${workspaceFolder}",
            variable="${{env:{}}}",
            references=CURSOR,
            env_file=True,
        ),
        places=(
            FilePlace(FileScope.USER, "~/.cursor", ("mcp.json",)),
            FilePlace(FileScope.WORKSPACE, "./.cursor", ("mcp.json",)),
        ),
        programs=("cursor",),
        then="switch the server on in Cursor Settings, Tools & MCP",
        client="cursor-vscode",
        features="tools, prompts, resources, list changes, elicitation, roots",
    ),
    Editor(  # https://docs.windsurf.com/windsurf/cascade/mcp; `${env:...}` there as well
        name="windsurf",
        title="Windsurf",
        shape=EntryShape(url="serverUrl", cwd=None, variable="${{env:{}}}", references=WINDSURF),
        places=(FilePlace(FileScope.USER, "~/.codeium/windsurf", ("mcp_config.json",)),),
        programs=("windsurf",),
        then="press Refresh in Windsurf's list of MCP servers",
        client="windsurf",
        features="tools, prompts, resources, list changes",
    ),
    Editor(
        name="claude-code",
        title="Claude Code",
        shape=_CLAUDE_CODE,
        places=(
            FilePlace(FileScope.USER, "~", (".claude.json",), "CLAUDE_CONFIG_DIR"),
            FilePlace(FileScope.WORKSPACE, ".", (".mcp.json",)),
        ),
        settings=(
            FilePlace(FileScope.USER, "~/.claude", ("settings.json",), "CLAUDE_CONFIG_DIR"),
            FilePlace(FileScope.WORKSPACE, "./.claude", ("settings.json",)),
            FilePlace(FileScope.WORKSPACE, "./.claude", ("settings.local.json",)),
        ),
        programs=("claude",),
        then="claude mcp list shows it; servers of a project are approved when claude is started there",
        has_projects=True,
        client="claude-code",
        features="tools, prompts, resources, list changes, elicitation, roots",
    ),
    Editor(  # https://modelcontextprotocol.io/quickstart/user; a remote server is a connector, made in its settings
        name="claude-desktop",
        title="Claude Desktop",
        shape=EntryShape(http=None, cwd=None),
        places=(FilePlace(FileScope.USER, "{support}/Claude", ("claude_desktop_config.json",)),),
        then="quit Claude Desktop and start it again",
        http_by_hand=(
            "add it in Claude Desktop itself: Settings, Connectors, Add custom connector. It is reached from the "
            "internet, with https; a bridge of this machine alone is used without --http"
        ),
        features="tools, prompts, resources",
    ),
    Editor(  # https://zed.dev/docs/ai/mcp; `timeout` in seconds
        name="zed",
        title="Zed",
        kind=FileKind.JSONC,
        root="context_servers",
        shape=EntryShape(cwd=None, timeout=1),
        places=(
            FilePlace(FileScope.USER, "{config}/zed", ("settings.json",)),
            FilePlace(FileScope.WORKSPACE, "./.zed", ("settings.json",)),
        ),
        programs=("zed", "zeditor", "zedit"),
        then="the Agent Panel's settings show it with a green dot",
        features="tools, prompts",
    ),
    Editor(  # https://www.jetbrains.com/help/junie/model-context-protocol-mcp.html: stdio alone
        name="junie",
        title="JetBrains Junie",
        shape=EntryShape(http=None, cwd=None),
        places=(
            FilePlace(FileScope.USER, "~/.junie/mcp", ("mcp.json",)),
            FilePlace(FileScope.WORKSPACE, "./.junie/mcp", ("mcp.json",)),
        ),
        then="it is in Settings, Tools, Junie, MCP Settings",
        features="tools",
    ),
    Editor(  # https://www.jetbrains.com/help/ai-assistant/mcp.html; the IDE keeps these in a place of its own
        name="jetbrains",
        title="JetBrains AI Assistant",
        shape=EntryShape(cwd=None),
        places=(),
        then="in Settings, Tools, AI Assistant, Model Context Protocol (MCP), choose Add, paste it, and press Apply",
        features="tools",
    ),
    Editor(  # written by `codex mcp add` of 0.169.0; a project's file is used where the project is trusted
        name="codex",
        title="Codex",
        kind=FileKind.TOML,
        root="mcp_servers",
        shape=EntryShape(headers="http_headers", bearer_variable="bearer_token_env_var"),
        places=(
            FilePlace(FileScope.USER, "~/.codex", ("config.toml",), "CODEX_HOME"),
            FilePlace(FileScope.WORKSPACE, "./.codex", ("config.toml",)),
        ),
        programs=("codex",),
        then="codex mcp list shows it",
        client="codex-mcp-client",
        features="tools, elicitation",
    ),
    Editor(  # written by `gemini mcp add` of 0.61.0; older ones know `httpUrl`; a plain `url` is SSE to them
        name="gemini-cli",
        title="Gemini CLI",
        kind=FileKind.JSONC,
        shape=EntryShape(http={"type": "http"}, variable="${{{}}}", timeout=0.001, plain_url="sse", references=GEMINI),
        places=(
            FilePlace(FileScope.USER, "~/.gemini", ("settings.json",)),
            FilePlace(FileScope.WORKSPACE, "./.gemini", ("settings.json",)),
        ),
        settings=(FilePlace(FileScope.USER, "~/.gemini", ("mcp-server-enablement.json",)),),
        programs=("gemini",),
        then="gemini mcp list shows it, in folders that you trust",
        client="gemini-cli-mcp-client",
        features="tools, prompts",
    ),
    # Written by `copilot mcp add` of 1.0.102. A workspace's file is the portable one, in which Claude Code refuses
    # the list `tools`; it is used in folders that Copilot trusts.
    Editor(
        name="copilot-cli",
        title="Copilot CLI",
        shape=EntryShape(
            stdio={"type": "local"},
            http={"type": "http"},
            cwd=None,
            variable="${{{}}}",
            further={"tools": ["*"]},
            timeout=0.001,
            references=COPILOT,
        ),
        places=(
            FilePlace(FileScope.USER, "~/.copilot", ("mcp-config.json",), "COPILOT_HOME"),
            FilePlace(FileScope.WORKSPACE, ".", (".mcp.json",), shape=_CLAUDE_CODE),
        ),
        settings=(FilePlace(FileScope.USER, "~/.copilot", ("settings.json",), "COPILOT_HOME"),),
        programs=("copilot",),
        then="copilot mcp list shows it, that of a workspace once copilot was started there and you trust the folder",
        client="copilot-cli",
        features="tools",
    ),
    Editor(  # https://opencode.ai/docs/mcp-servers/; tried with 1.18.33
        name="opencode",
        title="opencode",
        kind=FileKind.JSONC,
        root="mcp",
        shape=EntryShape(
            stdio={"type": "local"},
            http={"type": "remote"},
            args=None,
            env="environment",
            cwd=None,
            variable="{{env:{}}}",
            further={"enabled": True},
            timeout=0.001,
            references=OPENCODE,
        ),
        places=(
            FilePlace(FileScope.USER, "{config}/opencode", ("opencode.json", "opencode.jsonc")),
            FilePlace(FileScope.WORKSPACE, ".", ("opencode.json", "opencode.jsonc")),
        ),
        programs=("opencode",),
        then="opencode mcp list shows it",
        client="opencode",
        features="tools, list changes",
    ),
    Editor(
        name="cline",
        title="Cline in VS Code",
        shape=_CLINE,
        places=(
            FilePlace(
                FileScope.USER, f"{_GLOBAL_STORAGE}/saoudrizwan.claude-dev/settings", ("cline_mcp_settings.json",)
            ),
        ),
        then="it is in Cline's list of MCP servers",
        features="tools, resources, list changes",
    ),
    Editor(
        name="cline-cli",
        title="Cline CLI",
        shape=_CLINE,
        places=(FilePlace(FileScope.USER, "~/.cline/data/settings", ("cline_mcp_settings.json",)),),
        programs=("cline",),
        then="it is there when cline is started again",
        features="tools, resources, list changes",
    ),
    Editor(  # https://docs.roocode.com/features/mcp/using-mcp-in-roo
        name="roo",
        title="Roo Code in VS Code",
        shape=EntryShape(
            http={"type": "streamable-http"},
            workspace="${workspaceFolder}",
            variable="${{env:{}}}",
            timeout=1,
            references=ROO,
        ),
        places=(
            FilePlace(FileScope.USER, f"{_GLOBAL_STORAGE}/rooveterinaryinc.roo-cline/settings", ("mcp_settings.json",)),
            FilePlace(FileScope.WORKSPACE, "./.roo", ("mcp.json",)),
        ),
        then="it is in Roo's list of MCP servers",
        features="tools, resources",
    ),
    Editor(  # read by Claude Code, Copilot CLI, VS Code's Copilot harness, JetBrains Air and others
        name="mcp-json",
        title="the portable .mcp.json",
        shape=_CLAUDE_CODE,
        places=(FilePlace(FileScope.WORKSPACE, ".", (".mcp.json",)),),
        then="programs that are started in this folder read it, most of them once you approve",
        features="",
    ),
)
"""All editors, in the order in which they are listed."""

BY_HAND: Final = "its servers are kept where no other program can write them"
"""The reason why no file is written for an editor that has no places."""
