# Each command does its own set-up, so `make demo` or `make test` is all that is needed.
# Needs python3 >= 3.11 with its venv module, and PyPI. Stamps make a second run quick.

PYTHON ?= python3
VENV   ?= .venv
JOBS   ?= 2
SIZE   ?= small
COUNT  ?=
SEED   ?= 0

BIN := $(VENV)/bin
PY  := $(BIN)/python
PIP := $(PY) -m pip install --quiet

export PIP_DISABLE_PIP_VERSION_CHECK = 1
export PIP_ROOT_USER_ACTION = ignore
export PIP_NO_INPUT = 1

.PHONY: help demo check test slow lint fuzz huge bench bench-optimizer bench-optimality \
        bench-cluster bench-cluster-time bench-cluster-faults bench-cluster-planning \
        bench-relational fuzz-comprehensions bench-comprehensions bench-loops bench-tables \
        fuzz-sql bench-sql bench-windows clean

help:
	@echo "make demo   install into $(VENV) and run the demo"
	@echo "make check  in a minute: ruff, mypy, import-linter, and the tests that are quick"
	@echo "make test   what must pass before anything is handed in: the same, and all tests"
	@echo "make slow   measure all tests anew, and write which are too slow for make check"
	@echo "make fuzz   compare random programs with NumPy, kernels and storages checked:"
	@echo "            SIZE=small (100,000), medium (10,000) or large (1,000); COUNT=, SEED=, JOBS="
	@echo "make fuzz-comprehensions  the corpus of comprehensions in every combination of storages,"
	@echo "            and random ones against the interpreter; COUNT=, SEED="
	@echo "make fuzz-sql  compare random SQL queries with DuckDB: COUNT= (5,000), SEED="
	@echo "make huge   measure every operator on every format at extents of 2^27 and 2^40"
	@echo "make bench  install the peers, measure, write benchmarks/results/<date>.md and .json"
	@echo "make bench-optimizer  naive programs beside hand-written ones, torch and DuckDB"
	@echo "make bench-optimality  chosen plans beside the best of all plans of random programs"
	@echo "make bench-comprehensions  comprehensions beside arrays and programs by hand; DATA="
	@echo "make bench-cluster  bytes that plans over sites move, beside the best known algorithms"
	@echo "make bench-loops  loops beside Python, Numba and the array form"
	@echo "make bench-windows  windows and convolutions beside SciPy and PyTorch"
	@echo "make bench-cluster-time  seconds and bytes on four nodes with slow links; needs root"
	@echo "make bench-cluster-faults  twenty runs in which a node is killed"
	@echo "make bench-cluster-planning  seconds to place join groups, and of each task"
	@echo "make bench-tables  tables as labelled tensors and back, beside groupby of pandas"
	@echo "make bench-relational  joins, selections and aggregates beside SciPy, pandas, polars, DuckDB"
	@echo "make bench-tables  tables as labelled tensors and back, beside groupby of pandas"
	@echo "make bench-sql  the matrix product and TPC-H-like queries in SQL, beside DuckDB"
	@echo "make clean  remove $(VENV) and caches"

demo: $(VENV)/.demo
	@$(BIN)/tensorel demo

check: lint
	$(PY) -m pytest -n $(JOBS) --dist loadgroup -m "not slow"

test: lint
	$(PY) -m pytest -n $(JOBS) --dist loadgroup

slow: $(VENV)/.test
	$(PY) tests/slow_tests.py

lint: $(VENV)/.test
	$(PY) -m ruff check .
	$(PY) -m mypy
	$(BIN)/lint-imports --no-logo

fuzz: $(VENV)/.test
	$(PY) tests/fuzz.py --size $(SIZE) --seed $(SEED) --jobs $(JOBS) $(if $(COUNT),--count $(COUNT))

fuzz-comprehensions: $(VENV)/.test
	$(PY) tests/comprehension/fuzz_comprehensions.py 0
	$(PY) tests/comprehension/fuzz_comprehensions.py $(or $(COUNT),2000) $(SEED)

fuzz-sql: $(VENV)/.test
	$(PY) tests/sql/fuzz_sql.py --seed $(SEED) $(if $(COUNT),--count $(COUNT))

bench-sql: $(VENV)/.test
	$(PY) benchmarks/sql/run.py --out benchmarks/results/$(shell date +%F)-sql.md

huge: $(VENV)/.test
	$(PY) tests/engine/huge_extents.py

bench: $(VENV)/.bench
	$(PY) benchmarks/run.py

bench-optimizer: $(VENV)/.optimizer
	$(PY) benchmarks/optimizer/run.py

bench-optimality: $(VENV)/.test
	$(PY) benchmarks/optimality/run.py --jobs $(JOBS) \
	  --out benchmarks/results/$(shell date +%F)-optimality.md

bench-comprehensions: $(VENV)/.bench
	$(PY) benchmarks/comprehensions/run.py $(if $(DATA),--data $(DATA)) \
	  --out benchmarks/results/$(shell date +%F)-comprehensions.md

bench-cluster: $(VENV)/.test
	$(PY) benchmarks/cluster/table.py --out benchmarks/results/$(shell date +%F)-cluster.md

bench-loops: $(VENV)/.loops
	$(PY) benchmarks/loops/run.py --out benchmarks/results/$(shell date +%F)-loops.md

bench-windows: $(VENV)/.optimizer
	$(PY) benchmarks/windows/run.py --out benchmarks/results/$(shell date +%F)-windows.md

bench-cluster-time: $(VENV)/.cluster
	sudo -E env PATH="$$PATH" $(PY) benchmarks/cluster/times.py \
	  --out benchmarks/results/$(shell date +%F)-cluster-time.md

bench-cluster-faults: $(VENV)/.cluster
	$(PY) benchmarks/cluster/faults.py --out benchmarks/results/$(shell date +%F)-cluster-faults.md

bench-cluster-planning: $(VENV)/.cluster
	$(PY) benchmarks/cluster/planning.py \
	  --out benchmarks/results/$(shell date +%F)-cluster-planning.md

bench-tables: $(VENV)/.test
	$(PY) benchmarks/tables/run.py --out benchmarks/results/$(shell date +%F)-tables.md

bench-relational: $(VENV)/.relational
	$(PY) benchmarks/relational/run.py --out benchmarks/results/$(shell date +%F)-relational.md

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

$(VENV)/.cluster: $(VENV)/.base
	$(PIP) --group cluster
	@touch $@

$(VENV)/.bench: $(VENV)/.base
	$(PIP) --group bench
	@touch $@

$(VENV)/.relational: $(VENV)/.base
	$(PIP) --group relational
	@touch $@

$(VENV)/.optimizer: $(VENV)/.base
	$(PIP) --group optimizer
	@touch $@

$(VENV)/.loops: $(VENV)/.base
	$(PIP) --group loops
	@touch $@

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache build dist
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
