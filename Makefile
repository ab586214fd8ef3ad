# make demo: set up from nothing and run the main job on what ships with the package
# make test: set up from nothing and run the tests
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# What the tests compare verdicts with: official checkers, whose many dependencies are not needed.
CHECKERS := bfcl-eval==2026.3.23 evalplus==0.3.1 tempdir==0.7.1 evalscope==1.14.1

.PHONY: demo test lint bench-demo clean

demo: $(VENV)/.installed
	$(BIN)/lopd-gym run --env envscaler --learner lopd

test: $(VENV)/.installed
	$(BIN)/python -m pytest

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench-demo: $(VENV)/.installed
	$(BIN)/python -m benchmarks.demo

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,gguf,parity]'
	$(BIN)/python -m pip install --quiet --no-deps $(CHECKERS)
	touch $@

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache
