"""Real CLIs behind both fences: they work, and neither they nor their tools read the keys of the user."""

import pytest
from support.real_phase import AGENTS, REPORT

pytestmark = [pytest.mark.real_cli, pytest.mark.timeout(300)]
PLANTED = (
    ".ssh/id_ed25519", ".aws/credentials", ".netrc", ".config/gh/hosts.yml", ".npmrc", ".docker/config.json",
    ".kube/config", ".codex/auth.json", ".claude/.credentials.json", ".gemini/oauth_creds.json",
    ".gnupg/secring", ".bash_history",
)  # fmt: skip


@pytest.mark.parametrize("level", ["auto", "landlock"])
def test_three_clis_work_behind_a_fence_and_read_no_key_of_the_home(project, level):
    home, repo = project.lab.user, project.lab.repo
    for path in PLANTED:
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text("sk-planted")
    for name in AGENTS:
        found = f"grep -rs sk-planted {home} > {name}/found; cat {home}/.netrc >> {name}/found"
        own = "cat ~/.git-credentials ~/.config/git/credentials; env | grep -c sk-test-not-real"
        look = project.step("shell", cmd=f"mkdir -p {name}; {found}; ({own}) > {name}/own; git log -1; true")
        write = project.step("write", path=f"{name}/made", text="made\n")
        end = project.step("answer", text=REPORT)
        project.ticket(f"{name}-1", f'mode: write\nowns: ["{name}/**"]', look, write, end)
    settings = repo / "orchestrate.toml"
    settings.write_text(f'fence = "{level}"\n{settings.read_text()}')
    project.commit()
    code, document = project.call("run", "phase-1")
    assert code == 0, document["problems"]
    assert {one["fence"] for one in document["workers"]} == {
        "landlock" if level == "landlock" else "namespaces"
    }
    for name in AGENTS:
        assert (repo / name / "made").read_text() == "made\n"
        assert (repo / name / "found").read_text() == ""
    own = {name: (repo / name / "own").read_text().strip() for name in AGENTS}
    # claude keeps its key from tools only in a mode in which it refuses to run them.
    assert own == {"codex": "0", "claude": "1", "gemini": "0"}
