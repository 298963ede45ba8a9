"""Environments of the user's checkout in a worker's tree, where they import the tree's own code.

A virtual environment with an editable install of the project, and a `node_modules` with links to packages of
the project, lead into the user's checkout: through a plain link to them a check would test the code there.
So the tree gets a folder of its own, whose entries link to the user's; what leads into the checkout leads to
the same place in the tree. An environment outside of the tree is left as it is: `PYTHONPATH` comes before it.
"""

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar
from urllib.parse import quote_from_bytes

from tickets.wording import some_of
from workers.files.read import read_whole

CACHES = frozenset((
    ".venv", "venv", "node_modules", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".tox",
    ".nox", ".cache", ".hypothesis", ".gradle", ".next", ".turbo", ".DS_Store",
))  # fmt: skip
"""Environments and caches: no ticket means them."""
T = TypeVar("T")
_TEXT, _MODULE = 1 << 22, 1 << 17
"""The most bytes of a file, and of a plain module, that is read for paths."""
_SHEBANG = 127
"""The longest first line with which every Linux finds the interpreter of a script."""
_PATH = re.compile(rb"(?<![\w.-])/(?!/)[^\s'\":;,()\[\]{}<>|$#!%]+")
_ENDS = rb"(?=[/'\"\r\n:;,)\]}>]|\Z)"
_MAPPED = re.compile(r"""['"]([\w.]+)['"]\s*[:,]\s*['"](/[^'"]+)['"]""")
_NOT_BROUGHT = frozenset({"__pycache__", ".cache", ".vite"})
"""Caches: through a link the tree's would be written into the user's."""
_SITES = ("lib/python3*/site-packages", "lib/pypy3*/site-packages")
_NEEDS = ("dependencies", "peerDependencies", "optionalDependencies")
SHOWN = 3


class Environments(NamedTuple):
    """How the environments of a checkout reach the code of the project, for all trees of a run."""

    sources: tuple[str, ...] = ()
    """Folders of the project that environments outside of a tree import from: `PYTHONPATH` in each tree."""
    faults: tuple[str, ...] = ()
    """Why commands in a tree would still import from the user's checkout."""
    folders: tuple[Path, ...] = ()
    """Folders that the links of a tree lead to, with the interpreters of virtual environments."""
    venvs: tuple[tuple[str, str], ...] = ()
    """Virtual environments that each tree has: where they are, and their path in the checkout."""

    @property
    def doubt(self) -> str:
        """Describe on one line why a command's success says nothing about its tree; else empty."""
        return some_of(self.faults, SHOWN, between="; ")


def examine(root: Path, environ: Mapping[str, str], paths: Sequence[str]) -> Environments:
    """Examine the environments that commands in a tree use; `paths` are those that are linked or copied."""
    project = _Project(root)
    sources: list[str] = []
    faults: list[str] = []
    folders: list[Path] = []
    venvs: dict[str, str] = {}
    for path in paths:
        place = root / path
        folders.append(place.resolve())
        if _is_venv(place):
            venvs[str(place.resolve())] = path
            folders += _interpreters(place)
        elif place.name == "node_modules":
            faults += _node_faults(project, place, path)
    for prefix in _prefixes(environ, [root / path for path in paths]):
        if str(prefix) not in venvs:
            for site in _site_folders(prefix):
                found, wrong = _imported(project, site)
                sources += found
                faults += wrong
    return Environments(_once(sources), _once(faults), _once(folders), tuple(venvs.items()))


def _once(values: list[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(values))


def files_in(tree: Path, path: str) -> Iterator[str]:
    """Yield the files at a path of a tree that may be a folder (`x/`), but for those that tools make."""
    if not path.endswith("/"):
        yield path
    for folder, names, files in os.walk(tree / path) if path.endswith("/") else ():
        names[:] = [name for name in names if name not in CACHES]
        yield from (os.path.relpath(f"{folder}/{name}", tree) for name in files)


def overlaid(root: Path, tree: Path, path: str, links: Path) -> bool:
    """Make the environment at a path of the checkout one of the tree; False where a link does as well.

    A copy that is there already is changed where it leads into the checkout. `links` is a folder of ours that
    keeps one link of each target for all trees.
    """
    source = root / path
    project = _Project(root)
    if _is_venv(source):
        deep = _python_folders(source)
        leads = [*_python_leads(project, source)]
    elif source.name == "node_modules" and source.is_dir():
        leads = [*_node_leads(project, source)]
        scopes = {name.partition("/")[0] for name in leads if name.startswith("@")}
        deep = {str(source), str(source / ".bin"), *(str(source / scope) for scope in scopes)}
    else:
        return False
    if leads:
        links.mkdir(exist_ok=True)
        _lay(source, tree / path, _Moved(project, tree, path, deep), deep, links)
    return bool(leads)


def search_path(path: str, root: Path, tree: Path, environments: Environments) -> str:
    """Return a `PATH` whose folders in the checkout are those of the tree, where it has them."""
    project, venvs = _Project(root), dict(environments.venvs)
    found = []
    for folder in path.split(os.pathsep):
        real = os.path.realpath(folder)
        inside = project.inside(os.path.normpath(folder)) or project.inside(real)
        if venv := venvs.get(os.path.dirname(real)):  # noqa: PTH120 - a text
            inside = f"{venv}/{os.path.basename(real)}"  # noqa: PTH119 - a text
        found.append(str(tree / inside) if inside and (tree / inside).is_dir() else folder)
    return os.pathsep.join(found)


class _Project:
    """The user's checkout; its root is a real path."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def inside(self, path: str) -> str | None:
        """Return a path relative to the checkout, following no link; None where it is outside."""
        top = str(self.root)
        return path[len(top) + 1 :] or "." if path == top or path.startswith(f"{top}/") else None

    def source(self, path: str) -> str | None:
        """Return what a path leads to in the project's own files; None for those of others."""
        real = os.path.realpath(path)
        found = self.inside(real)
        is_others = found is None or "node_modules" in found.split("/") or self.clone(real)
        return None if is_others else found

    def clone(self, path: str) -> str | None:
        """Return the repository of its own, inside the checkout, that a path is in; submodules are ours."""
        folder = Path(path)
        while folder != self.root and folder.is_relative_to(self.root):
            if (folder / ".git").is_dir():
                return str(folder)
            folder = folder.parent
        return None


class _Moved:
    """Paths of the checkout to the same paths in a tree: in texts, and in links."""

    def __init__(self, project: _Project, tree: Path, path: str, deep: Iterable[str]) -> None:
        source = project.root / path
        self._project, self._top = project, str(source)
        # The environment first: it may itself be a link to somewhere else.
        self._names = {str(source.resolve()): str(tree / path), self._top: str(tree / path)}
        self._names[str(project.root)] = str(tree)
        texts = [read for folder in deep for entry in _entries(folder) if (read := _read(entry))]
        known = {os.fsdecode(found) for text in texts for found in _PATH.findall(text)}
        clones = [project.clone(path) for path in known if project.inside(path)]
        self._names |= {clone: clone for clone in clones if clone}
        for spelled, folder in _other_names(known, (source, project.root)):
            self._names.setdefault(spelled, self._names[str(folder)])
        table = {os.fsencode(old): os.fsencode(new) for old, new in self._names.items()}
        table |= {_quoted(old): _quoted(new) for old, new in table.items()}
        names = sorted(map(re.escape, table), key=len, reverse=True)
        self._table, self._pattern = table, re.compile(rb"(?<![\w.-])(?:" + b"|".join(names) + rb")" + _ENDS)

    def text(self, data: bytes) -> bytes:
        """Return a text with the tree's paths; a first line that is too long for the kernel goes by `sh`."""
        moved = self._pattern.sub(lambda found: self._table[found[0]], data)
        first, _, rest = moved.partition(b"\n")
        if not first.startswith(b"#!") or len(first) <= _SHEBANG or b"python" not in first:
            return moved
        return b"#!/bin/sh\n'''exec' " + first[2:].strip() + b" \"$0\" \"$@\"\n' '''\n" + rest

    def link(self, folder: str, text: str) -> str:
        """Return where a link in a folder of the environment is to lead."""
        target = os.path.normpath(os.path.join(folder, text))  # noqa: PTH118 - nothing is followed
        if not text.startswith("/") and target.startswith(f"{self._top}/"):
            return text
        if self._project.clone(target):
            return target
        for old, new in sorted(self._names.items(), reverse=True):
            if target == old or target.startswith(f"{old}/"):
                moved = new + target[len(old) :]
                # A store of packages that the tree does not have is the user's.
                is_store = "node_modules" in target[len(old) :].split("/")
                return target if is_store and not os.path.lexists(moved) else moved
        return target


def _quoted(path: bytes) -> bytes:
    return quote_from_bytes(path).encode()


def _lay(source: Path, place: Path, moved: _Moved, deep: set[str], links: Path) -> None:
    """Make a folder whose entries link to another's; folders in `deep` are made in the same way."""
    place.mkdir(exist_ok=True)
    for entry in _entries(source):
        at, is_there = place / entry.name, os.path.lexists(place / entry.name)
        if entry.name in _NOT_BROUGHT and not is_there:
            continue
        if entry.is_symlink():
            text = str(Path(entry.path).readlink())
            target = moved.link(str(source), text)
            if is_there and target == text:
                continue
            at.unlink(missing_ok=True)
            at.symlink_to(target)
        elif entry.is_dir() and entry.path in deep:
            _lay(Path(entry.path), at, moved, deep, links)
        elif (data := _read(entry)) and (source.name in ("bin", ".bin") or moved.text(data) != data):
            # Scripts also where they name no path: some find their environment by their own real path.
            at.write_bytes(moved.text(data))
            at.chmod(entry.stat().st_mode & 0o777 | 0o200)
        elif not is_there:
            _link(at, entry.path, links)


def _link(at: Path, target: str, links: Path) -> None:
    """Make a link as a further name of the one that is kept: a new inode can take thirty times as long."""
    kept = links / hashlib.sha256(os.fsencode(target)).hexdigest()
    try:
        os.link(kept, at, follow_symlinks=False)
    except OSError:
        # The first of its target; or the trees are on another disk, where each has its own.
        at.symlink_to(target)
        with contextlib.suppress(OSError):
            os.link(at, kept, follow_symlinks=False)


def _entries(folder: Path | str) -> "Iterator[os.DirEntry[str]]":
    try:
        with os.scandir(folder) as found:
            yield from sorted(found, key=lambda entry: entry.name)
    except OSError:
        return


def _read(entry: "os.DirEntry[str]") -> bytes:
    """Read a file that may name paths; empty for any other: programs, and what is too large."""
    is_script = os.path.basename(os.path.dirname(entry.path)) in ("bin", ".bin")  # noqa: PTH119, PTH120 - of many
    if not (is_script or entry.name.endswith((".pth", ".py", ".egg-link", ".cfg", "direct_url.json"))):
        return b""
    most = _MODULE if entry.name.endswith(".py") and "editable" not in entry.name else _TEXT
    if entry.is_symlink() or not entry.is_file() or entry.stat().st_size > most:
        return b""
    try:
        data = read_whole(entry.path, most)
    except PermissionError:
        return b""  # what the user cannot read, no interpreter of theirs reads either
    return b"" if b"\0" in data[:1024] else data


def _other_names(paths: Iterable[str], folders: Sequence[Path]) -> Iterator[tuple[str, Path]]:
    """Yield the further names under which some folders are known: through links above them."""
    known = {(status.st_dev, status.st_ino): folder for folder in folders for status in [folder.stat()]}
    seen: set[str] = set()
    for path in paths:
        parts = path.split("/")
        for count in range(2, len(parts) + 1):
            if (name := "/".join(parts[:count])) in seen:
                continue
            seen.add(name)
            try:
                status = os.stat(name)  # noqa: PTH116 - of many
            except OSError:
                break
            if folder := known.get((status.st_dev, status.st_ino)):
                yield name, folder


# Python


def _is_venv(folder: Path) -> bool:
    return (folder / "pyvenv.cfg").is_file()


def _python_folders(venv: Path) -> set[str]:
    """Return the folders of a virtual environment in which something may lead into a project."""
    found = {str(venv), str(venv / "bin"), str(venv / "lib")}
    for site in _site_folders(venv):
        found |= {str(site.parent), str(site)}
        found |= {str(url.parent) for url in site.glob("*.dist-info/direct_url.json")}
    return found


def _python_leads(project: _Project, venv: Path) -> Iterator[str]:
    """Yield what in a virtual environment leads into the project's own files."""
    for site in _site_folders(venv):
        for entry in _entries(site):
            if entry.is_symlink():
                found = project.source(entry.path)
            else:
                paths = _paths_in(entry, site)
                found = next((path for path in paths if project.source(path)), None)
            if found:
                yield entry.name


def _paths_in(entry: "os.DirEntry[str]", site: Path) -> Iterator[str]:
    """Yield the paths in a file: of a path file each line, which may be relative or have spaces."""
    text = _read(entry)
    yield from (os.fsdecode(found) for found in _PATH.findall(text))
    if entry.name.endswith((".pth", ".egg-link")):
        lines = (line.strip() for line in text.splitlines() if b"\0" not in line)
        yield from (os.path.join(site, os.fsdecode(line)) for line in lines if line)  # noqa: PTH118 - a text


def _site_folders(prefix: Path) -> list[Path]:
    return [site for pattern in _SITES for site in sorted(prefix.glob(pattern))]


def _interpreters(venv: Path) -> Iterator[Path]:
    """Yield the prefixes of the interpreters that a virtual environment was made of."""
    for program in sorted((venv / "bin").glob("python*")):
        real = program.resolve()
        if not real.is_relative_to(venv.resolve()):
            yield real.parent.parent if real.parent.name == "bin" else real.parent


def _prefixes(environ: Mapping[str, str], linked: Sequence[Path]) -> Iterator[Path]:
    """Yield the prefixes in which a program on `PATH` may find packages, and those of linked ones."""
    home = Path(environ.get("HOME") or "/nonexistent")
    folders = [Path(name) for name in environ.get("PATH", "").split(os.pathsep) if name[:1] == "/"]
    # Some may be closed to us: another user's, after `sudo` or `su`.
    folders = [folder for folder in folders if os.access(folder, os.R_OK | os.X_OK)]
    shims = [one for folder in folders if folder.name == "shims" for one in folder.parent.glob("versions/*")]
    mine = [folder.parent for folder in folders if folder.name == "bin"]
    yield from dict.fromkeys(path.resolve() for path in (*mine, *shims, *linked, home / ".local"))


def _imported(project: _Project, site: Path) -> tuple[list[str], list[str]]:
    """Return the project's folders that a folder of packages imports from, and what `PYTHONPATH` cannot."""
    sources: list[str] = []
    faults: list[str] = []
    for entry in _entries(site):
        if entry.is_symlink():
            found = project.source(entry.path)
            sources += [os.path.dirname(found) or "."] if found and found != "." else []  # noqa: PTH120 - a text
        elif entry.name.endswith((".pth", ".egg-link")):
            paths = (path for path in _paths_in(entry, site) if os.path.isdir(path))  # noqa: PTH112 - of many
            sources += [found for path in paths if (found := project.source(path))]
        elif entry.name.endswith(".py") and (text := _read(entry).decode("utf-8", "replace")):
            pairs = [(name, project.source(path)) for name, path in _MAPPED.findall(text)]
            roots = [_above(name, found) for name, found in pairs if found]
            is_first = bool(roots) and "sys.meta_path.insert(" in text
            faults += [f"{entry.path} imports from your checkout"] if None in roots or is_first else []
            sources += [root for root in roots if root]
    return sources, faults


def _above(module: str, path: str) -> str | None:
    """Return the folder from which a module of a path is imported; None where their names differ."""
    parts = path.removesuffix("/__init__.py").removesuffix(".py").split("/")
    names = module.split(".")
    return "/".join(parts[: -len(names)]) or "." if parts[-len(names) :] == names else None


# Node


def _node_leads(project: _Project, folder: Path) -> Iterator[str]:
    """Yield the names in a `node_modules` that lead into the project's own files."""
    for entry in _entries(folder):
        if entry.name.startswith("@") and not entry.is_symlink() and entry.is_dir():
            links = (one for one in _entries(entry.path) if one.is_symlink())
            yield from (f"{entry.name}/{one.name}" for one in links if project.source(one.path))
        elif entry.is_symlink() and project.source(entry.path):
            yield entry.name
    for entry in _entries(folder / ".bin"):
        if entry.is_symlink() and project.source(entry.path):
            yield f".bin/{entry.name}"


def _node_faults(project: _Project, folder: Path, path: str) -> Iterator[str]:
    """Yield why packages of a `node_modules` load the project's from the checkout: by their real paths."""
    names = {name for name in _node_leads(project, folder) if not name.startswith(".bin/")}
    if not names:
        return
    for package in _packages(folder):
        needs = _needs(Path(package.path) / "package.json") & names
        if needs and not package.is_symlink():
            name = os.path.relpath(package.path, folder)
            yield f"{path}/{name} loads {min(needs)} from your checkout"
    for stored in _entries(folder / ".pnpm"):
        if "@file+" in stored.name:
            yield f"{path}/.pnpm/{stored.name} is a copy of a folder"
        elif stored.name != "node_modules" and stored.is_dir():
            for package in _packages(Path(stored.path) / "node_modules"):
                if package.is_symlink() and project.source(package.path):
                    yield f"{path}/.pnpm/{stored.name} loads {package.name} from your checkout"


def _packages(folder: Path) -> "Iterator[os.DirEntry[str]]":
    for entry in _entries(folder):
        if entry.name.startswith("@"):
            yield from _entries(entry.path)
        elif not entry.name.startswith("."):
            yield entry


def _needs(manifest: Path) -> set[str]:
    try:
        found = json.loads(read_whole(manifest))
        return {name for key in _NEEDS for name in found.get(key) or ()}
    except (OSError, ValueError, AttributeError, TypeError):
        return set()  # not a package: Node cannot load it by its name either
