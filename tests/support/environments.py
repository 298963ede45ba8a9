"""Virtual environments with an editable install, as package managers make them."""

import json
import os
import sys
import venv
from pathlib import Path

FINDER = """from __future__ import annotations
import sys
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import spec_from_file_location
from pathlib import Path

MAPPING: dict[str, str] = {mapping!r}
NAMESPACES: dict[str, list[str]] = {{}}


class _EditableFinder:
    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        if fullname in MAPPING:
            return spec_from_file_location(fullname, Path(MAPPING[fullname], "__init__.py"))
        return None


def install():
    if not any(finder == _EditableFinder for finder in sys.meta_path):
        sys.meta_path.append(_EditableFinder)
"""
TOOL = """#!{python}
# -*- coding: utf-8 -*-
import sys
import mypkg
sys.exit(0 if mypkg.VALUE == "good" else f"mypkg is {{mypkg.VALUE}}, of {{mypkg.__file__}}")
"""


def make_venv(folder):
    """Make a virtual environment, and return its folder of packages."""
    venv.create(folder, symlinks=True, with_pip=False)
    return folder / "lib" / f"python3.{sys.version_info[1]}" / "site-packages"


def install_editable(folder, root, kind, package="mypkg", below="src"):
    """Install a package, `below` a folder of a project, as the named tool does it, with a script `mytool`."""
    site = make_venv(folder) if not folder.is_dir() else next(folder.glob("lib/python3*/site-packages"))
    source = (root / below).resolve() if kind != "alias" else root / below
    source = Path(os.path.normpath(source))
    info = site / f"{package}-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 0.1\n")
    url = {"dir_info": {"editable": True}, "url": root.resolve().as_uri()}
    (info / "direct_url.json").write_text(json.dumps(url))
    if kind in ("hatchling", "pdm"):
        (site / f"_editable_impl_{package}.pth").write_text(str(source))
    elif kind in ("flit", "poetry", "uv", "alias"):
        (site / f"{package}.pth").write_text(f"{source}\n")
    elif kind == "flit-symlink":
        (site / package).symlink_to(source / package)
    elif kind == "setuptools":
        (site / f"__editable__.{package}-0.1.pth").write_text(f"{source}\n")
    elif kind == "setuptools-finder":
        name = f"__editable___{package}_0_1_finder"
        (site / f"__editable__.{package}-0.1.pth").write_text(f"import {name}; {name}.install()")
        (site / f"{name}.py").write_text(FINDER.format(mapping={package: str(source / package)}))
    elif kind == "editables":
        name = f"_editable_impl_{package}"
        (site / f"{name}.pth").write_text(f"import {name}")
        mapped = f"F.map_module('{package}', '{source / package / '__init__.py'}')"
        text = f"from _stand_in import RedirectingFinder as F\nF.install()\n{mapped}\n"
        (site / f"{name}.py").write_text(text)
        (site / "_stand_in.py").write_text(
            FINDER.format(mapping={}).replace("_EditableFinder", "RedirectingFinder")
            + "\nRedirectingFinder.install = classmethod(lambda cls: install())\n"
            "RedirectingFinder.map_module = classmethod("
            "lambda cls, name, path: MAPPING.update({name: str(Path(path).parent)}))\n"
        )
    elif kind == "develop":
        (site / f"{package}.egg-link").write_text(f"{source}\n../")
        (site / "easy-install.pth").write_text(f"{source}\n")
    else:
        raise ValueError(kind)
    tool = folder / "bin" / "mytool"
    tool.write_text(TOOL.format(python=folder / "bin" / "python"))
    tool.chmod(0o755)
    return site


KINDS = (
    "hatchling", "flit", "flit-symlink", "setuptools", "setuptools-finder", "editables", "develop",
)  # fmt: skip
"""The forms of an editable install that differ."""
