# Everything here needs make and a Python from 3.11 to 3.13, nothing else. `make` alone lists the targets.
# Another Python: make PYTHON=/path/to/python3.12 test

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-relays soak mutants lint types sync-store json-docs client bunker plugins golden docs bench clean

VENV := .venv
BIN := $(VENV)/bin
RELAYS := $(VENV)/relays
RELAY_FILES := tests/contracts/relays
# pip, with its progress on one line of a terminal.
INSTALL := $(BIN)/python scripts/install.py
# One worker more than there are cores, because some tests wait.
WORKERS := $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2) + 1 )))
IN_RANGE := import ensurepip, sys, venv; sys.exit(not (3, 11) <= sys.version_info < (3, 14))
CANDIDATES := python3.13 python3.12 python3.11 python3
PYTHON ?= $(shell for python in $(CANDIDATES); do \
	"$$python" -c '$(IN_RANGE)' >/dev/null 2>&1 && echo "$$python" && break; done)

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1	/p' Makefile

demo: $(VENV)/.installed  ## a memory on a relay of this machine, from first note to recovery; needs no account; OPTIONS=--no-open
	@$(BIN)/python scripts/demo/demo.py $(OPTIONS)

test: lint types  ## lint, types and the whole test suite, as CI runs them
	@$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal

test-relays: $(VENV)/.installed-relays  ## the store against two relays that others wrote; one of them needs node and npm
	@SENSE_MEMORY_TEST_RELAYS=$(CURDIR)/$(RELAYS) $(BIN)/python -m pytest --numprocesses auto tests/contracts

soak: $(VENV)/.installed-test  ## random games of many devices until it is stopped; OPTIONS="--minutes 10 --seed 1"
	@$(BIN)/python -m tests.soak $(OPTIONS)

mutants: $(VENV)/.installed-test  ## plant small defects in a copy and count which the tests notice; OPTIONS="heads --count 40 --seed 1 --minutes 10"
	@$(BIN)/python scripts/mutants.py $(OPTIONS)

lint: $(VENV)/.installed-test  ## ruff: rules and format
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .

types: $(VENV)/.installed-test  ## mypy --strict
	@$(BIN)/mypy

sync-store: $(VENV)/.installed-test  ## write sync_store.pyi anew, after a change of the store or of what it shows
	@$(BIN)/python scripts/generate_sync_store.py

json-docs: $(VENV)/.installed-test  ## write the fields in docs/json.md and docs/openapi.json anew, after a change of a model, its shape or the HTTP API
	@$(BIN)/python -m scripts.generate_json_docs

client: clients/typescript/schema.d.ts  ## the TypeScript client of the HTTP API: its packages, its types, and a check of them; needs node and npm
	@cd clients/typescript && npm run --silent check

plugins: $(VENV)/.installed-test  ## write the plugins and registry manifests anew, after a change of what `install` writes
	@$(BIN)/python -m scripts.generate_plugins

golden: $(VENV)/.installed-test  ## write what commands say anew, after a change of their words; read the difference
	@$(BIN)/python -m pytest tests/interfaces/cli/test_golden.py -n 0 --update-golden

docs: $(VENV)/.installed-docs  ## the pages of docs/ as a site with a search and the API, in build/site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --clean
	@echo "open build/site/index.html"

bench: $(VENV)/.installed  ## speed and memory, each figure beside its floor; OPTIONS="--json --large" for more
	@$(BIN)/python -m scripts.bench $(OPTIONS)

clients/typescript/schema.d.ts: docs/openapi.json clients/typescript/node_modules/.package-lock.json
	@cd clients/typescript && npm run --silent generate >/dev/null && touch schema.d.ts

clients/typescript/node_modules/.package-lock.json: clients/typescript/package-lock.json
	@echo "Installing what the TypeScript client needs (once)"
	@cd clients/typescript && npm ci --silent --no-audit --no-fund && touch node_modules/.package-lock.json

bunker: tests/signers/ndk/node_modules/.package-lock.json  ## the bunker of NDK, with which tests sign; needs node and npm

tests/signers/ndk/node_modules/.package-lock.json: tests/signers/ndk/package-lock.json
	@echo "Installing the bunker for tests (once)"
	@cd tests/signers/ndk && npm ci --silent --no-audit --no-fund --ignore-scripts && touch node_modules/.package-lock.json

clean:  ## remove .venv, caches and builds; memories live elsewhere and are not touched
	@rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist tests/signers/ndk/node_modules clients/typescript/node_modules clients/typescript/schema.d.ts
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.installed: pyproject.toml $(VENV)/pyvenv.cfg
	@echo "Installing sense-memory into $(VENV) (once)"
	@$(INSTALL) --editable '.[mcp,web]'  # what an agent harness and the page in the browser need
	@touch $@

$(VENV)/.installed-test: pyproject.toml $(VENV)/pyvenv.cfg
	@echo "Installing sense-memory and what its tests need into $(VENV) (once)"
	@$(INSTALL) --editable '.[test]'
	@$(BIN)/python -m venv $(VENV)/published  # the earlier package, for the tests of living together
	@$(VENV)/published/bin/python scripts/install.py sense-memory==0.3.1
	@$(INSTALL) --target $(VENV)/mcp1 --upgrade 'mcp>=1.30,<2'  # the SDK's other line, for the tests of both
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-docs: pyproject.toml $(VENV)/pyvenv.cfg
	@echo "Installing what draws the site into $(VENV) (once)"
	@$(INSTALL) --editable '.[docs]'
	@touch $@

$(VENV)/.installed-relays: $(VENV)/.installed-test $(wildcard $(RELAY_FILES)/*/*)
	@echo "Installing two relays into $(RELAYS) (once; the relay from npm is compiled, which takes a minute)"
	@rm -rf $(RELAYS) && $(BIN)/python -m venv $(RELAYS)/python
	@$(RELAYS)/python/bin/python scripts/install.py -r $(RELAY_FILES)/python/requirements.txt
	@if command -v node >/dev/null && command -v npm >/dev/null; then \
	  cp -r $(RELAY_FILES)/node $(RELAYS)/node && \
	  cd $(RELAYS)/node && npm ci --silent --no-audit --no-fund; \
	else \
	  echo "node or npm is missing: the relay from npm is left out" >&2; \
	fi
	@touch $@

$(VENV)/pyvenv.cfg:
	@if ! "$(PYTHON)" -c '$(IN_RANGE)' >/dev/null 2>&1; then \
	  echo "sense-memory needs Python 3.11, 3.12 or 3.13 with venv; '$(PYTHON)' is not one, or none was found." >&2; \
	  echo "Install one (Debian and Ubuntu: apt install python3 python3-venv), or name yours:" >&2; \
	  echo "  make PYTHON=/path/to/python3.12 demo" >&2; \
	  exit 1; \
	fi
	@echo "Creating $(VENV) with $(PYTHON) (once)"
	@"$(PYTHON)" -m venv $(VENV) || { rm -rf $(VENV); exit 1; }
