"""The places that programs need to read: the system's, those of the languages on PATH, git's settings."""

import os
import pwd
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path

from workers.files.read import read_whole
from workers.files.run_dir import is_empty

V1 = not os.path.exists("/sys/fs/cgroup/cgroup.controllers")  # noqa: PTH110 - at import
"""Whether control groups are a dozen mounts, of which each costs time; programs read their limits in two."""
SYSTEM = (
    "/bin", "/etc", "/gnu", "/lib", "/lib32", "/lib64", "/libx32", "/nix", "/opt", "/sbin", "/sys/devices",
    "/sys/fs/cgroup/cpu" if V1 else "/sys/fs/cgroup", "/sys/fs/cgroup/memory", "/usr", "/usr/local",
    "/var/lib",
)  # fmt: skip
"""Folders of the system; what is beside them may hold the data of anybody."""
INSTALLED = Path(__file__).resolve().parents[2]
ALWAYS = (
    *(Path(folder) for folder in SYSTEM if not is_empty(Path(folder))),
    # For the keeper of a worker, and for a worker that calls us.
    *(INSTALLED / package for package in ("_orchestrate.py", "orchestrator", "tickets", "workers")),
    *(Path(sys.prefix), Path(sys.base_prefix)),
    # To look up a name.
    *(Path("/run/systemd/resolve"), Path("/etc/resolv.conf")),
)
"""What is shown wherever it is."""
ENVIRONMENTS = (".venv", "venv", "node_modules")
"""Folders of a checkout with the packages that are installed for it."""
_BINS = ("bin", "condabin", "sbin", "shims")
_WIDE = ("", ".cache", ".config", ".local", ".local/share")
"""Folders of a home that hold all kinds of things: none is shown for a program in it."""
_WRITTEN = (".claude", ".codex", ".gemini")
"""Folders of a home that a worker may write, and so lead wherever it wants: no link in them is followed."""
_PARTNERS = {
    ".cargo/bin": (".rustup",),
    ".asdf/shims": (".tool-versions", ".asdfrc"),
    ".local/share/mise/shims": (".config/mise", ".tool-versions"),
}
"""Further paths in the home that the programs of a folder on PATH read."""
_SECRETS = frozenset(
    ("auth.json", "credentials", "credentials.json", "credentials.toml", ".credentials.json")
)
_GIT = re.compile(r"\.git(config|ignore|attributes)")
_SECTION = re.compile(r"\s*\[(include)?")
_PATH = re.compile(r"\s*path\s*=\s*\"?([^\"\n]+)")
_ABOVE = re.compile(
    r"""
    (?: \.?pytest | tox | \.?ruff | uv | ty | hatch | pdm | poetry | pyproject | bunfig | Cargo )
        \. (?: toml | lock )
    | \.?(?: pytest | mypy | tox | pylint ) \.ini | setup\.cfg
    | \.flake8 | \.isort\.cfg | \.?pylintrc(\.toml)? | \.style\.yapf | \.yapfignore | pyrightconfig\.json
    | package\.(?:json|yaml) | pnpm-workspace\.yaml | (?: lerna | nx | turbo | rush ) \.json | yarn\.lock
    | (?: ts | js ) config(\.[\w.-]+)?\.json | \.?[\w-]+\.config\.(?: [cm]?[jt]s | json )
    | \.?(?: babel | browserslist | c8 | commitlint | eslint | lintstaged | markdownlint | mocha | nyc
        | postcss | prettier | remark | stylelint | swc )
        (?: rc | ignore ) (?: \. (?: json[5c]? | ya?ml | toml | [cm]?[jt]s ) )?
    | browserslist | (?: biome | deno ) \.jsonc? | \.pnp\.\w+
    | \.editorconfig | \.(?: git | rg | fd | hg )? ignore | \.gitattributes | \.tool-versions
    | \.(?: python | node | ruby | java | go | swift ) -version | \.nvmrc | \.sdkmanrc | \.bazelversion
    | [._]clang-(?: format | tidy ) | \.clangd | compile_(?: flags\.txt | commands\.json )
    | rust-toolchain(\.toml)? | \.?(?: rustfmt | clippy ) \.toml
    | go\.(?: mod | sum | work | work\.sum ) | \.golangci\.\w+
    | Gemfile(\.lock)? | gems\.rb | Rakefile | \.rspec | \.rubocop\w*\.yml
    | settings\.gradle(\.kts)? | Directory\.[\w.]+\.(?: props | targets ) | global\.json
    | (?: WORKSPACE | MODULE ) (\.bazel)? | \.?[Jj]ustfile | Taskfile\.ya?ml | stack\.yaml | cabal\.project
    | composer\.json | pubspec\.\w+ | analysis_options\.yaml | \.swift(?: lint\.yml | format )
    """,
    re.VERBOSE,
)
"""The settings that tools look for in each folder above the one they work in; none is for credentials."""
_CARGO = (".cargo/config", ".cargo/config.toml")
_LARGEST = 1 << 20
"""Bytes of a file of settings; a larger one is none."""


@cache
def homes(environ_home: str | None) -> tuple[Path, ...]:
    """Return the user's homes: the one of the environment, and that of the system's list of users."""
    found = [environ_home or ""]
    with suppress(KeyError):
        found.append(pwd.getpwuid(os.getuid()).pw_dir)
    return tuple(dict.fromkeys(Path(os.path.realpath(home)) for home in found if len(home) > 1))


def exists(path: Path) -> bool:
    """Return whether a path leads to something that we can see."""
    return os.path.exists(path)  # noqa: PTH110 - Path raises where a folder above is closed to us


@lru_cache(maxsize=1024)
def resolved(path: Path) -> tuple[Path, tuple[tuple[str, str], ...]]:
    """Return where a path really is, and the links on the way there, each as its place and its target."""
    place, rest = "/", list(reversed(path.parts[1:]))
    links: list[tuple[str, str]] = []
    while rest and len(links) < 40:
        name = rest.pop()
        if name == "..":
            place = os.path.dirname(place)  # noqa: PTH120 - as the kernel does
            continue
        at = os.path.join(place, name)  # noqa: PTH118 - called for each part of each path of each worker
        try:
            target = os.readlink(at)  # noqa: PTH115 - as above
        except OSError:
            place = at
            continue
        links.append((at, target))
        if target.startswith("/"):
            place = "/"
        rest += reversed([part for part in target.split("/") if part not in ("", ".")])
    return Path(place), tuple(links)


@cache
def programs_on(path: str, home: Path) -> tuple[Path, ...]:
    """Return what the programs of a PATH read outside of the system's folders, as far as it can be known."""
    found: dict[Path, None] = dict.fromkeys([home / ".local/lib"])  # packages that Python's users install
    for text in path.split(os.pathsep):
        if text.startswith("/"):
            _add(Path(text), home, found)
    return tuple(found)


@cache
def program(executable: str, home: Path) -> tuple[Path, ...]:
    """Return what one program reads outside of the system's folders: its package, and what that needs."""
    found: dict[Path, None] = {}
    real = resolved(Path(executable))[0]
    if _is_written(real, home) or not _is_written(Path(executable), home):
        found[Path(executable)] = None
        _add(Path(executable).parent, home, found, lists=False)
        _add(real.parent, home, found, lists=False)
    return tuple(found)


def package_of(folder: Path, home: Path) -> Path | None:
    """Return the folder of all that the programs in a folder need: node_modules, a prefix, or just itself."""
    if "node_modules" in folder.parts:
        return Path(*folder.parts[: folder.parts.index("node_modules") + 1])
    wide = folder.parent if folder.name in _BINS else folder
    return next((one for one in (wide, folder) if not is_wide(one, home)), None)


def _add(folder: Path, home: Path, found: dict[Path, None], *, lists: bool = True) -> None:
    """Add a folder of programs, its package, and those that it leads to by links or as an environment."""
    real, _ = resolved(folder)
    is_written = _is_written(folder, home)
    if is_written and not _is_written(real, home):
        return
    for one in dict.fromkeys((folder, real)):
        package = package_of(one, home)
        if package is None or package in found or _is_system(package, home) or not exists(package):
            continue
        found |= dict.fromkeys((one, *_without_secrets(package)))
        if is_written:
            continue
        with suppress(ValueError):
            partners = _PARTNERS.get(one.relative_to(home).as_posix(), ())
            found |= dict.fromkeys(home / name for name in partners)
        # A virtual environment is nothing without the Python that it was made from.
        if said := re.search(r"(?m)^home\s*=\s*(/.*?)\s*$", _text(package / "pyvenv.cfg")):
            _add(Path(said[1]), home, found, lists=False)
        for link in _links_in(one) if lists else ():
            target, _ = resolved(link)
            if package not in target.parents:
                found[link] = None
                _add(target.parent, home, found, lists=False)


def _links_in(folder: Path) -> Iterator[Path]:
    with suppress(OSError):
        yield from (Path(entry.path) for entry in os.scandir(folder) if entry.is_symlink())


def is_wide(folder: Path, home: Path) -> bool:
    """Return whether a folder holds all kinds of things, so that it is not shown for one of them."""
    spelled = (home, resolved(home)[0])
    wide = [one / name for one in spelled for name in (*_WIDE, *_WRITTEN)]
    return len(folder.parts) < 3 or folder in wide or any(folder in one.parents for one in spelled)


def _is_written(folder: Path, home: Path) -> bool:
    spelled = (home, resolved(home)[0])
    return any(folder.is_relative_to(one / name) for one in spelled for name in _WRITTEN)


def _is_system(folder: Path, home: Path) -> bool:
    is_at_home = folder.is_relative_to(home) or folder.is_relative_to(resolved(home)[0])
    return not is_at_home and str(folder).startswith(tuple(f"{one}/" for one in SYSTEM))


def _without_secrets(folder: Path) -> Iterable[Path]:
    """Return a folder, or what is in it but for the credentials that it holds."""
    try:
        names = os.listdir(folder)  # noqa: PTH208 - names alone
    except OSError:
        return ()
    if _SECRETS.isdisjoint(names):
        return (folder,)
    return [folder / name for name in names if name not in _SECRETS]


@cache
def git_reads(home: Path, common: Path) -> tuple[Path, ...]:
    """Return what git reads outside of a worktree: its folder, what it borrows, and the user's settings.

    Credentials are not among it.
    """
    found = [common, *_alternates(common / "objects")]
    with suppress(OSError):
        found += [Path(one.path) for one in os.scandir(home) if _GIT.match(one.name) and one.is_file()]
    with suppress(OSError):
        found += [Path(one.path) for one in os.scandir(home / ".config/git") if one.name != "credentials"]
    queue = [common / "config", *found[1:]]
    while queue and len(found) < 64:
        fresh = [path for path in _included(queue.pop(0), home) if path not in found and path.is_file()]
        found += fresh
        queue += fresh
    return tuple(found)


def _alternates(objects: Path) -> list[Path]:
    """Return the object folders of other repositories that one borrows from, and those that they do."""
    found, queue = [], [objects]
    while queue:
        at = queue.pop(0)
        lines = _text(at / "info/alternates").splitlines()
        fresh = [Path(os.path.normpath(at / line)) for line in lines if line and line[0] != "#"]
        fresh = [path for path in fresh if path not in found]
        found += fresh
        queue += fresh
    return found


def _included(config: Path, home: Path) -> Iterator[Path]:
    """Yield the files that a file of git's settings includes; git fails where it cannot read one."""
    includes = False
    for line in _text(config).splitlines():
        if section := _SECTION.match(line):
            includes = section[1] is not None
        if includes and (said := _PATH.match(line)):
            text = said[1].strip()
            place = home / text[2:] if text.startswith("~/") else config.parent / text
            yield Path(os.path.normpath(place))


@cache
def system_reads(hidden: tuple[Path, ...]) -> tuple[str, ...]:
    """Return the paths of the system that may be read where nothing can be hidden in them."""
    folders = [resolved(folder)[0] for folder in (*ALWAYS, Path("/proc"))]
    real = {resolved(path)[0] for path in hidden}
    return tuple(str(path) for folder in folders for path in _beside(folder, real))


def _beside(folder: Path, hidden: set[Path]) -> Iterator[Path]:
    """Yield a folder, or all that is in it but for what is hidden there."""
    if not any(path.is_relative_to(folder) for path in hidden):
        yield folder
    elif folder not in hidden:
        with suppress(OSError):
            for entry in os.scandir(folder):
                yield from _beside(Path(entry.path), hidden)


def _text(path: Path) -> str:
    """Return the text of a small file; empty where there is none."""
    try:
        return os.fsdecode(read_whole(path, _LARGEST))
    except OSError:
        return ""


def project_reads(root: Path, home: Path, linked: Iterable[str], read: Iterable[str]) -> tuple[Path, ...]:
    """Return what all workers of a project read besides: what its trees link to, and what the settings name.

    Of the user's checkout that is the installed packages alone: `linked` is `[worktree] link`, `read` is
    `[fence] read`.
    """
    found: dict[Path, None] = {}
    for text in (*ENVIRONMENTS, *linked):
        for path in root.glob(text.strip("/")):
            found |= dict.fromkeys((path, resolved(path)[0]))
            _add(path / (".bin" if path.name == "node_modules" else "bin"), home, found)
    found |= {home / text[2:] if text.startswith("~/") else root / text: None for text in read}
    return tuple(found)


def tools_above(trees: Path, root: Path, tracked: Iterable[str]) -> tuple[Path, ...]:
    """Return the files above a project's trees that tools find on their way up, and open because they exist.

    For a fence that hides no name. `tracked` are the files at the top of the checkout that git knows: every
    tree has them, too. Those with instructions for agents are left out, which would read them twice.
    """
    found = dict.fromkeys(root / name for name in tracked if not name.endswith(".md"))
    for folder in trees.parents:
        with suppress(OSError):
            names = (name for name in os.listdir(folder) if _ABOVE.fullmatch(name))  # noqa: PTH208 - as above
            found |= dict.fromkeys(folder / name for name in (*names, *_CARGO))
    return tuple(path for path in found if os.path.isfile(path) and not _leads_away(path, root))  # noqa: PTH113


def _leads_away(path: Path, root: Path) -> bool:
    """Return whether a path in the checkout is a link: it may have come with a commit, and lead anywhere."""
    real = os.path.realpath(root)
    return path.is_relative_to(root) and os.path.realpath(path) != f"{real}/{path.relative_to(root)}"


def named_in(environ: Mapping[str, str], home: Path) -> Iterator[Path]:
    """Yield the files and folders that variables of a worker name: certificates, credentials, a socket."""
    for name, value in environ.items():
        if value[:1] == "/" and not name.startswith("ORCHESTRATE_") and not is_wide(Path(value), home):
            yield Path(value)
