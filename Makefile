# weft: `make demo` shows the main job on a real lab, `make test` runs the tests. Both install what they need.
SHELL := /bin/bash
PY := .venv/bin/python
export PYTHONUNBUFFERED := 1
# Processes without bytecode compile everything that they import, which costs more than most commands and tests.
export PYTHONDONTWRITEBYTECODE :=

# One for each distribution: docs/decisions/distributions.md.
PROJECTS := pyproject.toml packages/agents/pyproject.toml packages/openvipu/pyproject.toml lab/pyproject.toml

.PHONY: help setup weft-check wheels deb check format test test-landing test-fast test-database test-fabric test-cloud nightly bench demo acceptance docs console-assets lock clean

help: ## Show this
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: .venv/ready ## Make the Python environment (.venv) from requirements-dev.lock

.venv/ready: requirements-dev.lock $(PROJECTS)
	@tools/setup.sh

check: setup ## Format, lint, types, layers: what CI runs first
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/lint-imports
	.venv/bin/pyright

format: setup ## Format the code, and fix what the linter can
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

test: setup ## Run the tests, but those of test-landing and nightly: with Python and PostgreSQL, on real fabrics, and the main stories on a lab
	@tools/test.sh

test-landing: setup ## Run the tests that CI runs in addition: the driver's contract and lies on a lab's OpenStack, single services, exports read by their tools, upgrades, an install guide, the console in Chromium
	@tools/test.sh landing

test-fast: setup ## Only the tests that need nothing but Python and network namespaces
	@tools/packages.sh iproute2 systemd dnsmasq-base
	$(PY) -m pytest -n auto --dist worksteal -m "not database and not fabric and not cloud and not nightly"

test-database: setup ## Only the tests that need the embedded PostgreSQL and nothing else
	$(PY) -m pytest -n auto --dist worksteal -m "database and not fabric and not cloud and not nightly"

test-fabric: setup ## Only the tests that need a fabric: OpenSM over ibsim, Open vSwitch
	@tools/packages.sh opensm ibsim-utils infiniband-diags iproute2 ucx-utils openvswitch-switch ethtool iputils-ping
	$(PY) -m pytest -n 3 --dist loadgroup -m "fabric and not cloud and not nightly"

test-cloud: setup ## Only the tests that need a real OpenStack
	$(PY) -m pytest -m "cloud and not nightly"

nightly: setup ## Run all tests, also the long ones, with 200 times as many examples and random states, new ones each day
	@WEFT_TESTS_MORE=50 WEFT_TESTS_SEED=$$(date -u +%Y%m%d) tools/test.sh nightly

bench: export BASE ?= 93bb7bfa
bench: setup ## Measure against the alternatives in the same run; table and build/bench.json (SUITE=switches: only that suite; SUITE=against BASE=commit: alternating with an earlier build)
	$(PY) -m bench $(SUITE)

demo: setup ## The main job on a real OpenStack and a real subnet manager, from order to receipt (DEMO=ipu: with IPUs; roce: on Ethernet; metal: on bare metal; ironic: without Nova; site: two sites from hardware lists; web: the console, until Enter; repair: a dead host is replaced; seeing: planted faults are found and named)
	@$(PY) -m weftlab.demo $(DEMO)

acceptance: setup ## Run NVIDIA's ai-cloud-validation on a lab and compare with the committed table (AI_CLOUD_VALIDATION=checkout, LAB=state of a running lab, UPDATE=1: write the table)
	@test -n "$(AI_CLOUD_VALIDATION)" || { echo "AI_CLOUD_VALIDATION: the folder of a checkout of ai-cloud-validation"; exit 2; }
	PYTHONPATH=acceptance $(PY) -m weftacceptance "$(AI_CLOUD_VALIDATION)" $(if $(LAB),--lab "$(LAB)") $(if $(UPDATE),--update)

docs: setup ## Make the generated documents (schemas, state picture, commands, API, policy)
	$(PY) -m weft.generate.schemas
	$(PY) -m weft.cli.pages

console-assets: ## Fetch the console's scripts (htmx) from npm at their pinned versions, with licences and hashes
	@tools/console-assets.sh

weft-check: setup ## Build the checks of hosts as one file for any Python from 3.9: build/weft-check
	$(PY) tools/onefile.py build/weft-check

wheels: setup ## Build the wheel of each distribution into build/wheels
	@for project in $(dir $(PROJECTS)); do \
	  (cd $$project && $(CURDIR)/.venv/bin/hatchling build -t wheel -d $(CURDIR)/build/wheels) || exit 1; done

deb: wheels ## Build Debian packages for this machine's release into build/deb: weft, weft-agents, weft-check
	@tools/packages.sh debhelper dh-virtualenv dpkg-dev help2man python3-venv
	dpkg-buildpackage -us -uc -b --buildinfo-option=-ubuild/deb --changes-option=-ubuild/deb \
	  --buildinfo-file=build/deb/weft.buildinfo --changes-file=build/deb/weft.changes

LOCK := .venv/bin/uv pip compile -q --python-version 3.11 --generate-hashes --no-emit-index-url \
  --no-emit-package weft-pods --no-emit-package weft-pods-agents --no-emit-package openvipu \
  --custom-compile-command "make lock"

lock: ## Pin all dependencies again, with hashes: requirements.lock (runtime), requirements-agents.lock (the agents' part of it), requirements-dev.lock (runtime and development)
	$(LOCK) --all-extras pyproject.toml -o requirements.lock
	$(LOCK) -c requirements.lock packages/agents/pyproject.toml -o requirements-agents.lock
	$(LOCK) --all-extras --group pyproject.toml:dev -c requirements.lock $(PROJECTS) -o requirements-dev.lock

clean: ## Remove the environment and everything that was built
	rm -rf .venv build .hypothesis .ruff_cache .pytest_cache .import_linter_cache
