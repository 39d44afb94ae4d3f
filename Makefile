# Two commands on a bare machine with python3, pip and make: `make demo` and `make test`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
OK     := $(VENV)/.installed
DOCS   := $(VENV)/.docs

.PHONY: demo test test-slow test-gpu check format docs help

help:
	@echo "make demo       compare nine methods on unalike digits, about a minute"
	@echo "make test       lint, types and the default tests, under ten minutes on two cores"
	@echo "make test-slow  trained results on real data (set UNALIKE_DATA), about half an hour"
	@echo "make test-gpu   the tests that need a CUDA device"
	@echo "make docs       the documentation site, in site/"

$(OK): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[dev]'
	touch $@

$(DOCS): $(OK)
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[docs]'
	touch $@

demo: $(OK)
	$(BIN)/unalike compare quickstart $(ARGS)

test: check
	$(BIN)/python -m pytest -n 2 $(ARGS)

test-slow: $(OK)
	$(BIN)/python -m pytest -m slow $(ARGS)

test-gpu: $(OK)
	$(BIN)/python -m pytest -m gpu $(ARGS)

check: $(OK)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(OK)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(DOCS)
	$(BIN)/zensical build --clean --strict
