# Everything runs in a virtual environment of the project's own: `make demo` and `make test` need
# only python3 (3.11 to 3.13) with venv, and a package index.
PYTHON ?= python3
VENV ?= .venv
BENCH_VENV ?= .venv-bench
TORCH_VENV ?= .venv-torch
LOWEST_VENV ?= .venv-lowest
# What make test-torch installs: gigabytes, where the index has wheels for a GPU.
TORCH ?= torch==2.13.0 triton
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Two processes share the cores; threads of their own would only get in each other's way. Byte code is kept
# whatever the environment says, or each process that a test starts would compile the library anew.
ALONE := PYTHONDONTWRITEBYTECODE= LABELGAP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
PYTEST := -m pytest -n 2 --dist worksteal

.NOTPARALLEL:
.PHONY: demo test test-slow test-docs test-torch test-lowest lint types kernels unit coverage mutations bench docs clean

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

# One after the other: what runs beside the tests makes them slower than it is quick itself.
test: lint types unit test-docs

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.test
	$(BIN)/mypy

# What many tests need is compiled once, before two processes would each do it.
kernels: $(VENV)/.test
	$(ALONE) $(BIN)/python -m tests.compile_kernels

unit: kernels
	$(ALONE) $(BIN)/python $(PYTEST) --ignore=tests/docs

# How good the tests are: what they run, and which small mistakes they notice. Both take long.
coverage: kernels
	$(ALONE) $(BIN)/python $(PYTEST) --cov --cov-report=term --durations=30

mutations: kernels
	$(ALONE) $(BIN)/python -m tests.mutations

# What the documents show: every block of code and of commands, every example, the site.
test-docs: kernels
	$(ALONE) $(BIN)/python $(PYTEST) tests/docs

# What takes long, and the property tests with examples drawn anew: run it before a change is called done.
test-slow: $(VENV)/.test
	$(ALONE) HYPOTHESIS_PROFILE=random $(BIN)/python $(PYTEST) -m "slow or hypothesis"

# An environment with torch alone, which reads everything else from the other one.
$(TORCH_VENV)/.torch: $(VENV)/.test
	test -x $(TORCH_VENV)/bin/python || $(PYTHON) -m venv $(TORCH_VENV)
	echo "import site; site.addsitedir('$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')')" \
		> "$$($(TORCH_VENV)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/rest.pth"
	$(TORCH_VENV)/bin/python -m pip install --quiet --disable-pip-version-check $(TORCH) \
		|| { echo "$(TORCH) could not be installed here; name what can: make test-torch TORCH=torch==..."; exit 1; }
	touch $@

test-torch: $(TORCH_VENV)/.torch
	$(ALONE) $(TORCH_VENV)/bin/python $(PYTEST) -m "torch and not slow"

# The lowest versions that pyproject.toml allows. numba throws away what another version of it compiled.
$(LOWEST_VENV)/.lowest: pyproject.toml tests/lowest_versions.py
	test -x $(LOWEST_VENV)/bin/python || $(PYTHON) -m venv $(LOWEST_VENV)
	$(LOWEST_VENV)/bin/python -m pip install --quiet --disable-pip-version-check \
		-e . pytest pytest-xdist hypothesis $$($(PYTHON) -m tests.lowest_versions)
	touch $@

LOWEST_TESTS := tests/test_core.py tests/test_public_api.py tests/thresholds tests/metrics tests/decisions
test-lowest: $(LOWEST_VENV)/.lowest
	$(ALONE) NUMBA_CACHE_DIR=$(LOWEST_VENV)/kernels $(LOWEST_VENV)/bin/python $(PYTEST) $(LOWEST_TESTS)

# The rivals need older versions of some packages, so they have an environment of their own.
$(BENCH_VENV)/.bench: pyproject.toml
	test -x $(BENCH_VENV)/bin/python || $(PYTHON) -m venv $(BENCH_VENV)
	$(BENCH_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[bench]'
	$(BENCH_VENV)/bin/python -m benchmarks.install_rivals
	touch $@

# Some of it takes long: NAMES="kernels lists" runs these alone, and prints what there is to choose from.
bench: $(BENCH_VENV)/.bench
	$(BENCH_VENV)/bin/python -m benchmarks $(NAMES)
	$(BENCH_VENV)/bin/python -m benchmarks.page

docs: $(VENV)/.docs
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html

clean:
	rm -rf $(VENV) $(BENCH_VENV) $(TORCH_VENV) $(LOWEST_VENV) .mypy_cache .pytest_cache .ruff_cache build dist docs/_build
