"""What the use of a model costs, how an amount is said, and how limits and prices are written."""

import pytest

from orchestrator.budget.prices import Cost, price_of, priced
from orchestrator.errors import Refusal
from orchestrator.money import dollars, thousands
from orchestrator.settings.settings import read_settings
from orchestrator.settings.values import Price, SpendingLimits
from workers.agents.agent import ModelUse, Usage

PRICES = {
    "gpt-5": Price(2.0, 8.0),
    "gpt-5.1-codex": Price(1.25, 10.0, 0.125),
    "free": Price(0.0, 0.0),
}


@pytest.mark.parametrize(
    ("model", "price"),
    [
        ("gpt-5.1-codex", "gpt-5.1-codex"), ("gpt-5.1-codex-2026-02-01", "gpt-5.1-codex"), ("gpt-5", "gpt-5"),
        ("gpt-5.1", "gpt-5"), ("o5", None), ("gpt", None), (None, None),
    ],
)  # fmt: skip
def test_a_model_has_the_price_of_its_name_or_of_the_longest_one_it_begins_with(model, price):
    assert price_of(model, PRICES) == (PRICES[price] if price else None)


@pytest.mark.parametrize(
    ("usage", "model", "cost"),
    [
        (Usage(1_000_000, 100_000, 400_000), "gpt-5.1-codex", Cost(0.75 + 0.05 + 1.0, "table", 1_100_000)),
        (Usage(1_000_000, 0, 400_000), "gpt-5", Cost(2.0, "table", 1_000_000)),
        (Usage(10, 5, 0, 0.25), "gpt-5", Cost(0.25, "agent", 15)),
        (Usage(10, 5, 0, 0.0), "gpt-5", Cost(0.0, "agent", 15)),
        (Usage(10, 5), "free", Cost(0.0, "table", 15)),
        (Usage(10, 5), "o5", Cost(None, "unpriced", 15)),
        (Usage(10, 5), None, Cost(None, "unpriced", 15)),
        (Usage(10, 5, 0, float("nan")), "o5", Cost(None, "unpriced", 15)),
        (Usage(10, 5, 0, -1.0), "free", Cost(0.0, "table", 15)),
        (Usage(10, 0, 99), "gpt-5", Cost(0.00002, "table", 10)),
        (None, "gpt-5", Cost(None, "unpriced", 0)),
    ],
)  # fmt: skip
def test_a_cost_says_who_priced_it(usage, model, cost):
    found = priced(usage, model, PRICES)
    assert (found.by, found.tokens) == (cost.by, cost.tokens)
    assert found.usd == pytest.approx(cost.usd)


PRO, FLASH = ModelUse("gpt-5", 900, 100, 0), ModelUse("gpt-5.1-codex", 100, 0, 100)


@pytest.mark.parametrize(
    ("models", "asked", "usd"),
    [
        ((PRO,), None, 0.0018 + 0.0008 + 0.0002),
        ((PRO, FLASH), None, 0.0018 + 0.0008 + 0.0000125),
        ((PRO, FLASH), "free", 0.0018 + 0.0008 + 0.0000125),
        ((PRO, ModelUse("o5", 100, 0, 100)), None, None),
        ((PRO, ModelUse("o5", 100, 0, 100)), "free", 0.0018 + 0.0008),
        ((PRO, ModelUse("o5")), None, 0.0018 + 0.0008 + 0.0002),
        ((ModelUse("o5"),), None, None),
        ((ModelUse("gpt-5"),), None, 0.002 + 0.0008),
        ((ModelUse(""),), None, None),
    ],
)  # fmt: skip
def test_models_that_the_stream_names_are_priced_each_before_the_one_asked_for(models, asked, usd):
    found = priced(Usage(1000, 100, 100, models=models), asked, PRICES)
    assert (found.by, found.tokens) == ("unpriced" if usd is None else "table", 1100)
    assert found.usd == (None if usd is None else pytest.approx(usd))


@pytest.mark.parametrize(
    ("usd", "said"), [(0, "$0.00"), (1.254, "$1.25"), (0.0045, "$0.0045"), (12.0, "$12.00"), (0.01, "$0.01")]
)
def test_an_amount_says_something_also_below_a_cent(usd, said):
    assert dollars(usd) == said


@pytest.mark.parametrize(
    ("number", "said"), [(0, "0"), (999, "999"), (12_345, "12.3k"), (999_960, "1.0M"), (2_000_000, "2.0M")]
)
def test_a_count_is_short(number, said):
    assert thousands(number) == said


BROKEN = {
    "[budget]\nrun_usd = 0": "orchestrate.toml:2: `budget.run_usd` is 0: too small; write more than 0",
    "[budget]\nrun_usd = '5'":
        "orchestrate.toml:2: `budget.run_usd` is '5': not an amount in USD; write it as 5.00, without quotes",
    "[budget]\nday_usd = inf":
        "orchestrate.toml:2: `budget.day_usd` is inf: too large; write 1_000_000_000_000_000 or less",
    "[budget]\nday_tokens = '2M'":
        "orchestrate.toml:2: `budget.day_tokens` is '2M': not a number of tokens;"
        " write it as 2_000_000, without quotes",
    "[budget]\nrun_token = 5":
        "orchestrate.toml:2: unknown key `budget.run_token`; did you mean `run_tokens`?",
    "prices = 5":
        'orchestrate.toml:1: `prices` is 5: not a table; write one for each model: `[prices."MODEL"]`',
    '[prices."a.b"]\ninput = 1':
        'orchestrate.toml:1: `prices."a.b".output` is missing; write `output = ...` there as well',
    '[prices]\n"a.b" = { input = -1, output = 1 }':
        'orchestrate.toml:2: `prices."a.b".input` is -1: too small; write 0 or more',
    '[prices."a.b"]\ninput = 1\noutput = 2\ncache_input = 3':
        'orchestrate.toml:4: unknown key `prices."a.b".cache_input`; did you mean `cached_input`?',
    "[prices.a.b]\ninput = 1\noutput = 2":
        'orchestrate.toml:1: `prices.a.b` is a table of its own;'
        ' put the whole name of the model in quotes: `[prices."a.b"]`',
}  # fmt: skip


@pytest.mark.parametrize("text", BROKEN)
def test_a_wrong_limit_or_price_is_named_with_its_line(tmp_path, text):
    (tmp_path / "orchestrate.toml").write_text(text)
    with pytest.raises(Refusal) as refusal:
        read_settings(tmp_path)
    assert BROKEN[text] in [str(problem) for problem in refusal.value.problems]


def test_limits_and_prices_are_read(tmp_path):
    text = "[budget]\nrun_usd = 5\nday_tokens = 2_000_000\n[prices]\nm = { input = 1.25, output = 10 }\n"
    (tmp_path / "orchestrate.toml").write_text(text)
    found = read_settings(tmp_path)
    assert found.spending_limits == SpendingLimits(run_usd=5.0, day_tokens=2_000_000)
    assert found.spending_limits.in_words() == "$5.00 a run, 2.0M tokens a day"
    assert found.prices == {"m": Price(1.25, 10.0)}
    (tmp_path / "orchestrate.toml").write_text("")
    assert read_settings(tmp_path).spending_limits.in_words() == "not limited"
