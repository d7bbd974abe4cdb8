"""The tools, prompts and resources of `CodeAgent`, as MCP definitions. Data only."""

from __future__ import annotations

from gaia_agents.schemas import COUNT, FLAG, LINE, READ_ONLY, STRING, about, array_of, closed_object, or_null
from gaia_bridge.text.json_types import JSON

__all__ = ["FILE_PREFIX", "PROMPTS", "RESOURCES", "TEMPLATES", "TOOLS", "TREE_URI"]

TREE_URI = "code://tree"
FILE_PREFIX = "code://file/"

_PATH: JSON = {"type": "string", "minLength": 1, "maxLength": 4096}

_SEARCH: JSON = {
    "name": "search-code",
    "title": "Search code",
    "description": (
        "Find lines in the text files of the project by regular expression (Python syntax) or plain text. "
        "Gives path, line, column and text of each matching line, file by file. Leaves out binary files and "
        "whatever git ignores. Narrow the search with path, glob or file_type when the answer says it was truncated."
    ),
    "inputSchema": closed_object(
        {
            "pattern": about(STRING, "What to find, within one line.", minLength=1, maxLength=1000),
            "path": about(_PATH, "Folder or file to search in, from the root folder.", default="."),
            "glob": about(
                STRING,
                "Only these files, written as in .gitignore: '*.py' anywhere, 'src/**/*.ts' from the root folder, "
                "'!tests/' all but these.",
                minLength=1,
                maxLength=1000,
            ),
            "file_type": about(STRING, "Only files with this extension, without the dot.", examples=["py", "ts"])
            | {"pattern": r"^[A-Za-z0-9_+-]{1,20}$"},
            "literal": about(FLAG, "Take the pattern as plain text.", default=False),
            "ignore_case": about(FLAG, "Do not tell upper from lower case.", default=False),
            "context_lines": about(COUNT, "Lines to show before and after each match.", maximum=5, default=0),
            "max_results": about(LINE, "Stop after so many matches.", maximum=500, default=100),
        },
        optional=("path", "glob", "file_type", "literal", "ignore_case", "context_lines", "max_results"),
    ),
    "outputSchema": closed_object(
        {
            "matches": array_of(
                closed_object(
                    {
                        "path": STRING,
                        "line": LINE,
                        "column": about(LINE, "Where the match starts, in characters from 1."),
                        "text": about(STRING, "The line; of a long one the part around the match."),
                        "before": array_of(STRING),
                        "after": array_of(STRING),
                    },
                    optional=("before", "after"),
                )
            ),
            "match_count": about(COUNT, "How many matches are listed."),
            "files_searched": COUNT,
            "files_skipped": about(COUNT, "Files that are binary, larger than 10 MiB, or not readable."),
            "truncated": about(FLAG, "Whether there may be more matches."),
            "truncated_by": {
                "enum": [None, "max_results", "time", "files"],
                "description": "The limit that ended the search.",
            },
        }
    ),
    "annotations": READ_ONLY,
}

_READ: JSON = {
    "name": "read-file",
    "title": "Read file",
    "description": (
        "Read a text file of the project, or some of its lines. Gives the content with the numbers of its first and "
        "last line and of all lines. When it says truncated, go on reading from end_line + 1."
    ),
    "inputSchema": closed_object(
        {
            "path": about(_PATH, "The file, from the root folder.", examples=["src/main.py"]),
            "start_line": about(LINE, "First line to read, counted from 1.", default=1),
            "end_line": about(LINE, "Last line to read; the end of the file by default."),
        },
        optional=("start_line", "end_line"),
    ),
    "outputSchema": closed_object(
        {
            "path": STRING,
            "content": STRING,
            "start_line": LINE,
            "end_line": about(COUNT, "Last line in the content; 0 for an empty file."),
            "total_lines": COUNT,
            "bytes": about(COUNT, "Size of the whole file."),
            "language": STRING,
            "encoding": {"enum": ["utf-8", "utf-8-sig", "utf-16"]},
            "lossy": about(FLAG, "Whether bytes that are no valid text were replaced by U+FFFD."),
            "truncated": about(FLAG, "Whether lines that were asked for are missing at the end."),
        }
    ),
    "annotations": READ_ONLY,
}

_CREATE: JSON = {
    "name": "create-file",
    "title": "Create file",
    "description": (
        "Write a text file (UTF-8) in the project, with the folders that it needs, in one step. An existing file is "
        "left alone unless overwrite is true. Not for ignored files, nor hidden ones such as .gitignore and .vscode."
    ),
    "inputSchema": closed_object(
        {
            "path": about(_PATH, "The file, from the root folder.", examples=["src/new.py"]),
            "content": about(STRING, "The whole content.", maxLength=1_048_576),
            "overwrite": about(FLAG, "Replace a file that exists.", default=False),
        },
        optional=("overwrite",),
    ),
    "outputSchema": closed_object(
        {
            "path": STRING,
            "bytes": COUNT,
            "created": about(FLAG, "True for a new file, false for one that was replaced."),
            "uri": about(STRING, "The file as a resource of this server."),
        }
    ),
    "annotations": {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": False},
}

_SYNTAX_ERROR = {"line": LINE, "column": COUNT, "message": STRING}
_LINES = closed_object(
    {
        "total": COUNT,
        "blank": COUNT,
        "comment": about(
            or_null(COUNT),
            "Lines that begin with a comment sign, not those further down in a comment of several lines; null where "
            "the language has none.",
        ),
        "longest": about(COUNT, "Characters of the longest line."),
    }
)
_COMPLEX = {"line": LINE, "complexity": about(LINE, "McCabe's cyclomatic complexity of the function's own body.")}
_PYTHON_COUNTS = about(
    closed_object(
        {
            "functions": COUNT,
            "classes": COUNT,
            "imports": COUNT,
            "missing_docstrings": COUNT,
            "missing_type_hints": COUNT,
        }
    ),
    "How many there are, also where a list shows only some.",
)
_PYTHON_FILE = closed_object(
    {
        "syntax_error": or_null(closed_object(_SYNTAX_ERROR)),
        "counts": _PYTHON_COUNTS,
        "most_complex": array_of(closed_object({"name": STRING, **_COMPLEX})),
        "functions": array_of(
            closed_object(
                {
                    "name": about(STRING, "Dotted, with the classes and functions around it."),
                    "end_line": LINE,
                    **_COMPLEX,
                    "parameters": COUNT,
                    "is_async": FLAG,
                    "has_docstring": FLAG,
                    "has_type_hints": about(FLAG, "Whether all parameters and the result are annotated."),
                }
            )
        ),
        "classes": array_of(
            closed_object(
                {
                    "name": STRING,
                    "line": LINE,
                    "end_line": LINE,
                    "bases": array_of(STRING),
                    "methods": COUNT,
                    "has_docstring": FLAG,
                }
            )
        ),
        "imports": array_of(closed_object({"module": STRING, "names": array_of(STRING), "line": LINE})),
        "missing_docstrings": about(array_of(STRING), "Public names without a docstring."),
        "missing_type_hints": about(array_of(STRING), "Public functions without all annotations."),
        "truncated": about(FLAG, "Whether a list was cut at 300 entries."),
    }
)
_PYTHON_FOLDER = closed_object(
    {
        "files": COUNT,
        "counts": _PYTHON_COUNTS,
        "most_complex": array_of(closed_object({"path": STRING, "name": STRING, **_COMPLEX})),
        "syntax_errors": array_of(closed_object({"path": STRING, **_SYNTAX_ERROR})),
    }
)
_FILE_REPORT = {
    "language": STRING,
    "bytes": COUNT,
    "lines": _LINES,
    "todos": about(COUNT, "Lines with TODO, FIXME, XXX or HACK behind a comment sign."),
    "python": _PYTHON_FILE,
}
_FOLDER_REPORT = {
    "files": about(COUNT, "Text files that were measured."),
    "bytes": COUNT,
    "lines": closed_object({"total": COUNT, "blank": COUNT, "comment": COUNT}),
    "todos": COUNT,
    "languages": array_of(closed_object({"language": STRING, "files": COUNT, "lines": COUNT, "bytes": COUNT})),
    "python": _PYTHON_FOLDER,
    "skipped": about(COUNT, "Files that are binary, larger than 2 MiB, or not readable."),
    "truncated": about(FLAG, "Whether not all files were measured."),
}
_ANALYZE: JSON = {
    "name": "analyze-code",
    "title": "Analyze code",
    "description": (
        "Measure a file or a folder of the project. Any text: lines, comment lines, TODO marks. Python also: functions "
        "with their complexity, classes, imports, missing docstrings and type hints, syntax errors with their line. "
        "A folder is summed up by language. Everything is computed from the files; nothing is judged."
    ),
    "inputSchema": closed_object({"path": about(_PATH, "File or folder, from the root folder; '.' is all of it.")}),
    "outputSchema": {
        "type": "object",
        "properties": {
            "path": STRING,
            "kind": {"enum": ["file", "folder"]},
            "file": closed_object(_FILE_REPORT, optional=("python",)),
            "folder": closed_object(_FOLDER_REPORT, optional=("python",)),
        },
        "required": ["path", "kind"],
        "additionalProperties": False,
    },
    "annotations": READ_ONLY,
}

TOOLS: tuple[JSON, ...] = (_SEARCH, _READ, _CREATE, _ANALYZE)

PROMPTS: tuple[JSON, ...] = (
    {
        "name": "review-code",
        "title": "Review code",
        "description": "Ask for a review of one file of the project; the file comes with the question.",
        "arguments": [
            {"name": "path", "description": "The file, from the root folder.", "required": True},
            {"name": "focus", "description": "What to look at above all, such as security.", "required": False},
        ],
    },
)

RESOURCES: tuple[JSON, ...] = (
    {
        "uri": TREE_URI,
        "name": "tree",
        "title": "Project tree",
        "description": "All files of the project that git does not ignore, as an indented list.",
        "mimeType": "text/plain",
    },
)

TEMPLATES: tuple[JSON, ...] = (
    {
        "uriTemplate": FILE_PREFIX + "{+path}",
        "name": "file",
        "title": "Project file",
        "description": "One file of the project, by its path from the root folder.",
    },
)
