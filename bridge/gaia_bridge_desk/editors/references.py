"""The references that programs fill in when they read their files, and their counterparts in our files. Pure.

Each program has a language of its own: `${HOME}` is a variable to Claude Code, and a text to VS Code and opencode. A
reference that the program would fill in is translated by its meaning; all else stays text. A language that names a
version was tried with that version; the others follow their documentation, and were not tried.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from gaia_bridge.config.expansion import as_text
from gaia_bridge.text.json_types import JSON, is_array, is_object

FILLED_IN: Final = frozenset({"command", "args", "cwd", "url", "openapi", "proxy", "env", "headers", "oauth", "tools"})
"""The keys of the bridge's entries in whose texts references are filled in."""

_NO_WORD: Final = re.compile(r"[^A-Za-z0-9]+")
_LOOKS_LIKE_ONE: Final = re.compile(r"\$\{[^}]*\}")
_DOLLARS_AT_END: Final = re.compile(r"\$+\Z")


class Language(Struct, frozen=True):
    """The references that a program fills in.

    Args:
        pattern: A reference. The group that matches names its kind: `variable` or `bare` (with `default`), `input`,
            `file`, `home`, `separator`, `folder`, `base`; `editor` for a reference that only the program can fill in,
            and `taken` for one that the bridge would read from this machine.
        empty: The keys in which a variable that is not set is an empty text.
    """

    pattern: re.Pattern[str]
    empty: frozenset[str] = frozenset()


_NAME: Final = r"[A-Za-z_][A-Za-z0-9_]*"
_ENV: Final = rf"env:(?P<variable>{_NAME})"
_OR_DEFAULT: Final = rf"(?P<variable>{_NAME})(?::-(?P<default>[^}}]*))?"
_FOLDERS: Final = (
    r"(?P<home>userHome)|(?P<separator>pathSeparator|/)|(?P<base>workspaceFolderBasename)"
    r"|(?P<folder>workspaceFolder|workspaceRoot)"
)
_INPUT: Final = r"input:(?P<input>[^}]+)"
_EDITOR: Final = r"(?:command|config|extensionInstallFolder|workspaceFolder|workspaceRoot):[^}]*|extensionInstallFolder"
_OPEN_FILE: Final = r"cwd|execPath|file(?:Basename|Dirname|Extname|WorkspaceFolder)\w*|relativeFile\w*|lineNumber"
_CLAUDE_FOLDER: Final = r"(?P<project>CLAUDE_PROJECT_DIR)(?::-[^}]*)?"


def _language(*forms: str, beside: str = "", empty: frozenset[str] = frozenset()) -> Language:
    """Return a language of forms between `${` and `}`, and of others beside them."""
    inner = rf"\$\{{(?:{'|'.join(forms)})\}}"
    return Language(re.compile(f"{inner}|{beside}" if beside else inner), empty)


NONE: Final = Language(re.compile(r"(?!)"))  # matches nothing
"""Codex, Claude Desktop, Zed, Junie, JetBrains: they fill in nothing."""

VSCODE: Final = _language(_ENV, _INPUT, _FOLDERS, rf"(?P<editor>{_EDITOR}|{_OPEN_FILE}|selectedText)", empty=FILLED_IN)
"""https://code.visualstudio.com/docs/reference/variables-reference; a variable that is not set is empty:
https://github.com/microsoft/vscode/issues/46436"""

CURSOR: Final = _language(_ENV, _FOLDERS)
"""https://cursor.com/docs/mcp.md, "Config interpolation"."""

WINDSURF: Final = _language(_ENV, r"file:(?P<file>[^}]+)")
"""https://docs.windsurf.com/windsurf/cascade/mcp, "Config interpolation"."""

CLAUDE: Final = _language(_CLAUDE_FOLDER, _OR_DEFAULT)
"""Tried with 2.1.332: `$X` and `${env:X}` are texts, and so is `${X}` while `X` is not set."""

COPILOT: Final = _language(_OR_DEFAULT, beside=rf"\$(?P<bare>{_NAME})")
"""https://docs.github.com/en/copilot/how-tos/use-copilot-agents/coding-agent/extend-coding-agent-with-mcp"""

GEMINI: Final = _language(_OR_DEFAULT, beside=rf"\$(?P<bare>{_NAME})", empty=frozenset({"env"}))
"""Tried with 0.61.0: a variable that is not set is empty in `env`, and elsewhere the text stays."""

OPENCODE: Final = Language(re.compile(rf"\{{(?:{_ENV}|file:(?P<file>[^}}]+))\}}"), FILLED_IN)
"""Tried with 1.18.33: relative files begin at its own file, and `${HOME}` is a text."""

CLINE: Final = _language(_ENV)
ROO: Final = _language(_ENV, r"(?P<folder>workspaceFolder)")
"""https://docs.roocode.com/features/mcp/using-mcp-in-roo"""

ANY: Final = _language(
    _INPUT,
    _FOLDERS,
    _CLAUDE_FOLDER,
    rf"(?P<editor>{_EDITOR})",
    rf"(?:env:)?{_OR_DEFAULT}",
    r"(?P<taken>(?:file|keyring):[^}]*)",
    beside=rf"\{{(?:env:(?P<braced>{_NAME})|(?P<taken_too>file:[^}}]+))\}}"
    r"|(?:\A|(?<=\ABearer )|(?<=\ABasic )|(?<=\Atoken ))\$(?P<bare>[A-Z_][A-Z0-9_]*)\Z",
)
"""The language of a program that is not known: the forms of all programs, except those that read files."""


def variable_of_input(name: str) -> str:
    """Return the environment variable that stands for an input of an editor.

    Args:
        name: The name of the input.
    """
    word = _NO_WORD.sub("_", name).strip("_").upper() or "INPUT"
    return f"INPUT_{word}" if word[0].isdigit() else word


class Translator:
    """Translates the texts of one entry.

    Args:
        language: The language of the texts.
        home: The home folder.
        workspace: The folder that is open, where the file belongs to one.
        beside: The folder of the file, where relative files begin; `None` if no files are read for its author.
    """

    def __init__(self, language: Language, home: str, workspace: str | None, beside: str | None) -> None:
        self._language = language
        self._home = home
        self._workspace = workspace
        self._beside = beside
        self.problems: list[str] = []
        """Why the entry cannot be used here."""
        self.texts: list[str] = []
        """Texts that look like references, and are none to the program."""
        self.inputs: set[str] = set()
        """The inputs that the texts refer to."""

    def entry(self, entry: JSON) -> JSON:
        """Return the entry with all of its texts translated.

        Args:
            entry: An entry with the keys of the bridge.
        """
        return {key: self._value(value, key) if key in FILLED_IN else value for key, value in entry.items()}

    def text(self, text: str, key: str) -> str:
        """Translate one text.

        Args:
            text: The text.
            key: The key of the entry that it belongs to.
        """
        made, plain = "", ""
        for is_reference, piece in self._pieces(text, key):
            if is_reference:
                made += _DOLLARS_AT_END.sub(lambda match: match[0] * 2, self._plain_text(plain)) + piece
                plain = ""
            else:
                plain += piece
        return made + self._plain_text(plain)

    def _value(self, value: Any, key: str) -> Any:
        if is_object(value):
            return {name: self._value(item, key) for name, item in value.items()}
        if is_array(value):
            return [self._value(item, key) for item in value]
        return self.text(value, key) if isinstance(value, str) else value

    def _plain_text(self, text: str) -> str:
        self.texts += _LOOKS_LIKE_ONE.findall(text)
        return as_text(text)

    def _pieces(self, text: str, key: str) -> Iterator[tuple[bool, str]]:
        """Yield the pieces of a text, and whether each is a reference of the bridge."""
        end = 0
        for match in self._language.pattern.finditer(text):
            yield False, text[end : match.start()]
            groups = {kind: value for kind, value in match.groupdict().items() if value is not None}
            yield self._piece(groups, match, key)
            end = match.end()
        yield False, text[end:]

    def _piece(self, groups: Mapping[str, str], match: re.Match[str], key: str) -> tuple[bool, str]:
        if variable := groups.get("variable") or groups.get("bare") or groups.get("braced"):
            return True, self._variable(variable, groups.get("default"), key)
        if name := groups.get("input"):
            self.inputs.add(name)
            return True, f"${{env:{variable_of_input(name)}}}"
        if path := groups.get("file"):
            return self._file(path, match[0])
        if "taken" in groups or "taken_too" in groups:
            return self._refused(match[0])
        if "home" in groups:
            return False, self._home
        if "separator" in groups:
            return False, os.sep
        if "editor" in groups:
            kind = match[0].removeprefix("${").removesuffix("}").partition(":")[0]
            if kind.startswith("workspace"):
                return self._without_folder(kind, match[0])
            self.problems.append(
                f"it has ${{{kind}{':...' if ':' in match[0] else ''}}}, which the editor alone can fill in"
            )
            return False, match[0]
        if self._workspace is None:
            return self._without_folder(groups.get("folder") or groups.get("project") or groups["base"], match[0])
        return False, os.path.basename(self._workspace) if "base" in groups else self._workspace

    def _variable(self, name: str, default: str | None, key: str) -> str:
        if default is None:
            default = "" if key in self._language.empty else None
        elif "${" in default or "$(" in default:
            self.problems.append(f"it has a reference inside of the default of {name}")
        return f"${{env:{name}}}" if default is None else f"${{env:{name}:-{default}}}"

    def _file(self, path: str, written: str) -> tuple[bool, str]:
        path = path.strip()
        if self._beside is None or "$" in path:
            return self._refused(written)
        if not path.startswith("~/"):
            path = os.path.normpath(os.path.join(self._beside, path))
        return True, f"${{file:{path}}}"

    def _refused(self, written: str) -> tuple[bool, str]:
        shown = written if len(written) <= 100 else f"{written[:100]}..."
        self.problems.append(
            f"it has {shown!r} handed to it, out of your files or keyring; if you want that, type it yourself: "
            "gaia-bridge add NAME COMMAND --env 'VARIABLE=${file:PATH}', or --header"
        )
        return False, written

    def _without_folder(self, kind: str, written: str) -> tuple[bool, str]:
        self.problems.append(
            f"it has ${{{kind}}}, and its file belongs to no folder: an entry of its own is needed in each"
        )
        return False, written
