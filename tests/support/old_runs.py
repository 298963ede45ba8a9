"""Runs made old for `archive --runs`, and questions about them."""

import re
import shutil
import tarfile
from datetime import UTC, datetime, timedelta

from support.repository import seen_in

RUNS, ARCHIVE = ".taskers/runs", ".taskers/archive"


def listed(folder):
    return sorted(path.name for path in folder.iterdir())


def settled(made):
    """Settle what waits, so that nothing more can happen in the run."""
    called = made.call("integrate", "last", "--reject", "command-2", "--reason", "beyond its scope", "--json")
    assert called.document["status"] == "integrated"
    return called.document["run"]


def aged(made, run, days, size=0):
    """Copy a run to one that ended so many days ago, and is so many bytes larger."""
    moment = datetime.now(UTC) - timedelta(days=days)
    name = moment.strftime("%Y%m%d_%H%M%S")
    folder = made.root / RUNS / name
    shutil.copytree(made.root / RUNS / run, folder)
    for path in (folder / "run.json", folder / "roster.json", folder / "events.jsonl"):
        text = path.read_text().replace(run, name)
        path.write_text(re.sub(r'"at": "[^"]+"', f'"at": "{moment.isoformat()}"', text))
    if size:
        (folder / "Command-Worker-1.stderr").write_bytes(b"x" * size)
    return name


def archive(made, *arguments, code=0):
    called = made.call("archive", "--runs", *arguments, "--json")
    assert called.code == code, called
    return called.document


def archives(*names):
    """Return the files of packed runs: the archive, and what the run has made of its tickets."""
    return sorted(f"{name}.{end}" for name in names for end in ("tar.gz", "tickets.json"))


def gone(told):
    return [one["what"] for one in told["moved"]]


def reasons(told):
    return {one["run"]: one["reason"] for one in told["kept"]}


def packed(made, run):
    """Unpack an archive, and return its content of the run."""
    with tarfile.open(made.root / ARCHIVE / f"{run}.tar.gz") as tar:
        tar.extractall(made.home / "unpacked", filter="data")
    return seen_in(made.home / "unpacked" / run)


def furnished(made, name):
    """Add to a run the files that its workers and its runtime leave elsewhere; return their bytes."""
    texts = {
        f".taskers/messages/{name}.Command-Worker-1.jsonl": '{"to": "lead"}\n',
        f".taskers/messages/{name}.Command-Worker-2.jsonl": "",
        f".taskers/scratch/{name}/Command-Worker-1/caches/x": "s" * 700,
        f".taskers/homes/{name}/Codex-Worker-1/sessions/rollout.jsonl": "h" * 9000,
        f".git/orchestrate/runs/{name}/objects/ab/cd": "o" * 50,
    }
    for path, text in texts.items():
        made.write(path, text)
    (made.root / ".taskers/worktrees" / name).mkdir(parents=True)
    return sum(map(len, texts.values()))


def traces(made, name):
    """List all files with a run's name, without its archive."""
    found = [
        *(made.root / ".taskers").glob(f"*/{name}"),
        *(made.root / ".taskers/messages").glob(f"{name}.*"),
        *(made.root / ".git/orchestrate").rglob(f"*{name}*"),
        *(made.root / ARCHIVE).glob(f"{name}.[!t]*"),
    ]
    return sorted(path.relative_to(made.root).as_posix() for path in found)
