# Everything runs in .venv, made on first use with the versions of constraints.txt.

PYTHON ?= python3
BIN := .venv/bin
INSTALL := pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: help demo test torture lint format pictures bench clean
.DEFAULT_GOAL := help

help:  ## what there is to make
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## */  make \1\t/' | expand -t 16

demo: .venv/installed  ## train a Transformer to reverse sequences, and see how it does it
	@rm -rf runs/demo
	@$(BIN)/limelight train reverse --out runs/demo

# One thread a worker: with more, the workers fight over the cores.
test: .venv/installed-dev  ## run all tests
	@echo "test: all tests, on all cores"
	@OMP_NUM_THREADS=1 $(BIN)/pytest -q -n auto -m "not torture"

torture: .venv/installed-dev  ## try the promises of reliability in full: 200 kills, 10,000 broken files
	@echo "torture: takes about ten minutes"
	@OMP_NUM_THREADS=1 $(BIN)/pytest -q -n auto -m torture

lint: .venv/installed-dev  ## check format, lint and types
	@echo "lint: ruff and mypy"
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

format: .venv/installed-dev  ## format the code
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

pictures: .venv/installed-dev  ## make the pictures of the README: real runs in a real browser
	@$(BIN)/python docs/pictures.py

bench: .venv-bench/installed  ## measure this library and its peers side by side
	@echo "bench: contenders take turns in one process; run nothing else meanwhile"
	@.venv-bench/bin/python -m bench $(BENCH)

clean:  ## remove the environments and the demo's run
	rm -rf .venv .venv-bench runs/demo dist

.venv/made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "limelight needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) --version 2>&1)."; \
	  echo "Name a newer one: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "install: making .venv"
	@$(PYTHON) -m venv .venv
	@touch $@

.venv/installed: .venv/made pyproject.toml constraints.txt
	@echo "install: limelight and what it runs on (torch takes a minute)"
	@$(BIN)/$(INSTALL) -e .
	@touch $@

.venv/installed-dev: .venv/installed
	@echo "install: what the tests run on"
	@$(BIN)/$(INSTALL) -e '.[dev]'
	@touch $@

.venv-bench/installed: pyproject.toml constraints.txt bench/peers.txt
	@echo "install: limelight and its peers into .venv-bench"
	@$(PYTHON) -m venv .venv-bench
	@.venv-bench/bin/$(INSTALL) -e . -r bench/peers.txt
	@.venv-bench/bin/$(INSTALL) --no-deps joeynmt==2.3.0  # it asks for an old protobuf, and does not need it
	@touch $@
