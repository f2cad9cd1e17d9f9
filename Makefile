# Two commands do everything on a machine with Python >= 3.10, make and git: `make run` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: run test lint types docs notebooks bench adversary wheel release-check clean

run: $(VENV)/.installed
	$(BIN)/boundcheck check lr --t 200 --out out

test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n auto --dist worksteal

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check boundcheck tests docs examples benchmarks

types: $(VENV)/.installed-dev
	$(BIN)/mypy

# The variable silences a notice that Material for MkDocs prints about its own end in 2027; warnings about pages stay.
docs: $(VENV)/.installed-docs
	$(BIN)/python docs/generate.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

notebooks: $(VENV)/.installed-teach
	@mkdir -p out/notebooks
	@for lesson in examples/[1-9]_*.py; do \
	  $(BIN)/marimo export html --force "$$lesson" --output "out/notebooks/$$(basename "$$lesson" .py).html" || exit 1; \
	  echo "out/notebooks/$$(basename "$$lesson" .py).html"; done

bench: $(VENV)/.installed-bench
	$(BIN)/python benchmarks/bounds.py
	$(BIN)/python benchmarks/curves.py
	$(BIN)/python benchmarks/hypergradient.py
	$(BIN)/python benchmarks/user_speed.py
	$(BIN)/python benchmarks/constants.py
	$(BIN)/python benchmarks/check.py
	$(BIN)/python benchmarks/stochastic.py

# Problems built to make boundcheck say something false, against a truth of 70 digits. A long run goes on where it was:
# `make adversary PROBLEMS=100000 LOG=adversary.log`.
PROBLEMS ?= 2000
SEED     ?= 0
LOG      ?=
adversary: $(VENV)/.installed-dev
	PYTHONPATH=benchmarks OMP_NUM_THREADS=1 $(BIN)/python -m adversary --problems $(PROBLEMS) --seed $(SEED) $(if $(LOG),--log $(LOG))
	PYTHONPATH=benchmarks OMP_NUM_THREADS=1 $(BIN)/python -m adversary.breakages

# The source archive and the wheel, in dist/.
wheel: $(VENV)/.installed-release
	rm -rf dist
	PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m build --sdist --wheel
	$(BIN)/twine check --strict dist/*

# The wheel in an empty environment outside of this folder: contents, commands, extras. It takes a few minutes.
release-check: wheel
	$(BIN)/python .ci/release_check.py dist

clean:
	rm -rf $(VENV) build dist site *.egg-info

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || { \
	  echo "boundcheck needs Python 3.10 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1). Try: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "'$(PYTHON)' cannot create a virtual environment; install its venv module (on Debian: python3-venv)" >&2; exit 1; }

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install --quiet --constraint constraints.txt --editable .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install --quiet --constraint constraints.txt --editable '.[dev,data]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-teach: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install --quiet --constraint constraints.txt --editable '.[teach]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-docs: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install --quiet --constraint constraints.txt --editable '.[docs]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-bench: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install --quiet --constraint constraints.txt --editable '.[data,bench]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-release: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install --quiet --constraint constraints.txt build twine
	@touch $@
