# Everything runs in .venv. It is created on first use and updated when the pinned versions change.
PYTHON ?= python3
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help install lock demo serve test test-gpu test-browser test-real test-all check format docs bench clean

help:  ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:[^#]*## /\t/' | expand -t 12

install: .venv/installed  ## Create .venv with the pinned versions

.venv/installed: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "drpn needs Python 3.11 or newer; set PYTHON=")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

# pyspark takes 400 MB and only the tests that start Spark need it, so it is not in requirements.lock, which everybody
# installs. These tests are skipped, with a reason, where it cannot be installed.
.venv/spark: .venv/installed requirements-spark.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --requirement requirements-spark.lock \
	  && touch $@ || echo 'pyspark cannot be installed here; the tests that start Spark are skipped'

demo: install  ## Simulate a live site and a noisy newsroom, then train, measure and explain small models; takes minutes
	$(BIN)/drpn demo
	@echo 'Before you type these commands: . $(BIN)/activate'

serve: install  ## After make demo: serve its live site on the next day, with simulated readers; open the address it prints
	@test -f demo/live/drpn-live/bundle/manifest.json || { echo "There is no demo to serve yet. Run: make demo (takes minutes)"; exit 1; }
	$(BIN)/drpn replay demo/live/drpn-live demo/live/logs

check: install  ## Check lint, types (mypy strict), import contracts and, with a network, known vulnerabilities
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python .ci/audit.py requirements.lock

test-gpu: install  ## Run the tests that need a GPU
	$(BIN)/python -m pytest -q -m gpu

test: check  ## Run every check and every test that takes seconds
	$(BIN)/python -m pytest -q -n auto --dist loadfile -m "not slow and not gpu and not real"

test-browser: install  ## Drive the page of the service in Chromium; pictures go to build/pictures
	DRPN_PICTURES=build/pictures $(BIN)/python -m pytest -q -m "browser and not slow" tests/service/page

# two files at a time: most of these tests wait for other programs
test-real: install .venv/spark  ## Run the tests with Spark, PostgreSQL, several workers and killed processes
	$(BIN)/python -m pytest -v -n 2 --dist loadfile --durations 10 -m "real and not slow and not gpu"

test-all: check .venv/spark  ## Run the slow tests too
	DRPN_EXAMPLES=thorough $(BIN)/python -m pytest -q -n auto --dist loadfile -m "not gpu"

bench: install  ## Measure training, evaluation, preparation and growth on this CPU; takes about ten minutes
	$(BIN)/python benchmarks/training.py --device cpu
	$(BIN)/python benchmarks/evaluation.py --device cpu --seconds 5
	$(BIN)/python benchmarks/prepare.py --impressions 100000 400000 --memory 2GB
	$(BIN)/python benchmarks/exponents.py --seconds 3
	@echo "results: build/bench"

lock:  ## Pin the versions of pyproject.toml in requirements.lock, those of Spark in requirements-spark.lock
	rm -rf build/lock && $(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet torch==2.13.0 "setuptools>=77" && build/lock/bin/python -m pip install --quiet ".[dev]"
	build/lock/bin/python -m pip freeze --all --exclude drpn --exclude pip | sed 's/+cpu$$//' > requirements.lock
	build/lock/bin/python -m pip install --quiet --no-build-isolation ".[spark]"
	build/lock/bin/python -m pip freeze --all --exclude drpn --exclude pip | sed 's/+cpu$$//' | grep -vxFf requirements.lock > requirements-spark.lock

format: install  ## Format the code and fix lint
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: install  ## Write docs/commands.md from the help texts
	$(BIN)/python -m drpn.cli.reference docs/commands.md

clean:  ## Remove .venv and all generated files
	rm -rf .venv build demo .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
