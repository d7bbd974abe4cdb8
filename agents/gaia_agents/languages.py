"""The language of a file, judged by its name, and how comments start in it. Standard library only."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Language", "language_of"]


class Language(NamedTuple):
    """A programming or data language."""

    name: str
    comments: tuple[str, ...] = ()
    """The characters that start a comment, one text per kind."""


_HASH, _SLASHES, _DASHES, _SEMICOLON = ("#",), ("//", "/*"), ("--",), (";",)
_TABLE: dict[tuple[str, tuple[str, ...]], str] = {
    ("Assembly", _SEMICOLON): ".asm .s",
    ("Batch", ("rem ", "REM ", "::")): ".bat .cmd",
    ("C", _SLASHES): ".c .h",
    ("C#", _SLASHES): ".cs",
    ("C++", _SLASHES): ".cc .cpp .cxx .hh .hpp .hxx",
    ("CMake", _HASH): ".cmake CMakeLists.txt",
    ("CSS", ("/*",)): ".css",
    ("Clojure", _SEMICOLON): ".clj .cljs .edn",
    ("Dart", _SLASHES): ".dart",
    ("Dockerfile", _HASH): ".dockerfile Dockerfile Containerfile",
    ("Elixir", _HASH): ".ex .exs",
    ("Erlang", ("%",)): ".erl .hrl",
    ("F#", ("//", "(*")): ".fs .fsx",
    ("Fortran", ("!",)): ".f90 .f95 .f03",
    ("Go", _SLASHES): ".go",
    ("GraphQL", _HASH): ".graphql .gql",
    ("Groovy", _SLASHES): ".groovy .gradle",
    ("HTML", ("<!--",)): ".html .htm",
    ("Haskell", ("--", "{-")): ".hs",
    ("INI", (";", "#")): ".ini .cfg .conf",
    ("JSON", ()): ".json .jsonl",
    ("Java", _SLASHES): ".java",
    ("JavaScript", _SLASHES): ".js .cjs .mjs .jsx",
    ("Julia", _HASH): ".jl",
    ("Kotlin", _SLASHES): ".kt .kts",
    ("Lua", _DASHES): ".lua",
    ("Makefile", _HASH): ".mk Makefile GNUmakefile",
    ("Markdown", ()): ".md .markdown",
    ("Nix", _HASH): ".nix",
    ("OCaml", ("(*",)): ".ml .mli",
    ("Objective-C", _SLASHES): ".m .mm",
    ("PHP", ("//", "#", "/*")): ".php",
    ("Perl", _HASH): ".pl .pm",
    ("PowerShell", _HASH): ".ps1 .psm1",
    ("Protocol Buffers", _SLASHES): ".proto",
    ("Python", _HASH): ".py .pyi .pyw",
    ("R", _HASH): ".r",
    ("Ruby", _HASH): ".rb .rake Gemfile Rakefile",
    ("Rust", _SLASHES): ".rs",
    ("SCSS", _SLASHES): ".scss .sass .less",
    ("SQL", ("--", "/*")): ".sql",
    ("Scala", _SLASHES): ".scala .sc",
    ("Shell", _HASH): ".sh .bash .zsh .fish",
    ("Svelte", ("<!--", "//", "/*")): ".svelte",
    ("Swift", _SLASHES): ".swift",
    ("TOML", _HASH): ".toml",
    ("Terraform", ("#", "//")): ".tf .tfvars",
    ("Text", ()): ".txt .rst",
    ("TypeScript", _SLASHES): ".ts .cts .mts .tsx",
    ("Vue", ("<!--", "//", "/*")): ".vue",
    ("XML", ("<!--",)): ".xml .svg .xsl",
    ("YAML", _HASH): ".yaml .yml",
    ("Zig", ("//",)): ".zig",
}
_BY_NAME = {name.lower(): Language(*facts) for facts, names in _TABLE.items() for name in names.split()}
_OTHER = Language("Other")


def language_of(path: str) -> Language:
    """Return the language of a file; one called "Other" if its name says nothing."""
    name = path.rpartition("/")[2].lower()
    stem, dot, suffix = name.rpartition(".")
    return _BY_NAME.get(name) or (_BY_NAME.get(dot + suffix, _OTHER) if stem else _OTHER)
