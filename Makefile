# Every target makes .venv by itself, also on a machine where nothing was installed by hand.

PYTHON ?= python3
AT_ONCE ?= 3
BIN := .venv/bin
AGENTS := tests/agents/node_modules/.package-lock.json

.PHONY: demo test smoke-test lint bench soak agents clean

demo: .venv/package
	rm -rf demo-project
	$(BIN)/orchestrate demo demo-project

# Most tests wait for processes of theirs, so that three at a time suit two processors.
# The first time, two processes compile the tests before three would each compile all of them.
test: .venv/made agents
	@[ -n "$$PYTHONDONTWRITEBYTECODE" ] || [ -d tests/__pycache__ ] || \
		find tests -name 'test_*.py' ! -path '*/node_modules/*' | \
		xargs -n 60 -P 2 $(BIN)/python -m pytest -q --collect-only >/dev/null 2>&1 || true
	$(BIN)/python -m pytest -q -n $(AT_ONCE) --dist worksteal

smoke-test: .venv/made
	$(BIN)/python -m pytest -q tests/orchestrator/demo/test_demo.py

lint: .venv/made
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/made
	$(BIN)/python benchmarks/bench.py

# Half an hour of faults, then each hardening case ten times; docs/soak.md says how to repeat one.
soak: .venv/made agents
	ORCHESTRATE_SOAK=1 $(BIN)/python -m pytest -q tests/scenarios/test_soak.py
	ORCHESTRATE_SOAK=1 $(BIN)/python -m pytest -q -m "soak or hardening" --timeout 1800 \
		--deselect tests/scenarios/test_soak.py

# The real agent CLIs, pinned. Without npm their tests are skipped, and say so.
agents: $(AGENTS)

$(AGENTS): tests/agents/package-lock.json
	@if command -v npm >/dev/null 2>&1; then cd tests/agents && npm ci --no-audit --no-fund; \
	else echo "npm is not installed: tests of the real agent CLIs will be skipped"; fi

# uv where it is there, since it is faster; else what Python brings. `make demo` needs the package alone.
define install
	@if command -v uv >/dev/null 2>&1; then \
		uv venv -q --allow-existing --seed --python $(PYTHON) .venv && uv pip install -q --python $(BIN)/python -e . $(1); \
	else \
		$(PYTHON) -m venv .venv && $(BIN)/python -m pip install -q --upgrade pip && $(BIN)/python -m pip install -q -e . $(1); \
	fi
endef

.venv/package: pyproject.toml
	@echo "installing orchestrate into .venv (once)"
	$(call install,)
	@touch $@

.venv/made: pyproject.toml
	@echo "installing orchestrate and its test tools into .venv (once)"
	$(call install,--group dev)
	@touch .venv/package $@

clean:
	rm -rf .venv demo-project tests/agents/node_modules .pytest_cache .mypy_cache .ruff_cache .hypothesis
