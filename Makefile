# Two commands on a bare machine with python3, pip and make: `make demo` and `make test`.
PYTHON ?= python3
CONSTRAINTS ?= constraints.txt
VENV   ?= .venv
BIN    := $(VENV)/bin
OK     := $(VENV)/.installed
DOCS   := $(VENV)/.docs

.PHONY: demo test test-quick test-slow test-gpu test-break test-lowest test-faults check format docs lock wheel help

help:
	@echo "make demo       compare nine methods on unalike digits, about a minute"
	@echo "make test       lint, types and the default tests, under ten minutes on two cores"
	@echo "make test-quick parts, tasks and the engine in about a minute, for the inner loop"
	@echo "make test-slow  trained results on real data (set UNALIKE_DATA), about half an hour"
	@echo "make test-gpu   the tests that need a CUDA device"
	@echo "make test-break inputs, folders and code that try to break it, about twenty minutes"
	@echo "make test-faults a hundred faults of deployed runs, about ten minutes"
	@echo "make docs       the documentation site, in site/"

$(OK): pyproject.toml $(CONSTRAINTS)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q -c $(CONSTRAINTS) -e '.[dev]'
	touch $@

$(DOCS): $(OK)
	$(BIN)/python -m pip install -q -c $(CONSTRAINTS) -e '.[docs]'
	touch $@

demo: $(OK)
	$(BIN)/unalike compare quickstart $(ARGS)

test: check
	$(BIN)/python -m pytest -n 2 $(ARGS)

# Parts, tasks, the engine's own pieces and some oracles: what a change most often breaks.
QUICK := tests/parts tests/metrics tests/tasks tests/test_tree.py tests/test_rng.py tests/test_batches.py \
	tests/test_folds.py tests/test_layers.py tests/algorithms/test_scalar_oracles.py \
	tests/algorithms/test_scaffold.py $(addprefix tests/engine/,client/test_states.py graph/test_combine.py \
	server/test_guard.py traffic/test_ledger.py)
test-quick: $(OK)
	$(BIN)/python -m pytest -n 2 $(QUICK) $(ARGS)

test-slow: $(OK)
	$(BIN)/python -m pytest -m slow $(ARGS)

test-gpu: $(OK)
	$(BIN)/python -m pytest -m gpu $(ARGS)

test-break: $(OK)
	$(BIN)/python -m pytest -m breaking tests/breaking $(ARGS)

test-faults: $(OK)
	$(BIN)/python -m pytest -m faults tests/deploy $(ARGS)

check: $(OK)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(OK)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(DOCS)
	$(BIN)/zensical build --clean --strict

# The lower end of the bounds, in an environment of its own; Flower asks for more than that.
test-lowest:
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install -q uv
	.venv-lowest/bin/uv pip install -q --python .venv-lowest --resolution lowest-direct -e '.[tests]'
	UNALIKE_FLOWER=none .venv-lowest/bin/python -m pytest -n 2 $(ARGS)

# The versions that are installed, as those to install; run it in an environment that passed. To move
# them up: `make test CONSTRAINTS=/dev/null` in a fresh checkout, and if that passes, `make lock`.
lock: $(OK)
	@echo "# What \`make test\` installs: the upper end of the bounds in pyproject.toml, tested together." > constraints.txt
	@echo "# \`make lock\` writes it from the environment that passed." >> constraints.txt
	$(BIN)/python -m pip list --format=freeze --exclude-editable --exclude pip --exclude setuptools \
		| sed 's/+[a-z0-9]*$$//' >> constraints.txt

# A wheel, and beside it the software bill of materials: every package it runs with, by version.
wheel: $(OK)
	$(BIN)/python -m pip wheel -q --no-deps -w dist .
	$(BIN)/python tools/sbom.py dist
