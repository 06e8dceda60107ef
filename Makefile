# make demo and make test are all that a newcomer needs; both set everything up first.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: help demo test lint bench table clean setup

help:
	@echo "make demo    set up, train a simulated arm to pick up a cube, show the result (under 15 minutes on 2 cores)"
	@echo "make test    set up, run all tests"
	@echo "make lint    ruff and mypy --strict"
	@echo "make bench   speed of the learner, replay and simulator; writes JSON to runs/bench"
	@echo "make table   the learning results of the README, all seeds (hours); writes docs/results"
	@echo "make clean   remove the environment and everything that was built"

setup: $(READY)

# torch first and pinned: an unpinned torch may pull gigabytes of CUDA.
$(READY): pyproject.toml constraints.txt launch/setup.sh
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; $(PYTHON) is $$($(PYTHON) --version). Try: make PYTHON=python3.12 ..."; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
	  { echo "No virtual environment could be made. On Debian: apt-get install python3-venv"; exit 1; }
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt torch
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@bash launch/setup.sh $(BIN)/python
	@touch $@

demo: $(READY)
	@$(BIN)/robo-rl train task=pick_cube run.dir=runs/demo run.overwrite=true run.stop_at_success_rate=1.0
	@$(BIN)/robo-rl report 'runs=[runs/demo]' output=runs/demo/report.html
	@$(BIN)/python -m robo_rl.commands.demo runs/demo

test: $(READY)
	$(BIN)/python -m pytest tests

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@bash tests/lint_tree.sh
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python -m tests.benchmarks --output runs/bench

table: $(READY)
	$(BIN)/python tests/benchmarks/learning_table.py

clean:
	rm -rf $(VENV) .lint build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache
