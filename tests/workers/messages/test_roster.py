"""The roster of a run: written once, read by all, whatever is in its place."""

import json
import os

import pytest

from workers.messages.roster import Roster, read_roster, runs_with_roster, write_roster

RUN = "20260216_142834"
ROSTER = Roster(RUN, "phase-2", "Ada", "Claude-Worker-1", {"Claude-Worker-1": "Lead the core phase"})


def test_a_roster_is_one_line_and_private(tmp_path):
    write_roster(str(tmp_path), ROSTER)
    path = tmp_path / f"{RUN}.who.json"
    assert path.read_text() == (
        '{"schema":1,"run":"20260216_142834","phase":"phase-2","lead":"Ada","phase_worker":"Claude-Worker-1",'
        '"workers":{"Claude-Worker-1":"Lead the core phase"}}\n'
    )
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_roster(str(tmp_path), RUN) == ROSTER


def test_a_roster_is_written_once(tmp_path):
    write_roster(str(tmp_path), ROSTER)
    write_roster(str(tmp_path), ROSTER._replace(lead="Eve"))
    assert read_roster(str(tmp_path), RUN) == ROSTER


@pytest.mark.parametrize(
    "text", ["", "x", "[]", "{}", json.dumps({"run": "20260216_142900", "workers": {}}), "[" * 100_000,
             json.dumps({"run": RUN, "workers": []})],
)  # fmt: skip
def test_what_is_no_roster_is_none(tmp_path, text):
    (tmp_path / f"{RUN}.who.json").write_text(text)
    assert read_roster(str(tmp_path), RUN) is None


@pytest.mark.parametrize("kind", ["pipe", "folder", "link"])
def test_a_roster_is_a_regular_file(tmp_path, kind):
    path = tmp_path / f"{RUN}.who.json"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        write_roster(str(tmp_path), ROSTER)
        path.rename(tmp_path / "other")
        path.symlink_to(tmp_path / "other")
    assert read_roster(str(tmp_path), RUN) is None


def test_a_phase_worker_that_takes_no_part_is_none(tmp_path):
    for found in ("Codex-Worker-9", 7, []):
        path = tmp_path / f"{RUN}.who.json"
        path.write_text(json.dumps({**ROSTER._asdict(), "phase_worker": found}))
        assert read_roster(str(tmp_path), RUN).phase_worker is None


def test_runs_are_listed_newest_first(tmp_path):
    for run in ("20260216_142834", "20260216_142834_10", "20260216_142834_2", "20260217_000000"):
        write_roster(str(tmp_path), ROSTER._replace(run=run))
    (tmp_path / "notes.who.json").write_text("x")
    assert runs_with_roster(str(tmp_path)) == [
        "20260217_000000", "20260216_142834_10", "20260216_142834_2", "20260216_142834",
    ]  # fmt: skip
    assert runs_with_roster(str(tmp_path / "nowhere")) == []
