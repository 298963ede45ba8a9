"""What programs are shown of a home: the toolchains that PATH leads to, and nothing that holds a secret."""

import pytest

from workers.fence.places import (
    git_reads,
    named_in,
    program,
    programs_on,
    project_reads,
    resolved,
    tools_above,
)


@pytest.fixture
def home(tmp_path):
    """Make a home, which is reached by a link, as on some systems."""
    (tmp_path / "disk" / "me").mkdir(parents=True)
    (tmp_path / "home").symlink_to("disk/me")
    return tmp_path / "home"


def made(path, text="x"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def shows(found, path):
    """Return whether a path is one of the found ones, or below one, by their real places."""
    real = resolved(path)[0]
    return any(real.is_relative_to(resolved(one)[0]) for one in found)


TOOLCHAINS = {
    "pyenv": (".pyenv/shims", ".pyenv/versions/3.11/lib/python3.11/os.py"),
    "nvm": (".nvm/versions/node/v22/bin", ".nvm/versions/node/v22/lib/node_modules/npm/index.js"),
    "rustup": (".cargo/bin", ".rustup/toolchains/stable/bin/rustc"),
    "asdf": (".asdf/shims", ".asdf/installs/x/bin/x"),
    "mise": (".local/share/mise/shims", ".local/share/mise/installs/x/bin/x"),
    "volta": (".volta/bin", ".volta/tools/image/node/22/bin/node"),
    "conda": ("miniconda3/envs/x/bin", "miniconda3/envs/x/lib/libpython3.so"),
    "go": ("go/bin", "go/pkg/mod/x"),
    "sdkman": (".sdkman/candidates/java/current/bin", ".sdkman/candidates/java/21/lib/modules"),
    "homebrew": ("../linuxbrew/.linuxbrew/bin", "../linuxbrew/.linuxbrew/Cellar/x/1/bin/x"),
}


@pytest.mark.parametrize("name", TOOLCHAINS)
def test_a_toolchain_of_the_home_is_shown_with_all_that_it_needs(home, name):
    folder, needed = TOOLCHAINS[name]
    made(home / needed)
    if name == "sdkman":
        (home / ".sdkman/candidates/java/current").symlink_to("21")
    made(home / folder / "tool")
    assert shows(programs_on(f"/usr/bin:{home / folder}", home), home / needed)


@pytest.mark.parametrize(
    "folder", ["", "bin", ".local/bin", ".local/share/bin", ".claude/bin", ".config/bin"]
)
def test_a_folder_that_holds_all_kinds_of_things_is_not_shown_for_a_program_in_it(home, folder):
    made(home / folder / "tool")
    secrets = [".netrc", ".ssh/id", ".local/share/keyrings/x", ".claude/history", ".config/gh/hosts.yml"]
    found = programs_on(f"{home / folder}", home)
    assert not [secret for secret in secrets if shows(found, made(home / secret))]
    assert shows(found, home / folder / "tool") == (folder != "")


def test_credentials_beside_programs_are_left_out(home):
    made(home / ".cargo/bin/cargo")
    secret, config = made(home / ".cargo/credentials.toml"), made(home / ".cargo/config.toml")
    found = programs_on(str(home / ".cargo/bin"), home)
    assert (shows(found, secret), shows(found, config)) == (False, True)


def test_links_of_a_folder_of_programs_are_followed_to_their_packages_and_on_to_their_python(home):
    python = made(home / ".pyenv/versions/3.11/bin/python3")
    venv = home / ".local/share/pipx/venvs/black"
    made(venv / "bin/black")
    made(venv / "pyvenv.cfg", f"home = {python.parent}\n")
    (home / ".local/bin").mkdir()
    (home / ".local/bin/black").symlink_to("../share/pipx/venvs/black/bin/black")
    found = programs_on(str(home / ".local/bin"), home)
    assert shows(found, venv / "lib")
    assert shows(found, python)
    assert not shows(found, made(home / ".local/share/pipx/other"))


@pytest.mark.parametrize("link", ["bin/tool", "bin", "local"])
def test_where_a_worker_may_write_no_link_is_followed_out(home, link):
    """It could lead anywhere, and the next worker would be shown that."""
    secret = made(home / ".ssh/tool")
    folder = home / ".claude" / "local"
    made(folder / ("bin/x" if "/" in link else "x"))
    place = folder.parent / "local" if link == "local" else folder / link
    if link == "local":
        made(folder / "x").unlink()
        folder.rmdir()
    place.symlink_to(secret if link == "bin/tool" else secret.parent)
    for path in (home / ".claude/local", home / ".claude/local/bin"):
        assert not shows(programs_on(str(path), home), secret)
        assert not shows(program(str(path / "tool"), home), secret)


def test_git_reads_its_settings_with_what_they_include_and_what_it_borrows_but_no_credentials(home, tmp_path):
    common, other = tmp_path / "repo/.git", tmp_path / "other/.git/objects"
    made(common / "config", "[include]\n\tpath = ../team.config\n[other]\n path = ../not.config\n")
    made(common / "objects/info/alternates", f"{other}\n")
    made(other / "pack/x")
    made(home / ".gitconfig", '[includeIf "gitdir:~/work/"]\n  path = ~/dotfiles/work\n')
    made(home / "dotfiles/work", "[include]\npath = more\n")
    shown = [
        home / "dotfiles/more",
        home / ".config/git/ignore",
        tmp_path / "repo/team.config",
        other / "pack/x",
    ]
    secrets = [home / ".config/git/credentials", home / ".git-credentials", tmp_path / "repo/not.config",
               home / "dotfiles/x"]  # fmt: skip
    for path in (*shown, *secrets):
        made(path) if not path.exists() else None
    found = git_reads(home, common)
    assert [path for path in (*shown, home / ".gitconfig", common / "HEAD") if not shows(found, path)] == []
    assert [path for path in secrets if shows(found, path)] == []


def test_of_a_checkout_only_environments_links_and_what_the_settings_name_are_shown(home, tmp_path):
    root = tmp_path / "project"
    shown = [
        root / ".venv/lib/x",
        root / "node_modules/a/x",
        root / "data/x",
        home / "models/x",
        root / "docs/x",
    ]
    secrets = [root / ".env", root / "src/x", home / ".netrc"]
    for path in (*shown, *secrets):
        made(path)
    found = project_reads(root, home, ["data"], ["~/models", "docs"])
    assert [path for path in shown if not shows(found, path)] == []
    assert [path for path in secrets if shows(found, path)] == []


def test_settings_that_tools_find_above_a_tree_are_shown_where_no_name_is_hidden(tmp_path):
    above, root = tmp_path / "work", tmp_path / "work" / "project"
    shown = [
        *(
            root / name
            for name in ("pyproject.toml", "eslint.config.mjs", ".cargo/config.toml", "own.settings")
        ),
        *(
            above / name
            for name in ("tsconfig.base.json", ".editorconfig", "package.json", ".prettierrc.yaml")
        ),
        root / ".taskers" / ".gitignore",
    ]
    closed = [
        *(root / name for name in (".env", ".npmrc", "draft.toml", "AGENTS.md", "tox.ini/x", "src/tox.ini")),
        *(above / name for name in (".npmrc", ".netrc", ".bashrc", "notes.md", ".yarnrc.yml", "x.json")),
    ]
    for path in (*shown, *closed):
        made(path)
    (root / "pytest.ini").symlink_to(above / ".netrc")
    (root / "tracked").symlink_to(above / ".netrc")
    tracked = ["pyproject.toml", "AGENTS.md", "own.settings", "tracked", "pytest.ini", "gone"]
    found = tools_above(root / ".taskers/worktrees/r/w", root, tracked)
    assert {path for path in found if path.is_relative_to(tmp_path)} == set(shown)


def test_a_file_that_a_variable_names_is_shown_and_no_home(home, tmp_path):
    certificates = made(home / "ca.pem")
    environ = {
        "SSL_CERT_FILE": str(certificates),
        "HOME": str(home),
        "ORCHESTRATE_PROJECT": str(tmp_path / "p"),
    }
    assert list(named_in({**environ, "X": "no/path", "Y": str(resolved(home)[0])}, home)) == [certificates]
