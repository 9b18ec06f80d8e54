# Everything a newcomer or the CI needs. Only Python >= 3.11 and make must be there.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
.DEFAULT_GOAL := help
.PHONY: help setup demo test quick check format bench tables lock clean

help:           ## What can be made
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /make \1|/' | column -t -s '|'

$(STAMP): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Tacit needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1). Say: make PYTHON=python3.12 ..."; exit 1; }
	@echo "Setting up $(VENV) (once; about a minute)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check --requirement requirements.lock
	@$(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

setup: $(STAMP) ## The virtual environment, from the lock file

demo: $(STAMP)  ## Figure 2 of paper 000 in small, three versions of it, and what each really spends: tacit-out/000-quick.png
	@$(BIN)/tacit reproduce 000 --quick

test: $(STAMP)  ## All checks and all tests
	@$(MAKE) --no-print-directory check
	@$(BIN)/python -m pytest -n auto --cov --cov-report=term

quick: $(STAMP) ## The tests but for the slow ones: a minute or two
	@$(BIN)/python -m pytest -n auto -m 'not slow'

check: $(STAMP) ## Format, lint, types, rooms (seconds)
	@$(BIN)/ruff format --check --quiet . || { echo "Not formatted: say 'make format'"; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo 2>/dev/null || $(BIN)/lint-imports

format: $(STAMP) ## Format, and mend what can be mended
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --fix --quiet .

bench: $(STAMP) ## Speed as ratios in one run
	@$(BIN)/python -m benchmarks

tables: $(STAMP) ## Recompute docs/tables: noise of every counter, factors on the bonuses
	@$(BIN)/python scripts/counter_table.py
	@$(BIN)/python scripts/bonus_table.py

lock:           ## Pin the dependencies again (needs uv)
	@uv pip compile --quiet --universal --no-emit-package tacit --no-emit-index-url --python-version 3.11 --extra accounting --extra sepsis --group dev pyproject.toml -o requirements.lock

clean:          ## Remove what was made
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage* build dist tacit-out .import_linter_cache
