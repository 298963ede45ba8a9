"""Runs a phase of fifteen tickets on the source distributions of real packages, and prints the results.

    python benchmarks/real_input.py flask httpx

Six command workers (linters, tests, two that write) beside three workers of each agent: the pinned CLIs
of `tests/agents` against the scripted model there, with an empty environment and a key that is no key. The
packages come from the registry by name; the repositories stay in a folder that is named, to be looked at.
"""

import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from lab import ORCHESTRATE, say

HERE = Path(__file__).resolve().parent
AGENTS = HERE.parent / "tests" / "agents"
CLIS = AGENTS / "node_modules" / ".bin"
KEY = "sk-test-not-real"
MODELS = {"codex": "gpt-5.5", "claude": "claude-sonnet-4-5", "gemini": "gemini-2.5-pro"}
EXTRA = {
    "flask": ["asgiref", "python-dotenv"],
    "httpx": ["trio", "trustme", "uvicorn", "chardet", "httpx[brotli,cli,http2,socks,zstd]"],
}
"""Further requirements of a package's own tests."""
REPORT = (
    "## Summary\n\nDone.\n\n## Analysis\n\nRead it.\n\n## Proposal\n\nNone.\n\n"
    "## Risks and Alternatives\n\nNone.\n\n## Status\n\nCOMPLETE"
)


def main(packages: list[str]) -> None:
    work = Path(tempfile.mkdtemp(prefix="orchestrate-real-"))
    subprocess.run([sys.executable, "-m", "venv", work / "tools"], check=True)
    pip = [work / "tools" / "bin" / "pip", "--disable-pip-version-check", "-q"]
    extra = [name for package in packages for name in EXTRA.get(package, [])]
    subprocess.run([*pip, "install", "ruff", "pytest", *packages, *extra], check=True)
    port = work / "port"
    command = [sys.executable, AGENTS / "stub_model.py", "--port", "0", "--port-file", port]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as model:
        try:
            until = time.monotonic() + 20
            while not (port.exists() and port.read_text()):
                if time.monotonic() > until:
                    raise SystemExit("the scripted model did not start")
                time.sleep(0.05)
            url = f"http://127.0.0.1:{port.read_text().strip()}"
            for package in packages:
                one(work, pip, package, url)
        finally:
            model.kill()
    print(f"the repositories are in {work}")


def one(work: Path, pip: list, package: str, url: str) -> None:
    subprocess.run([*pip, "download", "--no-binary", ":all:", "--no-deps", "-d", work, package], check=True)
    archive = next(work.glob(f"{package}-*.tar.gz"))
    with tarfile.open(archive) as source:
        source.extractall(work, filter="data")
    folder = work / archive.name.removesuffix(".tar.gz")
    environ = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(work / "home"),
        "LANG": "C.UTF-8",
        "CODEX_API_KEY": KEY,
        "ANTHROPIC_API_KEY": KEY,
        "ANTHROPIC_BASE_URL": url,
        "GEMINI_API_KEY": KEY,
        "GOOGLE_GEMINI_BASE_URL": url,
    }
    Path(environ["HOME"]).mkdir(exist_ok=True)
    prepare(folder, package, work / "tools" / "bin", url, environ)
    start = time.perf_counter()
    command = [ORCHESTRATE, "run", "phase-1", "--json"]
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)
    wall = time.perf_counter() - start
    document = json.loads(done.stdout)
    print(f"\n{archive.name}: {document['status']}, exit {done.returncode}, {wall:.1f} s")
    for worker in document["workers"]:
        told = f"{worker['outcome']}, {worker['verdict']}, {len(worker['files'])} files"
        say(f"  {worker['worker']} {worker['reason'][:36]}", told)
    for name, commit in document["commit"].items():
        stat = (
            git(folder, environ, "show", "--stat", "--format=%s", commit).splitlines() if commit else ["none"]
        )
        print(f"  {name}: {stat[0]};{stat[-1]}")
    left = git(folder, environ, "status", "--porcelain").strip()
    print(f"  left in the work tree: {left or 'nothing'}")


def prepare(folder: Path, package: str, tools: Path, url: str, environ: dict) -> None:
    home = f"src/{package}" if (folder / "src").is_dir() else package
    for command in (
        ("init", "-q", "-b", "main"),
        ("config", "user.name", "Real"),
        ("config", "user.email", "r@x"),
    ):
        git(folder, environ, *command)
    with (folder / ".gitignore").open("a") as ignore:
        ignore.write("__pycache__/\n")
    git(folder, environ, "add", "-A")
    git(folder, environ, "commit", "-qm", f"import {package}")
    subprocess.run([ORCHESTRATE, "init"], cwd=folder, env=environ, check=True, stdout=subprocess.DEVNULL)
    templates = folder / "docs" / "worker-ticket-templates"
    for shipped in templates.glob("*-*.md"):
        shipped.unlink()
    for stem, text in {**commands(folder, home, tools), **cli_tickets()}.items():
        (templates / f"{stem}.md").write_text(f"---\nphase: phase-1\n{text}")
    (folder / "orchestrate.toml").write_text(settings(url))
    git(folder, environ, "add", "-A")
    git(folder, environ, "commit", "-qm", "tickets")


def commands(folder: Path, home: str, tools: Path) -> dict[str, str]:
    def front(title: str, argv: list, more: str = "") -> str:
        return f"title: {title}\ncommand: {json.dumps([str(part) for part in argv])}\n{more}---\n{title}.\n"

    ruff = [tools / "ruff", "check", "--no-cache", "--isolated", "--exit-zero"]
    pytest = [
        "env",
        f"PYTHONPATH={Path(home).parent}",
        tools / "python",
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
    ]
    first, second = sorted(p.name for p in (folder / home).glob("*.py") if not p.name.startswith("__"))[:2]
    compiles = f'acceptance: ["{tools}/python -m py_compile {home}/{first}"]\n'
    return {
        "command-1": front("Lint", [*ruff, home]),
        "command-2": front(
            "Formatting", [tools / "ruff", "format", "--no-cache", "--isolated", "--diff", "-q", home]
        ),
        "command-3": front("Collect the tests", [*pytest, "--co", "tests"], "timeout: 5m\n"),
        "command-4": front("Run the tests", [*pytest, "tests"], "timeout: 5m\n"),
        "command-5": front(
            f"Mend the imports of {first}",
            [*ruff, "--select", "I,UP,F401", "--fix", f"{home}/{first}"],
            f'mode: write\nowns: ["{home}/{first}"]\n{compiles}',
        ),
        "command-6": front(
            f"Narrow the lines of {second}",
            [tools / "ruff", "format", "--no-cache", "--isolated", "--line-length", "70", f"{home}/{second}"],
            f'mode: write\nowns: ["{home}/{second}"]\n',
        ),
    }


def cli_tickets() -> dict[str, str]:
    def step(do: str, **fields: object) -> str:
        return f"<<step {json.dumps({'do': do, **fields})}>>"

    found = {}
    end = step("answer", text=REPORT, **{"in": 1200, "out": 300})
    for agent in MODELS:
        look = step("shell", cmd="git log --oneline | head -3; ls")
        found[f"{agent}-1"] = f"title: Review as {agent}\n---\n{look}{end}\n"
        write = step("write", path=f"notes/{agent}/a.md", text=f"notes of {agent}\n")
        more = step("shell", cmd=f"echo more >> notes/{agent}/b.md")
        owns = f'mode: write\nowns: ["notes/{agent}/**"]'
        found[f"{agent}-2"] = f"title: Take notes as {agent}\n{owns}\n---\n{write}{more}{end}\n"
        total = step("shell", cmd=f"cat notes/{agent}/*.md > notes/{agent}-sum.md")
        owns = f'mode: write\nowns: ["notes/{agent}-sum.md"]\ndepends_on: [{agent}-2]'
        grep = f'acceptance: ["grep -q notes notes/{agent}-sum.md"]'
        found[f"{agent}-3"] = f"title: Sum up {agent}-2\n{owns}\n{grep}\n---\n{total}{end}\n"
    return found


def settings(url: str) -> str:
    provider = (
        f'model_providers.scripted={{name="scripted",base_url="{url}/v1",env_key="CODEX_API_KEY",'
        'wire_api="responses",request_max_retries=0,stream_max_retries=0}'
    )
    args = {"codex": ["-c", 'model_provider="scripted"', "-c", provider]}
    return "".join(
        f"[agents.{name}]\nenabled = true\nexecutable = {json.dumps(str(CLIS / name))}\n"
        f'model = "{model}"\nargs = {json.dumps(args.get(name, []))}\n'
        for name, model in MODELS.items()
    )


def git(folder: Path, environ: dict, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env=environ, capture_output=True, text=True, check=True
    )
    return done.stdout


if __name__ == "__main__":
    os.environ.pop("PYTHONPATH", None)
    main(sys.argv[1:] or ["flask", "httpx"])
