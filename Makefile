# Everything a newcomer needs: `make demo` shows the whole thing, `make test` proves it.
# The environment is made once, in .venv, from the exact versions in .constraints.txt.

PYTHON ?= python3
VENV   ?= .venv
TESTS  ?= fast
JOBS   ?= 2
PORT   ?= 8000

BIN    := $(VENV)/bin
PY     := $(BIN)/python
SITE   := _build/html
DEMO   := _build/demo
# nbgrader calls alembic, and jupyter-book calls jupyter, by name.
export PATH := $(abspath $(BIN)):$(PATH)
export PIP_DISABLE_PIP_VERSION_CHECK = 1

BOOK_SOURCES   := $(shell find book exercises gradelib solutions -type f -not -path '*/__pycache__/*' -not -path '*/_generated/*')
COURSE_SOURCES := $(shell find exercises gradelib solutions -type f -not -path '*/__pycache__/*')

.DEFAULT_GOAL := help
.PHONY: help demo exercises test site serve check bench estimate clean

help:  ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: $(SITE)/.built $(DEMO)/.done  ## build the site, make a course, grade a sample class, show the marks
	@cat $(DEMO).txt
	@echo "Site: file://$(abspath $(SITE))/index.html   (or: make serve)"

exercises: $(VENV)/.notebook  ## write _build/exercises/: a folder and a zip of each exercise, to work in JupyterLab
	@$(PY) -m gradelib.grading.cli bundle --to _build/exercises
	@echo "Work in one: $(BIN)/jupyter lab _build/exercises/21_number_formats/21_number_formats.ipynb"

test: $(VENV)/.dev $(SITE)/.built  ## run the tests (TESTS=all: slow ones too, nothing skipped)
ifeq ($(TESTS),all)
	ONE_GPU_TESTS=all $(PY) -m pytest -n $(JOBS) --dist loadfile -m "not gpu"
else
	$(PY) -m pytest -n $(JOBS) --dist loadfile -m "not gpu and not slow"
endif

site: $(SITE)/.built  ## build the site into _build/html
	@echo "Site: file://$(abspath $(SITE))/index.html"

serve: $(SITE)/.built  ## serve the site on http://localhost:8000 (PORT=...)
	$(PY) -m http.server --directory $(SITE) --bind 127.0.0.1 $(PORT)

check: $(VENV)/.dev  ## lint and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.dev  ## measure grading against nbgrader, in one run
	$(PY) tests/bench/grading.py --exercise 21_number_formats
	$(PY) tests/bench/grading.py --exercise 43_lora
	$(PY) tests/bench/isolation.py

estimate: $(VENV)/.demo  ## memory, time and energy of one run: make estimate ARGS="gemma3-4b --method lora"
	@$(PY) -m solutions.estimate $(ARGS)

clean:  ## remove what was built (.venv and _build/exercises stay, since you may have worked there: remove them by hand)
	if [ -d _build ]; then find _build -mindepth 1 -maxdepth 1 ! -name exercises -exec rm -rf {} +; fi
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +

$(SITE)/.built: $(VENV)/.demo _config.yml $(BOOK_SOURCES)
	$(BIN)/jupyter-book build book --config _config.yml --path-output . -W -n --keep-going
	@touch $@

$(DEMO)/.done: $(VENV)/.demo $(COURSE_SOURCES)
	@mkdir -p _build
	COLUMNS=120 $(PY) -m solutions.demo $(DEMO) --replace > $(DEMO).txt || { cat $(DEMO).txt; exit 1; }
	@touch $@

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; $(PYTHON) is $$($(PYTHON) --version 2>&1). Name another: make PYTHON=python3.12 ..."; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "Python's venv module is missing. Debian: apt install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# What the demo needs: the book and the course tools, without PyTorch.
$(VENV)/.demo: $(VENV)/bin/python pyproject.toml .constraints.txt
	$(PY) -m pip install --quiet --constraint .constraints.txt --editable '.[book,grade]'
	@touch $@

# What a learner needs: JupyterLab, and what bundles are made with.
$(VENV)/.notebook: $(VENV)/bin/python pyproject.toml .constraints.txt
	$(PY) -m pip install --quiet --constraint .constraints.txt --editable '.[notebook,grade]'
	@touch $@

# What the tests need: everything. PyTorch first, by its exact version, so that a build chosen
# by pip's own settings (a CPU build, say) is kept.
$(VENV)/.dev: $(VENV)/.demo
	$(PY) -m pip install --quiet --constraint .constraints.txt torch
	$(PY) -m pip install --quiet --constraint .constraints.txt --editable '.[dev]'
	@touch $@
