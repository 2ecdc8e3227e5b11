# `make demo` and `make test` set up everything they need in .venv; nothing is installed by hand.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test test-slow lint format docs bench release-check hooks clean

demo: $(VENV)/.core
	$(BIN)/rasf demo

test: $(VENV)/.dev lint docs
	$(BIN)/python -m pytest -n auto --dist loadfile

test-slow: $(VENV)/.dev
	$(BIN)/python -m pytest -m slow

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.dev
	$(BIN)/zensical build --clean --strict

bench: $(VENV)/.dev
	$(BIN)/python lab/benchmarks/planning.py
	$(BIN)/python lab/benchmarks/four_room.py
	$(BIN)/python lab/benchmarks/acting.py
	$(BIN)/python lab/benchmarks/acting_deep.py
	$(BIN)/python lab/benchmarks/storage.py
	$(INSTALL) -e '.[bench]'
	$(BIN)/python lab/benchmarks/deep.py

# wheel and sdist, tried in empty environments; PYTHONS="/a/python3.12 .." names the Pythons, else they are looked for
release-check: $(VENV)/.core
	$(INSTALL) -e '.[release]'
	$(BIN)/python .ci/release_check.py $(PYTHONS)

hooks: $(VENV)/.dev
	$(BIN)/pre-commit install

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "rasf needs Python 3.11 or newer; set PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -m venv $(VENV) >/dev/null 2>&1 \
	  || { rm -rf $(VENV); echo "Python's venv module is missing; install it (Debian: apt-get install python3-venv)"; exit 1; }

$(VENV)/.core: $(VENV)/bin/python pyproject.toml constraints.txt
	$(INSTALL) -e .
	@touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml constraints.txt
	$(INSTALL) -e '.[dev,docs,explorer,minari,mo,mujoco,ray,suite,sweep,tensorboard]'
	@touch $@ $(VENV)/.core

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .cache build dist site
