"""The 23 sections of the active context and their keys, in their order: who keeps each, and its limits."""

import re
from typing import Literal

from tickets.value import Value

Keeper = Literal["runtime", "once", "mixed", "author"]
"""`once`: set where it is missing, then its author's. `mixed`: items with a source are the runtime's."""

NONE = "none"
UNSTATED = "none stated"


class Key(Value):
    """One key of a section."""

    name: str
    keeper: Keeper = "author"
    is_list: bool = False
    most: int = 0
    """Items that it may have, or sentences or lines of a text; 0: no limit."""
    mandatory: bool = False


class Section(Value):
    """One section. Without keys its items stand below the heading; `keeper` is then theirs."""

    number: int
    title: str
    keys: tuple[Key, ...] = ()
    mandatory: bool = False
    keeper: Keeper = "author"
    most: int = 0
    word: str = ""
    """The word that names its items on the command line."""
    other_titles: tuple[str, ...] = ()


def _list(name: str, keeper: Keeper = "author", most: int = 0, *, mandatory: bool = False) -> Key:
    return Key(name, keeper, True, most, mandatory)


def _text(name: str, keeper: Keeper = "author", most: int = 0, *, mandatory: bool = False) -> Key:
    return Key(name, keeper, False, most, mandatory)


def _texts(*names: str) -> tuple[Key, ...]:
    return tuple(map(_text, names))


def _lists(*names: str) -> tuple[Key, ...]:
    return tuple(map(_list, names))


SECTIONS: tuple[Section, ...] = (
    Section(
        1, "Meta",
        (
            _text("last_updated", "runtime", mandatory=True),
            _text("project_root", "runtime", mandatory=True),
            _text("language", "once", mandatory=True),
            _list("active_skills"),
            _list("agent_notes", most=3),
        ),
        mandatory=True,
    ),
    Section(
        2, "Current Task",
        (
            _text("task_id", "once", mandatory=True),
            _text("goal", "once", 2, mandatory=True),
            _text("current_focus"),
            _list("active_files", "mixed", 10),
            _text("scratchpad"),
            _text("scope_in", "once", mandatory=True),
            _text("scope_out", "once", mandatory=True),
        ),
        mandatory=True,
    ),
    Section(
        3, "Plan & References",
        (
            _text("plan", "runtime", mandatory=True),
            _list("related_docs", "mixed"),
            _list("related_code", "mixed"),
            _list("session_history", "runtime", 3),
        ),
        mandatory=True,
    ),
    Section(
        4, "Progress",
        (
            _list("done", "mixed", 6, mandatory=True),
            _list("in_progress", "mixed", 4, mandatory=True),
            _list("next", "mixed", 6, mandatory=True),
        ),
        mandatory=True,
    ),
    Section(
        5, "Breadcrumbs",
        (
            _text("last_focus", most=2),
            *_lists("last_edit_targets", "next_hops"),
            _list("navigation_queries", most=10),
            _list("resume_recipe", "once", 6),
        ),
    ),
    Section(
        6, "Guardrails",
        (
            _list("invariants", most=8),
            *_lists("scope_guardrails", "risk_hotspots", "temporary_allowances"),
            _list("definition_of_done", "mixed", 5),
        ),
    ),
    Section(7, "Decisions", mandatory=True, keeper="mixed", most=10, word="decisions"),
    Section(8, "Open Questions / Blockers", mandatory=True, keeper="mixed", word="blockers"),
    Section(
        9, "Verification",
        (
            _text("last_green_build", "runtime"),
            _list("failing_tests", "runtime", 10),
            _list("commands", "mixed"),
        ),
    ),
    Section(10, "Deferred / Parking Lot", word="deferred"),
    Section(
        11, "External Dependencies", (_list("waiting_for", "mixed"), *_lists("blocked_by", "depends_on"))
    ),
    Section(
        12, "User Preferences",
        _texts("communication_language", "commit_style", "code_review_required", "auto_format"),
    ),
    Section(13, "Lessons Learned", word="lessons"),
    Section(
        14, "Environment Snapshot",
        (
            _text("os", "runtime"),
            _text("shell", "runtime"),
            _text("runtime_versions", "runtime"),
            _text("last_successful_run", "runtime"),
            _list("known_env_issues"),
        ),
    ),
    Section(
        15, "Failure Context",
        (
            _text("last_failure_time", "runtime"),
            _text("failure_type", "runtime"),
            _text("error_signature", "runtime"),
            _list("failing_files", "runtime"),
            _list("attempted_fixes", "mixed"),
            _text("resolution_status", "runtime"),
        ),
    ),
    Section(
        16, "Search & Navigation Cache",
        _lists("recent_greps", "recent_semantic_searches", "useful_file_paths"),
        other_titles=("Search Cache",),
    ),
    Section(17, "Code Patterns Registry", _lists("migration_pattern"), other_titles=("Code Patterns",)),
    Section(
        18, "Conversation Anchors",
        (*_lists("key_user_statements", "implicit_preferences"), _text("last_user_intent")),
    ),
    Section(
        19, "Git State Snapshot",
        (
            _text("current_branch", "runtime"),
            _text("base_branch", "runtime"),
            _text("uncommitted_changes", "runtime"),
            _text("last_commit", "runtime"),
            _list("stash_entries", "runtime"),
            _list("merge_conflicts", "runtime"),
        ),
        other_titles=("Git State",),
    ),
    Section(
        20, "Tool Usage History",
        (
            *_lists("frequently_used_commands"),
            _list("last_terminal_sessions", "runtime", 3),
            *_lists("preferred_tools"),
        ),
    ),
    Section(
        21, "Mental Model State",
        (_text("architecture_understanding"), *_lists("key_invariants", "gotchas")),
        other_titles=("Mental Model",),
    ),
    Section(
        22, "Time & Effort Tracking",
        (
            _text("task_started", "once"),
            _text("estimated_effort"),
            _text("sessions_spent", "runtime"),
            *_lists("time_per_phase", "velocity_notes"),
        ),
    ),
    Section(23, "Risk Register", _lists("high", "medium", "low")),
)  # fmt: skip
BY_TITLE = {section.title: section for section in SECTIONS}
SECTION_OF = {key.name: section for section in SECTIONS for key in section.keys}
"""By the name of a key: no two sections have the same."""
WORDS = {section.word: section for section in SECTIONS if section.word}
SECONDARY = "Secondary Tasks"
SECONDARY_KEYS = ("task_id", "goal", "status", "next")
STAY = (1, 9, 10, 12, 14, 19)
"""Sections that stay where the task is switched: they are the project's, and not the task's."""


def key_named(name: str) -> Key:
    """Return a key of the table."""
    return next(key for key in SECTION_OF[name].keys if key.name == name)


def section_named(title: str) -> Section | None:
    """Return the section that a heading means: numbered, bold, of another case, or by a short name."""
    said = _folded(title)
    for section in SECTIONS:
        if said in map(_folded, (section.title, *section.other_titles)):
            return section
    return None


def _folded(title: str) -> str:
    bare = re.sub(r"^\W*\d+[.)]?\s+", "", title.strip())
    return " ".join(re.sub(r"[^\w/&]+", " ", bare).casefold().split())
