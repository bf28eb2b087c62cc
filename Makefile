# Everything sets itself up: a virtual environment in .venv, from nothing but Python 3.11+ and a
# package registry.
VENV   ?= .venv
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-engine test-engine-full test-faults test-browser soak check bench clean

help: ## what there is to make
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

$(VENV)/run.stamp: pyproject.toml
	@test -n "$(PYTHON)" || { echo "sweep needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --upgrade 'pip>=25.1'
	$(PIP) install --editable .
	@touch $@

$(VENV)/dev.stamp: $(VENV)/run.stamp
	$(PIP) install --group dev
	@touch $@

demo: $(VENV)/run.stamp ## the main job on the embedded host: sweep, CSV, table
	$(BIN)/sweep run demo

test: $(VENV)/dev.stamp ## all tests; as root also on real test hosts
	$(BIN)/pytest -n 3 --dist loadfile --no-loadscope-reorder

test-engine: $(VENV)/dev.stamp ## the main job against SGLang itself, on a CPU (sets it up: 3.5 GB)
	SWEEP_ENGINE=short $(BIN)/pytest tests/engine

test-engine-full: $(VENV)/dev.stamp ## the same with every steps value from 0 to 10
	SWEEP_ENGINE=full $(BIN)/pytest tests/engine

test-faults: $(VENV)/dev.stamp ## a sweep disturbed in each way we know, on real test hosts (root)
	SWEEP_FAULTS=short $(BIN)/pytest -n 3 --dist worksteal tests/faults

soak: $(VENV)/dev.stamp ## the same hundreds of times; SWEEP_FAULTS_SEED=2 draws other instants
	SWEEP_FAULTS=long $(BIN)/pytest -n 3 --dist worksteal tests/faults

test-browser: $(VENV)/dev.stamp ## the report in a real browser (Debian's chromium)
	SWEEP_BROWSER=1 $(BIN)/pytest tests/browser

test-all: test check test-engine test-faults test-browser ## everything CI runs

check: $(VENV)/dev.stamp ## ruff, mypy, import-linter
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/dev.stamp ## speed benchmarks; prints ratios, judges nothing
	set -e; for script in tests/bench/*.py; do $(BIN)/python $$script; done

clean: ## the virtual environment and caches; never runs/
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
