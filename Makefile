# Everything a newcomer needs: `make drill`, then `make test`. Only Python >= 3.11 and make are
# expected; what is installed goes into .venv and nowhere else.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
JOBS ?= $(shell nproc)
# Extra words for pip, such as an index that serves CPU builds of torch.
PIP_ARGS ?=

.PHONY: help venv drill test lint format docs clean

help:
	@echo "make drill   play a full incident on real text (about two minutes on two idle cores)"
	@echo "make test    run the whole test suite"
	@echo "make lint    ruff, formatting and mypy strict"
	@echo "make docs    write docs/cli.md from the commands' help"
	@echo "make clean   remove .venv and what tools left behind"

venv: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "error: Python 3.11 or newer is needed: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_ARGS) \
		-c constraints.txt -e '.[dev]'
	@touch $@

drill: $(STAMP)
	$(BIN)/shardward drill $(ARGS)

test: $(STAMP)
	$(BIN)/python -m pytest -n $(JOBS) $(ARGS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(STAMP)
	$(BIN)/python tests/helpers_cli_docs.py

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist *.egg-info
