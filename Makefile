# Two commands do all the set-up: `make demo` and `make test`.
# Needs python3 >= 3.11 with its venv module, and PyPI. Stamps make a second run quick.

PYTHON ?= python3
VENV   ?= .venv
JOBS   ?= 2
FUZZ   ?= 20000

BIN := $(VENV)/bin
PY  := $(BIN)/python
PIP := $(PY) -m pip install --quiet

export PIP_DISABLE_PIP_VERSION_CHECK = 1
export PIP_ROOT_USER_ACTION = ignore
export PIP_NO_INPUT = 1

.PHONY: help demo test lint fuzz bench bench-optimizer bench-optimality clean

help:
	@echo "make demo   install into $(VENV) and run the demo"
	@echo "make test   install the test tools, then ruff, mypy, import-linter, pytest"
	@echo "make fuzz   compare $(FUZZ) random programs with NumPy"
	@echo "make bench  install the peers, measure, write benchmarks/results/<date>.md and .json"
	@echo "make bench-optimizer  naive programs beside hand-written ones, torch and DuckDB"
	@echo "make bench-optimality  chosen plans beside the best of all plans of random programs"
	@echo "make clean  remove $(VENV) and caches"

demo: $(VENV)/.demo
	@$(BIN)/tensorel demo

test: lint
	$(PY) -m pytest -n $(JOBS)

lint: $(VENV)/.test
	$(PY) -m ruff check .
	$(PY) -m mypy
	$(BIN)/lint-imports --no-logo

fuzz: $(VENV)/.test
	$(PY) tests/fuzz.py --count $(FUZZ)

bench: $(VENV)/.bench
	$(PY) benchmarks/run.py

bench-optimizer: $(VENV)/.optimizer
	$(PY) benchmarks/optimizer/run.py

bench-optimality: $(VENV)/.test
	$(PY) benchmarks/optimality/run.py --jobs $(JOBS) \
	  --out benchmarks/results/$(shell date +%F)-optimality.md

# pip's --group, which reads [dependency-groups], needs pip 25.1; Debian's is older.
$(VENV)/.base: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "tensorel needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || \
	  { echo "the venv module is missing; on Debian: apt install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) --upgrade "pip>=25.1"
	$(PIP) --editable .
	@touch $@

$(VENV)/.demo: $(VENV)/.base
	$(PIP) --editable ".[scipy]"
	@touch $@

$(VENV)/.test: $(VENV)/.base
	$(PIP) --group test --group lint
	@touch $@

$(VENV)/.bench: $(VENV)/.base
	$(PIP) --group bench
	@touch $@

$(VENV)/.optimizer: $(VENV)/.base
	$(PIP) --group optimizer
	@touch $@

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache build dist
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
