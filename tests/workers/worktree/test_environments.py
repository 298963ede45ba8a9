"""A checkout's environments in a tree: what they import is the tree's, and nothing of them is a change."""

import os
import shutil
import subprocess
import sys

import pytest
from support.changes import Lab
from support.environments import KINDS, install_editable, make_venv

from workers.git.run import find_repository, git_line
from workers.worktree.changes import Checker
from workers.worktree.checkout import Furniture, brought_paths, make_tree
from workers.worktree.environments import examine, search_path

CAP = 10_000_000
NODE = shutil.which("node")


class Making(Lab):
    """A repository with a package, and trees in which that is broken."""

    def tree(self, name="W-1", **furniture):
        found = find_repository(self.root)
        self.checker = Checker(found.common, found.own / "runs" / "r", found.root)
        self.checker.prepare()
        sha = git_line("rev-parse", "HEAD", cwd=self.root)
        index = self.checker.directory / f"{name}.index"
        path = found.root / ".taskers" / "worktrees" / "r" / name
        made = make_tree(found, self.checker, path, sha, index, furniture=Furniture(**furniture))
        self.checker.settle(made.place)
        for package in made.place.path.glob("**/mypkg/__init__.py"):
            if ".venv" not in package.parts:
                package.write_text('VALUE = "broken"\n')
        return made.place

    def examine(self, environ=None, **furniture):
        furniture = Furniture(**furniture)
        return examine(self.root.resolve(), environ or {}, brought_paths(self.root, furniture))


@pytest.fixture
def lab(tmp_path):
    lab = Making(tmp_path / "repo")
    for below in ("src", "."):
        (lab.root / below / "mypkg").mkdir(parents=True)
        (lab.root / below / "mypkg" / "__init__.py").write_text('VALUE = "good"\n')
    lab.commit(**{".gitignore": b".venv/\nnode_modules/\n"})
    return lab


def value_in(tree, *command, env=None):
    """Return what a program says about `mypkg`, from a folder that has none."""
    folder = tree / "elsewhere"
    folder.mkdir(exist_ok=True)
    done = subprocess.run(command, cwd=folder, env=env or {}, capture_output=True, text=True, check=False)
    return done.stdout.strip() or done.stderr.strip()


SAYS = ("-c", "import mypkg; print(mypkg.VALUE)")


# Python


@pytest.mark.parametrize("below", ["src", "."])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["linked", "copied"])
def test_an_editable_install_imports_the_code_of_the_tree(lab, kind, below, how):
    venv = lab.root / ".venv"
    install_editable(venv, lab.root, kind, below=below)
    assert value_in(lab.root, venv / "bin" / "python", *SAYS) == "good"
    place = lab.tree(**{how: (".venv",) if how == "linked" else (".venv/**",)})
    mine = place.path / ".venv"
    assert value_in(place.path, mine / "bin" / "python", *SAYS) == "broken"
    assert "mypkg is broken" in value_in(place.path, mine / "bin" / "mytool")
    path = f"{mine}/bin:{os.environ['PATH']}"
    assert value_in(place.path, "sh", "-c", "mytool", env={"PATH": path}).startswith("mypkg is broken")
    assert value_in(lab.root, venv / "bin" / "python", *SAYS) == "good"
    url = next(mine.glob("lib/python3*/site-packages/mypkg-0.1.dist-info/direct_url.json"))
    assert f'"{place.path.as_uri()}"' in url.read_text()
    assert str(lab.root) + '"' not in url.read_text()


def test_an_environment_is_no_change_and_a_worker_that_installs_into_it_changes_neither_patch_nor_users(lab):
    (lab.root / ".gitignore").write_text("")
    lab.commit()
    site = install_editable(lab.root / ".venv", lab.root, "setuptools")
    before = sorted(path.name for path in site.iterdir())
    place = lab.tree(linked=(".venv",))
    mine = place.path / site.relative_to(lab.root)
    (mine / "new.py").write_text("installed by the worker\n")
    (mine / "__editable__.mypkg-0.1.pth").write_text("/nowhere\n")
    found = lab.checker.look(place, CAP)
    assert [change.path for change in found.changes] == ["mypkg/__init__.py", "src/mypkg/__init__.py"]
    assert found.ignored == ()
    assert sorted(path.name for path in site.iterdir()) == before
    assert (site / "__editable__.mypkg-0.1.pth").read_text() == f"{lab.root.resolve()}/src\n"


def test_an_environment_without_a_way_into_the_project_stays_a_link(lab):
    site = make_venv(lab.root / ".venv")
    (site / "six.py").write_text('"""See https://x.org/a/b and /usr/lib."""\n')
    place = lab.tree(linked=(".venv",))
    assert (place.path / ".venv").is_symlink()


def test_a_large_table_of_modules_is_read(lab):
    site = install_editable(lab.root / ".venv", lab.root, "setuptools-finder")
    (finder,) = site.glob("__editable___*.py")
    finder.write_text(finder.read_text() + "# x\n" * 100_000)
    place = lab.tree(linked=(".venv",))
    assert value_in(place.path, place.path / ".venv" / "bin" / "python", *SAYS) == "broken"


def test_packages_stay_links_to_the_users_and_many_cost_little(lab):
    site = install_editable(lab.root / ".venv", lab.root, "flit")
    for number in range(500):
        (site / f"package{number}").mkdir()
        (site / f"package{number}" / "__init__.py").touch()
    place = lab.tree(linked=(".venv",))
    mine = place.path / site.relative_to(lab.root)
    assert all((mine / f"package{number}").is_symlink() for number in range(500))
    assert (place.path / ".venv" / "bin" / "python").is_symlink()


def test_a_checkout_that_its_environment_knows_by_another_name_is_found(lab, tmp_path):
    other = tmp_path / "alias"
    other.symlink_to(lab.root)
    install_editable(other / ".venv", other, "alias")
    place = lab.tree(linked=(".venv",))
    assert value_in(place.path, place.path / ".venv" / "bin" / "python", *SAYS) == "broken"
    assert "mypkg is broken" in value_in(place.path, place.path / ".venv" / "bin" / "mytool")


def test_an_environment_that_is_itself_a_link_leads_into_the_tree(lab, tmp_path):
    install_editable(tmp_path / "kept elsewhere", lab.root, "setuptools")
    (lab.root / ".venv").symlink_to(tmp_path / "kept elsewhere")
    place = lab.tree(linked=(".venv",))
    assert value_in(place.path, place.path / ".venv" / "bin" / "python", *SAYS) == "broken"
    found = lab.examine({"PATH": f"{tmp_path}/kept elsewhere/bin:/usr/bin"}, linked=(".venv",))
    path = search_path(f"{tmp_path}/kept elsewhere/bin:/usr/bin", lab.root, place.path, found)
    assert path == f"{place.path}/.venv/bin:/usr/bin"


def test_the_code_of_a_clone_inside_the_checkout_stays_the_users(lab):
    clone = lab.root / "vendor" / "theirs"
    (clone / ".git").mkdir(parents=True)
    (clone / "theirs.py").write_text("VALUE = 1\n")
    site = install_editable(lab.root / ".venv", lab.root, "flit")
    (site / "theirs.pth").write_text(f"{clone}\n")
    (site / "linked.py").symlink_to(clone / "theirs.py")
    place = lab.tree(linked=(".venv",))
    python = place.path / ".venv" / "bin" / "python"
    assert (
        value_in(place.path, python, "-c", "import mypkg, theirs, linked; print(mypkg.VALUE, theirs.VALUE)")
        == "broken 1"
    )


def test_a_script_whose_first_line_is_too_long_for_the_kernel_runs(lab):
    deep = lab.root / ("d" * 120)
    deep.mkdir()
    install_editable(deep / ".venv", lab.root, "flit")
    place = lab.tree(linked=(f"{deep.name}/.venv",))
    tool = place.path / deep.name / ".venv" / "bin" / "mytool"
    assert tool.read_bytes().startswith(b"#!/bin/sh\n")
    assert "mypkg is broken" in value_in(place.path, tool, env={"PATH": "/usr/bin:/bin"})


# Outside of the tree


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("below", ["src", "."])
def test_an_activated_environment_elsewhere_is_overruled_by_the_trees_sources(lab, tmp_path, kind, below):
    venv = tmp_path / "activated"
    install_editable(venv, lab.root, kind, below=below)
    found = lab.examine({"PATH": f"{venv}/bin:/usr/bin"})
    assert (found.sources, found.faults) == ((below,), ())
    place = lab.tree()
    env = {"PYTHONPATH": str(place.path / below)}
    assert value_in(place.path, venv / "bin" / "python", *SAYS) == "good"
    assert value_in(place.path, venv / "bin" / "python", *SAYS, env=env) == "broken"


def test_what_no_search_path_can_overrule_is_a_fault(lab, tmp_path):
    venv = tmp_path / "activated"
    site = make_venv(venv)
    source = lab.root.resolve() / "src" / "mypkg" / "__init__.py"
    text = f"sys.meta_path.insert(0, Finder({{'mypkg': '{source}'}}))\n"
    (site / "_mypkg_editable.py").write_text(text)
    found = lab.examine({"PATH": f"{venv}/bin"})
    assert found.faults == (f"{site}/_mypkg_editable.py imports from your checkout",)
    assert found.doubt == found.faults[0]
    (site / "_mypkg_editable.py").write_text(f"MAPPING = {{'other': '{source.parent}'}}\n")
    assert len(lab.examine({"PATH": f"{venv}/bin"}).faults) == 1
    assert lab.examine({"PATH": "/usr/bin"}) == type(found)()


def test_an_environment_in_the_tree_needs_no_search_path_and_names_its_folders(lab):
    install_editable(lab.root / ".venv", lab.root, "setuptools-finder")
    environ = {"PATH": f"{lab.root}/.venv/bin:{lab.root}/nothing:/usr/bin"}
    found = lab.examine(environ, linked=(".venv",))
    assert (found.sources, found.faults) == ((), ())
    real = os.path.realpath(sys.executable)
    assert found.folders[0] == (lab.root / ".venv").resolve()
    assert any(real.startswith(f"{folder}/") for folder in found.folders)
    assert lab.examine(environ, copied=(".venv/**",)).sources == ()
    assert lab.examine(environ).sources == ("src",)
    place = lab.tree(linked=(".venv",))
    path = search_path(environ["PATH"], lab.root, place.path, found)
    assert path == f"{place.path}/.venv/bin:{lab.root}/nothing:/usr/bin"


# Node


def package(folder, name, text="", **more):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text(f'{{"name": "{name}", "main": "i.js"{more.get("front", "")}}}')
    (folder / "i.js").write_text(text)


def workspace(lab, link="../../packages/core"):
    """Make what `npm install` makes of a workspace: links to its packages, third ones beside them."""
    package(lab.root / "packages" / "core", "@me/core", "module.exports = 'good'\n")
    (lab.root / "app.js").write_text("console.log(require('@me/core'), require('left'))\n")
    lab.commit()
    modules = lab.root / "node_modules"
    package(modules / "left", "left", "module.exports = 'left'\n")
    (modules / "@me").mkdir()
    (modules / "@me" / "core").symlink_to(link.format(root=lab.root))
    (modules / ".bin").mkdir()
    (modules / ".bin" / "core").symlink_to("../@me/core/i.js")
    (modules / ".bin" / "left").symlink_to("../left/i.js")
    (modules / ".cache").mkdir()
    return modules


@pytest.mark.skipif(NODE is None, reason="needs node")
@pytest.mark.parametrize("link", ["../../packages/core", "{root}/packages/core"])
@pytest.mark.parametrize("how", ["linked", "copied"])
def test_a_workspace_link_leads_to_the_package_of_the_tree(lab, link, how):
    workspace(lab, link)
    place = lab.tree(**{how: ("node_modules",) if how == "linked" else ("node_modules/**",)})
    (place.path / "packages" / "core" / "i.js").write_text("module.exports = 'broken'\n")
    assert value_in(place.path, NODE, place.path / "app.js") == "broken left"
    assert value_in(lab.root, NODE, lab.root / "app.js") == "good left"
    real = os.path.realpath(place.path / "node_modules" / ".bin" / "core")
    assert real == str(place.path / "packages" / "core" / "i.js")
    changes = [change.path for change in lab.checker.look(place, CAP).changes]
    assert changes == ["mypkg/__init__.py", "packages/core/i.js", "src/mypkg/__init__.py"]


def test_third_packages_stay_links_and_a_folder_of_them_alone_is_one(lab):
    modules = workspace(lab)
    place = lab.tree(linked=("node_modules",))
    assert (place.path / "node_modules" / "left").readlink() == modules / "left"
    assert not (place.path / "node_modules" / ".cache").exists()
    (modules / "@me" / "core").unlink()
    (modules / ".bin" / "core").unlink()
    place = lab.tree("W-2", linked=("node_modules",))
    assert (place.path / "node_modules").is_symlink()


@pytest.mark.skipif(NODE is None, reason="needs node")
def test_a_package_of_a_pnpm_workspace_finds_its_store_and_its_neighbours(lab):
    package(lab.root / "packages" / "core", "core", "module.exports = 'good'\n")
    package(lab.root / "packages" / "app", "app", "console.log(require('core'), require('left'))\n")
    lab.commit()
    store = lab.root / "node_modules" / ".pnpm" / "left@1.0.0" / "node_modules" / "left"
    package(store, "left", "module.exports = 'left'\n")
    mine = lab.root / "packages" / "app" / "node_modules"
    mine.mkdir()
    (mine / "core").symlink_to("../../core")
    (mine / "left").symlink_to("../../../node_modules/.pnpm/left@1.0.0/node_modules/left")
    for number, linked in enumerate(
        (("packages/*/node_modules", "node_modules"), ("packages/*/node_modules",))
    ):
        place = lab.tree(f"W-{number}", linked=linked)
        (place.path / "packages" / "core" / "i.js").write_text("module.exports = 'broken'\n")
        assert value_in(place.path, NODE, place.path / "packages" / "app" / "i.js") == "broken left"


def test_a_third_package_that_loads_one_of_the_project_is_a_fault(lab):
    modules = workspace(lab)
    package(modules / "plugin", "plugin", front=', "peerDependencies": {"@me/core": "*"}')
    found = lab.examine(linked=("node_modules",))
    assert found.faults == ("node_modules/plugin loads @me/core from your checkout",)
    stored = modules / ".pnpm" / "plugin@1.0.0_core" / "node_modules"
    stored.mkdir(parents=True)
    (stored / "core").symlink_to(lab.root / "packages" / "core")
    assert len(lab.examine(linked=("node_modules",)).faults) == 2


def test_a_file_that_finds_packages_by_its_own_path_is_copied(lab):
    (lab.root / ".gitignore").write_text(".pnp.cjs\n")
    lab.commit()
    (lab.root / ".pnp.cjs").write_text("// generated\n")
    place = lab.tree(linked=(".pnp.cjs",))
    assert not (place.path / ".pnp.cjs").is_symlink()


def test_trees_share_their_links_and_each_loses_only_its_own(lab):
    site = install_editable(lab.root / ".venv", lab.root, "flit")
    (site / "package").mkdir()
    first, second = (lab.tree(f"W-{n}", linked=(".venv",)) for n in (1, 2))
    mine, others = (place.path / site.relative_to(lab.root) / "package" for place in (first, second))
    assert mine.lstat().st_ino == others.lstat().st_ino
    mine.unlink()
    mine.symlink_to("elsewhere")
    assert others.readlink() == site / "package"
    assert lab.checker.look(second, CAP).ignored == ()
