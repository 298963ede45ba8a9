"""A worker's report, read from its final answer, with its faults line by line."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, cast

from tickets.markdown.outline import OutlineLine, outline, plain, text_of
from tickets.problems import Problem

ReportStatus = Literal["COMPLETE", "BLOCKED", "NEEDS_CLARIFICATION"]
STATUSES: tuple[ReportStatus, ...] = ("COMPLETE", "BLOCKED", "NEEDS_CLARIFICATION")


class Proposal(NamedTuple):
    """A worker's proposal; `text` is the part without a heading of its own."""

    text: str = ""
    affected_files: tuple[str, ...] = ()
    sketch: str = ""
    testing: str = ""
    integration_notes: str = ""


class Blocked(NamedTuple):
    """Why a worker could not continue."""

    blocker: str = ""
    attempted: str = ""
    needs: str = ""


class Clarification(NamedTuple):
    """What a worker needs to know before it can continue."""

    question: str = ""
    context: str = ""
    impact: str = ""


class Report(NamedTuple):
    """A worker's account of its ticket. It is a claim: its statements are checked elsewhere."""

    status: ReportStatus | None
    """None where the report has no status, or none of the three words."""
    summary: str = ""
    analysis: str = ""
    proposal: Proposal = Proposal()
    risks: str = ""
    blocked: Blocked | None = None
    clarification: Clarification | None = None
    follow_ups: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    complaints: tuple[Problem, ...] = ()
    missing: tuple[str, ...] = ()
    """Titles of the required sections that are missing."""


def read_report(text: str, place: str = "report") -> Report:
    """Read a final answer, Markdown or one JSON object with the keys of `report_schema`. Never raises."""
    structured = _json_object(text)
    report = _from_markdown(text, place) if structured is None else _from_json(structured, place)
    return report._replace(complaints=(*report.complaints, *_missing_details(report, place)))


_SECTIONS = {
    "summary": "Summary",
    "analysis": "Analysis",
    "proposal": "Proposal",
    "risks": "Risks and Alternatives",
    "status": "Status",
}
_ALIASES = {
    "risks and alternatives": "risks",
    "risks alternatives": "risks",
    "risks": "risks",
    "alternatives": "risks",
    "follow ups": "follow_ups",
    "followups": "follow_ups",
    "follow up": "follow_ups",
    "decisions": "decisions",
    "affected files": "affected_files",
    "sketch": "sketch",
    "testing": "testing",
    "integration notes": "integration_notes",
    **{name: name for name in ("summary", "analysis", "proposal", "status")},
    **{name: name for name in (*Blocked._fields, *Clarification._fields)},
}
_BELOW_PROPOSAL = {"affected_files", "sketch", "testing", "integration_notes"}
_DETAILS = {*Blocked._fields, *Clarification._fields}

_LABEL = re.compile(r"\s{0,3}(?:>\s?)?(?:[-*+]\s+)?(?P<mark>\*\*|__)?(?P<name>[A-Za-z][A-Za-z _/&-]{0,39}?)"
                    r"(?P<inner>:)?(?(mark)(?P=mark))(?(inner)|\s*:)(?P<value>\s.*|)")  # fmt: skip
_BOLD = re.compile(r"\s{0,3}(?:\*\*|__)([A-Za-z][A-Za-z _/&-]{0,39}):?(?:\*\*|__):?\s*")
_WHOLLY_BOLD = re.compile(r"^\s{0,3}(?:\*\*)([A-Za-z]+:[^*]+)\*\*\s*$")
_ITEM = re.compile(r"\s*(?:[-*+]|[0-9]{1,9}[.)])\s+(?:\[[ xX]\]\s+)?(.*)")
_NONE = {"none", "n a", "na", "nothing", "no", "none currently", "none yet", ""}


class _Claim(NamedTuple):
    """A line that states a status."""

    line: int
    word: str
    sure: bool
    """Whether a status must stand here: an unknown word is then an error."""


def _from_markdown(text: str, place: str) -> Report:
    parts: dict[str, list[OutlineLine]] = {}
    claims: list[_Claim] = []
    current, level = "", 0
    for each in outline(_unwrapped(text)):
        line = each if each.code else each._replace(text=_WHOLLY_BOLD.sub(r"\1", each.text))
        name, named_level, rest = _start(line, current)
        if name:
            current, level = name, named_level
            parts.setdefault(current, [])
        elif line.level and line.level <= level:
            current, level = "", 0
        said = _claims(line, current, name, rest)
        claims += said
        if (
            said
            and not name
            and current != "status"
            and (said[0].sure or not current)
            and _status(said[0].word)
        ):
            current, level = (
                "status",
                6,
            )  # a `**Status:** BLOCKED` line begins its part, the details follow it
            parts.setdefault(current, [])
        if current and not name:
            parts[current].append(line)
        elif current and rest:
            parts[current].append(line._replace(text=rest))
    status, complaints = _settle(claims, place, outline(text)[-1].number)
    missing = [title for name, title in _SECTIONS.items() if name != "status" and name not in parts]
    if status is None and "status" not in parts:
        missing.append(_SECTIONS["status"])
    complaints += _without(missing, place)
    found = {name: text_of(tuple(lines)) for name, lines in parts.items()}
    return _report(status, found, _list(parts.get("affected_files", [])), parts)._replace(
        complaints=tuple(complaints), missing=_owed(missing, status)
    )


def _report(
    status: ReportStatus | None,
    found: Mapping[str, str],
    files: tuple[str, ...],
    parts: Mapping[str, list[OutlineLine]],
) -> Report:
    return Report(
        status,
        summary=found.get("summary", ""),
        analysis=found.get("analysis", ""),
        proposal=Proposal(
            found.get("proposal", ""),
            tuple(name.strip("`") if name.count("`") == 2 and name.endswith("`") else name for name in files),
            found.get("sketch", ""),
            found.get("testing", ""),
            found.get("integration_notes", ""),
        ),
        risks=found.get("risks", ""),
        blocked=Blocked(*(found.get(name, "") for name in Blocked._fields)) if status == "BLOCKED" else None,
        clarification=Clarification(*(found.get(name, "") for name in Clarification._fields))
        if status == "NEEDS_CLARIFICATION"
        else None,
        follow_ups=_list(parts.get("follow_ups", [])),
        decisions=_list(parts.get("decisions", [])),
    )


def _start(line: OutlineLine, current: str) -> tuple[str, int, str]:
    """Return the part that a line begins, if any: its name, where it ends, and the text beside the name."""
    if line.code:
        return "", 0, ""
    if line.level:
        title, _, rest = line.title.partition(":")
        name = _ALIASES.get(plain(title), "")
        return (name, line.level, rest.strip(" *_")) if _fits(name, current) else ("", 0, "")
    if (bold := _BOLD.fullmatch(line.text)) and _fits(name := _ALIASES.get(plain(bold[1]), ""), current):
        return name, 6, ""
    if (label := _LABEL.fullmatch(line.text)) is None:
        return "", 0, ""
    name = _ALIASES.get(plain(label["name"]), "")
    details = name in _DETAILS and current in {"status", *_DETAILS}
    # "Testing: …" in mid-text is prose; in bold it is a part, as workers write who use no headings.
    if details or (label["mark"] and name not in _DETAILS and name != "status" and _fits(name, current)):
        return name, 6, label["value"].strip()
    return "", 0, ""


def _fits(name: str, current: str) -> bool:
    """Whether a part may begin here: `Testing` only below a proposal, `Context` only below a status."""
    if name in _BELOW_PROPOSAL:
        return current == "proposal" or current in _BELOW_PROPOSAL
    if name in _DETAILS:
        return current == "status" or current in _DETAILS
    return bool(name)


def _claims(line: OutlineLine, current: str, name: str, rest: str) -> list[_Claim]:
    """Return the statuses that a line states."""
    if line.code:
        return []
    if name == "status":
        return [_Claim(line.number, rest, sure=True)] if rest else []
    label = _LABEL.fullmatch(line.text)
    if label and plain(label["name"]) == "status":
        return [_Claim(line.number, label["value"].strip(), sure=current == "status" or bool(label["mark"]))]
    if current == "status" and not name and line.text.strip() and not line.level:
        item = _ITEM.fullmatch(line.text)
        return [_Claim(line.number, item[1] if item else line.text.strip(), sure=False)]
    return []


def _settle(claims: list[_Claim], place: str, last: int) -> tuple[ReportStatus | None, list[Problem]]:
    """Choose among the stated statuses: the last one, with a complaint where they differ."""
    known = [(claim, status) for claim in claims if (status := _status(claim.word))]
    if known:
        claim, status = known[-1]
        others = [other for other, word in known if word != status]
        if not others:
            return status, []
        what = f"says {status} here and something else in line {others[-1].line}"
        return status, [Problem(f"{place}:{claim.line}", what, "write one status", "warning")]
    do = "write one of " + ", ".join(STATUSES)
    if unsure := next((claim for claim in claims if claim.sure), claims[0] if claims else None):
        return None, [Problem(f"{place}:{unsure.line}", f"`{unsure.word[:60]}` is not a status", do)]
    return None, [Problem(f"{place}:{last}", "the status is missing", do)]


def _status(said: str) -> ReportStatus | None:
    """Read a status word that a phrase begins with; `COMPLETE | BLOCKED` is the menu, not a choice."""
    words = plain(said.replace("_", " ")).upper().split()
    joined = " ".join(words)
    named = [status for status in STATUSES if re.search(rf"\b{status.replace('_', ' ')}\b", joined)]
    first = next((status for status in named if joined.startswith(status.replace("_", " "))), None)
    return None if re.search(r"[|/]", said) and len(named) > 1 else first


def _list(lines: list[OutlineLine]) -> tuple[str, ...]:
    """Read the items of a list, wrapped lines joined; plain paragraphs count as items too."""
    items: list[str] = []
    fresh = True
    for line in lines:
        if line.code or line.level or not line.text.strip():
            fresh = True
            continue
        item = _ITEM.fullmatch(line.text)
        if item or fresh:
            items.append((item[1] if item else line.text).strip())
        else:
            items[-1] += " " + line.text.strip()
        fresh = False
    return tuple(item for item in items if plain(item) not in _NONE)


def _unwrapped(text: str) -> str:
    """Remove a code fence around the whole answer; line numbers stay."""
    lines = text.split("\n")
    filled = [at for at, line in enumerate(lines) if line.strip()]
    if (
        len(filled) > 2
        and re.fullmatch(r"\s*```(markdown|md)\s*", lines[filled[0]])
        and lines[filled[-1]].strip() == "```"
    ):
        lines[filled[0]] = lines[filled[-1]] = ""
    return "\n".join(lines)


def _json_object(text: str) -> dict[str, Any] | None:
    """Read an answer that is one JSON object, bare or in one fence; None where it is not."""
    inner = text.strip()
    if fenced := re.fullmatch(r"```(?:json)?\s*\n(.*)\n\s*```", inner, re.DOTALL):
        inner = fenced[1].strip()
    if not inner.startswith("{"):
        return None
    try:
        value = json.loads(inner)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value)


def _from_json(answer: Mapping[str, Any], place: str) -> Report:
    """Read the keys of the schema; values of another type count as missing."""
    proposal, said = answer.get("proposal"), answer.get("status")
    details = {**_object(answer.get("blocked")), **_object(answer.get("clarification"))}
    found: dict[str, str] = {name: _text(value) for name, value in {**details, **_object(proposal)}.items()}
    found |= {name: _text(answer.get(name)) for name in ("summary", "analysis")}
    found["risks"] = _text(answer.get("risks_and_alternatives", answer.get("risks")))
    found["proposal"] = _text(proposal) or found.get("text", "")
    claims = [_Claim(1, _text(said), sure=True)] if isinstance(said, str) else []
    status, complaints = _settle(claims, place, 1)
    keys = {"risks": "risks_and_alternatives"}
    missing = [
        title
        for name, title in _SECTIONS.items()
        if name != "status" and not {keys.get(name, name), name} & set(answer)
    ]
    complaints += _without(missing, place)
    report = _report(status, found, _texts(_object(proposal).get("affected_files")), {})
    follow_ups, decisions = _texts(answer.get("follow_ups")), _texts(answer.get("decisions"))
    return report._replace(
        follow_ups=follow_ups,
        decisions=decisions,
        complaints=tuple(complaints),
        missing=_owed(missing, status),
    )


def _owed(missing: Sequence[str], status: ReportStatus | None) -> tuple[str, ...]:
    """Return the titles of the missing sections; a status in other words than the three counts as missing."""
    rest = [title for title in missing if title != _SECTIONS["status"]]
    return (*rest, *(() if status else (_SECTIONS["status"],)))


def _without(missing: Sequence[str], place: str) -> list[Problem]:
    do = "write it, even if only `none`"
    return [Problem(f"{place}:1", f"the section `{title}` is missing", do, "warning") for title in missing]


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(item for each in value if (item := _text(each))) if isinstance(value, list) else ()


def _missing_details(report: Report, place: str) -> list[Problem]:
    details = report.blocked or report.clarification
    if details is None:
        return []
    empty = [name for name, value in details._asdict().items() if not value]
    what = f"says {report.status} without " + ", ".join(empty)
    return [Problem(f"{place}:1", what, "write a line for each", "warning")] if empty else []
