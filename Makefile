# Everything a person or CI does with this project. `make` alone prints the list.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := bash
.SHELLFLAGS := -euo pipefail -c

UV_VERSION := 0.13.8
# `command -v uv` would find a pyenv shim that has no uv behind it: only a uv that answers counts.
UV := $(shell uv --version >/dev/null 2>&1 && echo uv || echo .tools/uv/bin/uv)
RUN := $(UV) run --frozen
# A makefile build hears of the processor and of uv through the environment only.
ARCHITECTURE ?= arm64
SAM := SAM_CLI_TELEMETRY=0 ARCHITECTURE=$(ARCHITECTURE) UV=$(if $(filter uv,$(UV)),uv,$(CURDIR)/$(UV)) tests/sam/.venv/bin/sam

.PHONY: help
help: ## Print this list
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(filter .tools/%,$(UV)) ## Install everything that the other targets need, here in this folder
	$(UV) sync --frozen
	$(UV) sync --project tests/ministack --frozen
	$(UV) sync --project tests/sam --frozen

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

# These two run the built function in containers. Without Docker they say how to get it, and stop.
IN_CONTAINERS := tests/deployed/.venv/bin/python -m pytest -c tests/deployed/pyproject.toml

.PHONY: containers
containers: setup
	$(UV) sync --project tests/deployed --frozen
	@tests/deployed/.venv/bin/python -m tests.deployed.machine

.PHONY: test-deployed
test-deployed: containers ## Deploy to a twin of AWS on this machine and test what runs there (ARGS="-k alarms")
	$(IN_CONTAINERS) tests/deployed --ignore=tests/deployed/test_sam_local.py $(ARGS)

.PHONY: sam-local
sam-local: containers ## Test the built function under `sam local`
	$(IN_CONTAINERS) tests/deployed/test_sam_local.py $(ARGS)

.PHONY: check
check: setup ## Check format, lint, types, the locks and the template
	$(UV) lock --check
	$(EXPORT_LAYER) | diff - layers/baton/requirements.txt
	$(EXPORT_AUTHORIZER) | diff - functions/authorizer/requirements.txt
	$(RUN) ruff format --check .
	$(RUN) ruff check .
	$(RUN) mypy
	$(SAM) validate --lint --region us-east-1

# What goes to AWS is what the lock says, hashes included.
EXPORT := $(UV) export --frozen --quiet --no-emit-project --no-annotate --no-header --format requirements-txt
EXPORT_LAYER := $(EXPORT) --no-dev --extra aws
EXPORT_AUTHORIZER := $(EXPORT) --only-group authorizer

.PHONY: lock
lock: $(filter .tools/%,$(UV)) ## Lock newer versions of what the project depends on
	$(UV) lock --upgrade
	$(UV) lock --upgrade --project tests/ministack
	$(UV) lock --upgrade --project tests/sam
	$(UV) lock --upgrade --project tests/deployed
	$(EXPORT_LAYER) >layers/baton/requirements.txt
	$(EXPORT_AUTHORIZER) >functions/authorizer/requirements.txt

.PHONY: build
build: setup ## Build what is deployed, into .aws-sam (ARCHITECTURE=x86_64)
	$(SAM) build --parameter-overrides Architecture=$(ARCHITECTURE)

.PHONY: deploy
deploy: build ## Deploy it: needs AWS credentials (ARCHITECTURE=x86_64, ARGS="--guided")
	$(SAM) deploy $(ARGS)

.PHONY: format
format: setup ## Put the code into the house's format, and mend what lint can
	$(RUN) ruff format .
	$(RUN) ruff check --fix .

.PHONY: clean
clean: ## Remove everything that was installed or built here
	rm -rf .venv .tools .aws-sam dist .mypy_cache .pytest_cache .ruff_cache .hypothesis tests/*/.venv
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
