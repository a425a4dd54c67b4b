# Everything runs in a virtual environment of the project's own: `make demo` and `make test` need
# only python3 (3.11 to 3.13) with venv, and a package index.
PYTHON ?= python3
VENV ?= .venv
BENCH_VENV ?= .venv-bench
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test test-slow lint types unit bench docs clean

# A stamp per set of extras: reinstalled when pyproject.toml changes.
$(VENV)/.demo: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' \
		|| { echo "labelgap needs Python 3.11 to 3.13; set PYTHON=/path/to/python3"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) -e '.[demo]'
	touch $@

$(VENV)/.test: $(VENV)/.demo
	$(PIP) -e '.[test]'
	touch $@

$(VENV)/.docs: $(VENV)/.demo
	$(PIP) -e '.[docs]'
	touch $@

demo: $(VENV)/.demo
	$(BIN)/python -m labelgap.demo

# mypy uses one core, so it runs beside the tests.
test: lint
	$(MAKE) -j 2 types unit

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.test
	$(BIN)/mypy

# Two processes share the cores; threads of their own would only get in each other's way. Byte code is kept
# whatever the environment says, or each process that a test starts would compile the library anew.
unit: $(VENV)/.test
	PYTHONDONTWRITEBYTECODE= LABELGAP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

# What takes long, and the property tests with examples drawn anew: run it before a change is called done.
test-slow: $(VENV)/.test
	PYTHONDONTWRITEBYTECODE= HYPOTHESIS_PROFILE=random LABELGAP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 \
		$(BIN)/python -m pytest -n 2 --dist worksteal -m "slow or hypothesis"

# The rivals need older versions of some packages, so they have an environment of their own.
$(BENCH_VENV)/.bench: pyproject.toml
	test -x $(BENCH_VENV)/bin/python || $(PYTHON) -m venv $(BENCH_VENV)
	$(BENCH_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[bench]'
	$(BENCH_VENV)/bin/python -m benchmarks.install_rivals
	touch $@

# Some of it takes long: NAMES="kernels growth" runs these alone, and prints what there is to choose from.
bench: $(BENCH_VENV)/.bench
	$(BENCH_VENV)/bin/python -m benchmarks $(NAMES)
	$(BENCH_VENV)/bin/python -m benchmarks.page

docs: $(VENV)/.docs
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html

clean:
	rm -rf $(VENV) $(BENCH_VENV) .mypy_cache .pytest_cache .ruff_cache build dist docs/_build
