"""The fence in `orchestrate.toml`: a word, as in existing files, or a table; and mistakes in either."""

import pytest

from orchestrator.errors import Refusal
from orchestrator.settings.settings import read_settings
from orchestrator.settings.values import FenceSettings


def found(folder, text):
    (folder / "orchestrate.toml").write_text(text)
    return read_settings(folder).fence


@pytest.mark.parametrize(
    ("text", "fence"),
    [
        ("", FenceSettings("auto", ())),
        ('fence = "required"\n', FenceSettings("required", ())),
        ('[fence]\nlevel = "landlock"\n', FenceSettings("landlock", ())),
        ('[fence]\nread = ["~/x", "/y"]\n', FenceSettings("auto", ("~/x", "/y"))),
        ('fence.level = "off"\nfence.read = ["z"]\n[pool]\n', FenceSettings("off", ("z",))),
    ],
)
def test_a_word_and_a_table_mean_the_same(tmp_path, text, fence):
    assert found(tmp_path, text) == fence


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        (
            'x = 1\nfence = "on"\n',
            "orchestrate.toml:2",
            "`fence.level` is 'on': not a word that is known here",
        ),
        ('[fence]\nlevel = "of"\n', "orchestrate.toml:2", "did you mean `off`?"),
        ('[fence]\nreads = ["~"]\n', "orchestrate.toml:2", "did you mean `read`?"),
        ('[fence]\nread = "~"\n', "orchestrate.toml:2", 'write it in brackets: `["..."]`'),
        (
            'fence = "auto"\n[fence]\nread = []\n',
            "orchestrate.toml:2",
            "`fence` is set twice; write `level` below `[fence]` in place of",
        ),
        # As the file of `init` has it.
        (
            'fence = "auto"\nfence.read = []\n',
            "orchestrate.toml:2",
            "`fence` is set twice; write `fence.level` in place of",
        ),
        (
            'fence.level = "auto"\n[fence]\nread = []\n',
            "orchestrate.toml:2",
            "write all its keys as `fence.KEY = ...`, or all below one line `[fence]`",
        ),
        (
            '[checks]\nenv = { "1x" = "a", "HOME" = "b", "GIT_X" = "c" }\n',
            "orchestrate.toml:2",
            "`1x` is not the name of a variable (use letters, digits and `_`), `HOME` is set by",
        ),
    ],
)
def test_a_mistake_is_named_with_its_line(tmp_path, text, place, said):
    with pytest.raises(Refusal) as refused:
        found(tmp_path, text)
    assert any(one.place == place and said in f"{one.what}; {one.do}" for one in refused.value.problems)
