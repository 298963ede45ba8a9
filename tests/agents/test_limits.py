"""The pinned CLIs at a limit: their messages while they run, and after they have given up."""

import pytest

from workers.agents.follow import Follower

pytestmark = pytest.mark.real_cli


RETRIES = {"codex": 0, "claude": 2, "gemini": 1}
"""The scripted provider is asked once by codex, as its settings here demand."""


@pytest.mark.parametrize("name", ["codex", "claude", "gemini"])
@pytest.mark.parametrize(("status", "failure"), [(429, "rate_limited"), (529, "overloaded")])
def test_a_limit_is_told_while_it_is_retried_and_at_the_end(lab, tmp_path, name, status, failure):
    ran = lab.run(name, lab.server.step("fail", status=status, message="no more; retry after 7s"))
    assert (ran.answer.ended, ran.answer.failure) == ("error", failure), ran
    # Codex keeps what the provider says of a 429 to itself.
    assert ran.answer.retry_after == (None if (name, status) == ("codex", 429) else 7), ran
    stdout, stderr = tmp_path / "stdout", tmp_path / "stderr"
    stdout.write_bytes(ran.stdout)
    stderr.write_text(ran.stderr)
    follower = Follower(name, stdout, stderr)
    retries = [said for said in follower.read_more() if said.kind == "retry"]
    assert [said.status for said in retries] == [status] * RETRIES[name]
    assert (follower.throttled is not None) == bool(retries)
