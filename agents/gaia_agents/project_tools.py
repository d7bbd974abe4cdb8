"""The tools, prompts and resources of `ProjectAgent`, as MCP definitions. Data only."""

from __future__ import annotations

from gaia_agents.schemas import COUNT, FLAG, READ_ONLY, STRING, about, array_of, closed_object, or_null
from gaia_bridge.text.json_types import JSON

__all__ = ["DASHBOARD_URI", "PROMPTS", "RESOURCES", "TOOLS"]

DASHBOARD_URI = "project://dashboard"

_CHANGES = array_of(closed_object({"path": STRING, "change": STRING}))
_GROUPS = ("staged", "modified", "untracked", "conflicted")

TOOLS: tuple[JSON, ...] = (
    {
        "name": "get-status",
        "title": "Get status",
        "description": (
            "Tell where the project stands in git: branch, distance to its upstream branch, staged, modified, "
            "untracked and conflicted files, and the latest commits. An untracked folder counts as one entry. Where "
            "there is no repository, or no git, it says so and what to do."
        ),
        "inputSchema": closed_object(
            {"commits": about(COUNT, "How many of the latest commits to list.", maximum=50, default=10)},
            optional=("commits",),
        ),
        "outputSchema": closed_object(
            {
                "repository": about(FLAG, "Whether git could be asked; if not, everything else is empty or null."),
                "message": about(STRING, "One sentence on the state, or why there is none and what to do."),
                "branch": about(or_null(STRING), "null if a commit is checked out directly."),
                "commit": about(or_null(STRING), "null before the first commit."),
                "upstream": or_null(STRING),
                "ahead": about(or_null(COUNT), "Commits that the upstream branch does not have."),
                "behind": about(or_null(COUNT), "Commits of the upstream branch that are missing here."),
                "clean": or_null(FLAG),
                "counts": closed_object(dict.fromkeys(_GROUPS, COUNT)),
                **dict.fromkeys(_GROUPS, _CHANGES),
                "truncated": about(FLAG, "Whether a list was cut at 200 entries; the counts are complete."),
                "recent_commits": array_of(
                    closed_object({"id": STRING, "author": STRING, "date": STRING, "subject": STRING})
                ),
            }
        ),
        "annotations": READ_ONLY,
    },
)

PROMPTS: tuple[JSON, ...] = (
    {
        "name": "daily-standup",
        "title": "Daily standup",
        "description": "Ask for a standup report from your own commits since yesterday and what is changed right now.",
        "arguments": [
            {"name": "days", "description": "Look back so many days instead of one (1 to 365).", "required": False},
            {"name": "since", "description": "Look back to this day instead, as 2026-01-31.", "required": False},
        ],
    },
)

RESOURCES: tuple[JSON, ...] = (
    {
        "uri": DASHBOARD_URI,
        "name": "dashboard",
        "title": "Project dashboard",
        "description": (
            "Figures of the project, computed when read: state in git, commits today and this week, files and lines "
            "by language, largest files, TODO marks. Subscribers are told when it changes."
        ),
        "mimeType": "application/json",
    },
)
