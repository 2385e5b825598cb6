# Every target makes the local environment .venv once and reuses it until pyproject.toml changes.
PYTHON ?= python3
BIN := .venv/bin
QUICK ?=

.PHONY: demo test test-slow lint bench clean

demo: .venv/demo.stamp
	$(BIN)/corrtensor demo

test: lint
	$(BIN)/python -m pytest -q -n 2

test-slow: .venv/test.stamp
	$(BIN)/python -m pytest -q -m slow

lint: .venv/test.stamp
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --quiet --check .
	$(BIN)/mypy

bench: .venv/test.stamp
	$(BIN)/corrtensor bench $(if $(QUICK),--quick)

.venv/demo.stamp: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable '.[demo]'
	touch $@

.venv/test.stamp: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	touch .venv/demo.stamp $@

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache
