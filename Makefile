# make demo and make test are all that a newcomer needs; both set everything up first.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PEERS := $(VENV)/.peers
SITE := $(VENV)/docs

# Software rendering without a display, and a compiler for the native update. Installed where this is Debian or Ubuntu
# and we may; otherwise said. Without them everything runs but images and the fast learner.
DEBIAN_PACKAGES := libegl1 libegl-mesa0 libgl1-mesa-dri libopengl0 g++
define SYSTEM_PACKAGES
if ldconfig -p 2>/dev/null | grep -q libEGL.so.1 && ldconfig -p | grep -q libOpenGL.so.0 && command -v c++ >/dev/null; then :; \
elif command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
  echo "Installing $(DEBIAN_PACKAGES)"; \
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(DEBIAN_PACKAGES) >/dev/null \
    || echo "That failed. Rendering or the native learner may be missing: robo-rl doctor says which."; \
else \
  echo "Missing system packages. On Debian or Ubuntu: sudo apt-get install $(DEBIAN_PACKAGES)"; \
fi
endef

# For tests of pages in a real browser; where it is not there they are skipped and say so.
BROWSER_PACKAGES := chromium chromium-driver
define BROWSER
if command -v chromium >/dev/null && command -v chromedriver >/dev/null; then :; \
elif command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
  echo "Installing $(BROWSER_PACKAGES)"; \
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(BROWSER_PACKAGES) >/dev/null \
    || echo "That failed: tests of pages in a browser are skipped."; \
else \
  echo "Tests of pages in a browser are skipped. On Debian: sudo apt-get install $(BROWSER_PACKAGES)"; \
fi
endef

# What RLtools multiplies with, in the benchmark of updates; without it, with loops of its own.
define BLAS
if ldconfig -p 2>/dev/null | grep -q libopenblas.so; then :; \
elif command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends libopenblas-dev >/dev/null \
    || echo "OpenBLAS was not installed: RLtools is slower without it."; \
else \
  echo "RLtools is slower without OpenBLAS. On Debian: sudo apt-get install libopenblas-dev"; \
fi
endef

.PHONY: help demo test lint bench soak table docs clean setup

help:
	@echo "make demo    set up, train a simulated arm to push a cube, show the result (under 15 minutes on 2 cores)"
	@echo "make test    set up, run all tests"
	@echo "make lint    ruff and mypy --strict"
	@echo "make bench   speed of the learner and the replay, side by side with other ways to do it"
	@echo "make soak    half an hour of kills, stops, cut connections and full disks; MINUTES=5: fewer"
	@echo "make table   the learning results of docs/measured/results.md, all seeds (hours)"
	@echo "make docs    the documentation as a site with search, in build/site"
	@echo "make clean   remove the environment and everything that was built"

setup: $(READY)

# torch first and pinned: an unpinned torch may pull gigabytes of CUDA.
$(READY): pyproject.toml constraints.txt
	@$(SYSTEM_PACKAGES)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; $(PYTHON) is $$($(PYTHON) --version). Try: make PYTHON=python3.12 ..."; exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV) || \
	  { echo "No virtual environment could be made. On Debian: apt-get install python3-venv"; exit 1; }
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt torch
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@$(BIN)/robo-rl doctor >/dev/null || true  # compiles the native update, which the first run would wait for
	@touch $@

demo: $(READY)
	@$(BIN)/robo-rl train task=push_cube seed=8 demonstrations.episodes=12 agent.update_to_data=10 \
	  agent.precision=float32 run.dir=runs/demo run.overwrite=true run.evaluation_episodes=100 \
	  run.evaluation_interval=500 run.stop_at_success_rate=0.95

# Tests of times to rest run first and alone: other work on the machine would be measured as the robot's delay.
TIMED := tests/fault/test_watchdog.py

# Half again as many as cores: tests of robots and time-outs wait nearly half of their time.
WORKERS ?= $(shell echo $$(( ($$(nproc) * 3 + 1) / 2 )))

# With bytecode even if the environment forbids it: each of some hundred processes would compile the platform anew.
test: export PYTHONDONTWRITEBYTECODE =
test: $(READY)
	@$(BROWSER)
	$(BIN)/python -m pytest $(TIMED) -n 0
	$(BIN)/python -m pytest tests -n $(WORKERS) --dist worksteal --ignore $(TIMED)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@bash tests/lint_tree.sh
	$(BIN)/mypy

# What the benchmark compares with. Where it cannot be installed the rows say so, and ours are measured all the same.
$(PEERS): $(READY)
	@$(BLAS)
	@$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e '.[bench]' && \
	  $(BIN)/pip install -q --disable-pip-version-check --no-deps lerobot==0.3.2 && touch $@ || \
	  echo "Stable-Baselines3, SBX, JAX, RLtools or LeRobot were not installed; the benchmark goes on without them."

# The learner beside others first; one benchmark that fails keeps no other from being run.
LEARNER := $(patsubst %,benchmarks/bench_%.py,update replay simulation pixels)
bench: $(PEERS)
	@failed=; for file in $(LEARNER) $(filter-out $(LEARNER),$(wildcard benchmarks/bench_*.py)); do \
	  echo "== $$file"; $(BIN)/python $$file || failed="$$failed $$file"; done; \
	  test -z "$$failed" || { echo "Failed:$$failed"; exit 1; }

soak: $(READY)
	$(BIN)/python benchmarks/soak.py --minutes $(or $(MINUTES),30) --output docs/measured/results/soak.json

table: $(READY)
	$(BIN)/python benchmarks/learning_table.py

# In an environment of its own: nothing of the platform is needed for it, as docstrings are read without importing it.
$(SITE)/.ready: constraints.txt
	@test -x $(SITE)/bin/pip || $(PYTHON) -m venv $(SITE) || \
	  { echo "No virtual environment could be made. On Debian: apt-get install python3-venv"; exit 1; }
	$(SITE)/bin/pip install -q --disable-pip-version-check -c constraints.txt mkdocs mkdocs-material mkdocs-awesome-nav \
	  'mkdocstrings[python]' mkdocs-jupyter
	@touch $@

docs: $(SITE)/.ready
	@NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build --strict --quiet && \
	  echo "build/site/index.html; with search: $(PYTHON) -m http.server -d build/site --bind 127.0.0.1"

clean:
	rm -rf $(VENV) .lint .cache build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache
