# make book      build the site (sets everything up on a machine with nothing but Python)
# make serve     build it and serve it on this machine
# make lab       open the notebooks in JupyterLab
# make test      run the unit tests
# make export    write kcm_lite/ from the notebooks
# make clean     remove what was built; make clean-all removes the environment too

PYTHON ?= python3
PORT ?= 8000
VENV := .venv
BIN := $(VENV)/bin

.PHONY: book serve lab test export clean clean-all
.DELETE_ON_ERROR:

book: $(VENV)/book-ready
	$(BIN)/jupyter-book build . -W -n --keep-going
	@echo; echo "The book is ready. Open $(CURDIR)/_build/html/index.html, or run: make serve"

serve: book
	@echo "Serving on http://127.0.0.1:$(PORT)/ (stop with Ctrl-C)"
	@$(BIN)/python -m http.server $(PORT) --bind 127.0.0.1 --directory _build/html

lab: $(VENV)/dev-ready
	$(BIN)/jupyter lab --notebook-dir=book

test: $(VENV)/dev-ready
	$(BIN)/pytest -q -m "not book"

export: $(VENV)/dev-ready
	$(BIN)/python tools/tangle.py

clean:
	rm -rf _build build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

clean-all: clean
	rm -rf $(VENV)

# Debian keeps venv in a package of its own; as root, fetch it.
$(BIN)/python:
	$(PYTHON) -m venv $(VENV) || { \
	  test "$$(id -u)" = 0 && apt-get update -qq && apt-get install -y -qq python3-venv && \
	  $(PYTHON) -m venv --clear $(VENV); }

$(VENV)/book-ready: requirements.txt pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install -q --disable-pip-version-check -r requirements.txt
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps -e .
	@touch $@

$(VENV)/dev-ready: requirements-dev.txt $(VENV)/book-ready
	$(BIN)/python -m pip install -q --disable-pip-version-check -r requirements-dev.txt
	@touch $@
