# Countersign: `make run` starts the whole product, `make test` proves it. Neither needs anything
# but a working Python (or uv); see `make help`.

PORT ?= 8000
DATA_DIR ?= .data
DEMO ?= 1
# Test processes (0: none beside the first), and more words for pytest: make test ARGS="-k ledger"
WORKERS ?= auto
ARGS ?=

python := .venv/bin/python
export DATA_DIR

.DEFAULT_GOAL := help
.PHONY: help setup run test check bench lab lock clean

help:  ## list these targets
	@sed -n 's/^\([a-z]*\):.*## /make \1|/p' Makefile | awk -F'|' '{ printf "%-12s %s\n", $$1, $$2 }'

setup:  ## make .venv from the lock; quick when nothing changed
	@sh console/runner/bootstrap.sh

run: setup  ## start everything in DATA_DIR and serve it on PORT; DEMO=0 starts empty
	@exec $(python) -m console.runner --die-with-parent --port "$(PORT)" --data-dir "$(DATA_DIR)" --demo "$(DEMO)"

test: setup  ## every test, browser and crash tests included
	@$(python) -m pytest -n "$(WORKERS)" $(ARGS)

check: setup  ## lint, format, types, imports, templates, migrations, settings
	@$(python) -m console.runner.check

bench: setup  ## measure the speed goals into bench/results.json
	@$(python) -m bench

lab: setup  ## the crash lab: kill the product at every window and count the effects
	@test -e crashlab/__main__.py || { echo "make lab comes with the crash lab issue"; exit 1; }
	@$(python) -m crashlab

lock_with := .venv/bin/uv pip compile --quiet --universal --python-version 3.12 --no-python-downloads \
	--generate-hashes --no-annotate --no-header

lock:  ## resolve requirements.in anew; the image's lock is a part of the whole one
	@$(lock_with) --upgrade requirements.in -o requirements.lock
	@sed '/^# ---- not in the production image/,$$d' requirements.in \
		| $(lock_with) --constraint requirements.lock - -o requirements-runtime.lock

clean:  ## remove what the other targets made, except DATA_DIR
	rm -rf .venv .uv .browser .mypy_cache .ruff_cache .import_linter_cache .pytest_cache .hypothesis .coverage htmlcov
