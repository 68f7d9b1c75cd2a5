.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
DOCKER ?= docker
IMAGE ?= accelet
# Bytecode is kept whatever the shell says: without it each of many processes compiles all it imports.
export PYTHONDONTWRITEBYTECODE :=
# Many tests wait most of their time.
PARALLEL := -n 6 --dist worksteal
VERSION = $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' accelet/__init__.py)

.PHONY: help demo test test-long properties check sentences lock audit release test-release test-newcomer test-stalls test-delays e2e e2e-versions e2e-storms e2e-dra e2e-doctor e2e-tenants e2e-provisioner e2e-tasks e2e-kueue e2e-scheduler bench bench-scheduler bench-provisioner bench-tasks bench-storm launchers screenshots schema crds policies bench-identity thorough soak soak-tenants proto image clean

help: ## what there is to make
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

PIP := $(BIN)/pip install --quiet --disable-pip-version-check

.venv/.ready: pyproject.toml locks/dev.txt
	@echo "setting up .venv (once, about half a minute)"
	@$(PYTHON) -m venv .venv
	@$(PIP) --require-hashes --requirement locks/dev.txt
	@$(PIP) --no-deps --no-build-isolation --no-index --editable .
	@touch $@

.venv-tools/.ready: locks/tools.txt
	@$(PYTHON) -m venv .venv-tools
	@.venv-tools/bin/pip install --quiet --disable-pip-version-check --require-hashes --requirement $<
	@touch $@

demo: .venv/.ready ## the main job on a simulated node: no root, no cluster, no GPU
	@$(BIN)/accelet demo

# In a new checkout each of the workers would compile all tests at the same time; here one process does it before them.
test: .venv/.ready ## what needs neither root nor a cluster, but for tests that take long: three minutes
	@[ -d tests/unit/shipping/__pycache__ ] || $(BIN)/pytest --collect-only -qq >/dev/null || true
	@$(BIN)/pytest $(PARALLEL) -m "not thorough and not long" -p tests.costs

test-long: .venv/.ready ## the tests that `make test` leaves out, each of which takes more than two seconds
	@$(BIN)/pytest $(PARALLEL) -m "long and not thorough and not hypothesis" -p tests.costs

properties: .venv/.ready ## the property tests again, with five times as many examples; some minutes
	@ACCELET_HYPOTHESIS_PROFILE=thorough $(BIN)/pytest -n 3 -m "hypothesis and not thorough"

test-stalls: .venv/.ready ## `make test` while all its processes stand still for up to 2 s again and again; root needed. STALLS='--seed 1'
	@$(BIN)/python -m tests.stalls $(PARALLEL) $(STALLS)

# What is left out judges how soon calls are answered.
test-delays: .venv/.ready ## `make test` while its threads and timers are late now and then. DELAYS='--delays-seed 1'
	@$(BIN)/pytest $(PARALLEL) -p tests.delays --deselect tests/integration/identity/test_storm.py $(DELAYS)

thorough: .venv/.ready ## chaos, conformance checks against mutants and all kubelet versions, more of the property tests
	@ACCELET_HYPOTHESIS_PROFILE=thorough $(BIN)/pytest -m "thorough or hypothesis"

launchers: .venv/.ready ## PyTorch/XLA's and JAX's own launchers in the environment of TPU containers; fetches 80 MB once
	@$(BIN)/python -m tests.launchers.fetch
	@$(BIN)/pytest tests/launchers

# What tenants and damaged disks can put before a DRA driver: 100,000 inputs for each.
HOSTILE := whatever or changed_byte or cut_short or other_files or checksum

soak: .venv/.ready ## the property tests in full; takes hours
	@ACCELET_HYPOTHESIS_PROFILE=soak $(BIN)/pytest -m 'hypothesis or thorough' --timeout 7200
	@ACCELET_HYPOTHESIS_PROFILE=long $(BIN)/pytest -n 2 --timeout 14400 -k '$(HOSTILE)' \
		tests/unit/dra/test_preparing.py tests/unit/dra/test_checkpoint.py tests/unit/dra/test_records.py

check: .venv/.ready ## format, lint, types, layers, generated files, licences
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@proto/check
	@$(BIN)/python -m accelet.agent.configschema | diff -q - docs/config.schema.json >/dev/null || { echo "docs/config.schema.json is not current; run 'make schema'" >&2; exit 1; }
	@$(BIN)/python -m accelet.cli.forms.jsonforms | diff -q - docs/output.schema.json >/dev/null || { echo "docs/output.schema.json is not current; run 'make schema'" >&2; exit 1; }
	@$(BIN)/python -m accelet.assignments.cardsschema | diff -q - docs/cards.schema.json >/dev/null || { echo "docs/cards.schema.json is not current; run 'make schema'" >&2; exit 1; }

	@$(BIN)/python -m release notices /dev/null

lock: .venv-tools/.ready ## lock what pyproject.toml and Debian ask for; LOCK_OPTIONS=--upgrade takes the newest
	@TOOLS=.venv-tools/bin locks/lock
	@$(PYTHON) -m release lock-debian

audit: .venv-tools/.ready ## known vulnerabilities of what is locked; AUDIT_OPTIONS='--vulnerability-service osv' asks OSV
	@$(PYTHON) -m release newer
	@for lock in image dev proto tools; do \
		.venv-tools/bin/pip-audit --progress-spinner off --strict --disable-pip --require-hashes \
			--requirement locks/$$lock.txt $(AUDIT_OPTIONS) || exit 1; done

e2e: .venv/.ready ## everything on a real kubelet 1.36: needs root and Go, builds Kubernetes once
	@$(BIN)/python -m tests.e2e.prepare
	@$(BIN)/pytest --timeout 1200 tests/e2e

e2e-versions: .venv/.ready ## the scenarios on real kubelets 1.33, 1.36 and 1.37, PodGroups on 1.36 and 1.37: needs root and Go
	@$(BIN)/pytest -m '' --timeout 1200 tests/e2e/test_scenarios.py tests/e2e/scenarios/other_versions.py tests/e2e/pod_groups.py

release: .venv/.ready ## VERSION=0.1.0 [KEY=key.pem] [OUT=dist/0.1.0]: archives, image, bills of materials, checksums, signature
	@$(BIN)/python -m release make $(VERSION) $(or $(OUT),dist/$(VERSION)) $(if $(KEY),--key $(KEY))

sentences: .venv/.ready ## the sentences of README and docs with more than 25 words, the longest first
	@$(BIN)/python -m tests.unit.shipping.markdown

test-release: .venv/.ready .venv-tools/.ready ## make a release twice, and have other tools judge it; fetches what is locked
	@$(BIN)/pytest tests/release

test-newcomer: .venv/.ready ## README and docs, word by word, on a fresh Debian: needs root and debootstrap
	@$(BIN)/pytest tests/newcomer

e2e-storms: .venv/.ready ## twenty storms of all kinds of pods on a real kubelet; about half an hour, root and Go needed
	@$(BIN)/pytest -m thorough --timeout 1200 tests/e2e/test_storms.py

e2e-doctor: .venv/.ready ## the shipped installation runs, and accelet doctor finds thirteen planted faults: root and Go needed
	@$(BIN)/pytest --timeout 1200 tests/e2e/planted_faults.py

e2e-tenants: .venv/.ready ## attacks of tenants on pods of the image with their memory limits, on a real kubelet: root and Go needed
	@$(BIN)/pytest -m '' --timeout 1200 tests/e2e/tenants/pods

soak-tenants: .venv/.ready ## 2,000 random actions of hostile tenants, and 10,000 objects that a real API server stores: root and Go needed
	@$(BIN)/pytest --timeout 3000 tests/e2e/tenants/pods/soak.py
	@ACCELET_HYPOTHESIS_PROFILE=soak $(BIN)/pytest -m '' --timeout 7200 tests/e2e/tenants/test_corpus.py

e2e-dra: .venv/.ready ## storms of resource claims, nodes and agents that change, nodes of both kinds, on real clusters: root and Go needed
	@$(BIN)/pytest -m '' --timeout 3600 tests/e2e/dra/thorough.py tests/e2e/dra/mixed.py tests/e2e/dra/illness.py tests/e2e/dra/claim_rights.py tests/e2e/dra/groups.py

e2e-provisioner: .venv/.ready ## JobSets and LeaderWorkerSets by their own controllers, through faults and kills, by Kueue's, and what workers print: root and Go needed
	@$(BIN)/pytest -m '' --timeout 7200 tests/e2e/slices/workers.py tests/e2e/slices/flavored.py tests/e2e/slices/thorough.py tests/e2e/slices/queued.py tests/e2e/slices/exclusive.py tests/e2e/slices/machines.py tests/e2e/gangs/leaders.py

e2e-tasks: .venv/.ready ## 30 GPU tasks and 20 moves while controller and scheduler are killed, a real torchrun, what else befalls tasks, and facts about Jobs: root, Go and debootstrap needed
	@$(BIN)/pytest -m '' --timeout 600 tests/e2e/tasks/killed.py tests/e2e/tasks/moved.py tests/e2e/tasks/improved.py tests/e2e/tasks/relocated.py tests/e2e/tasks/torchrun.py tests/e2e/tasks/inplace.py tests/e2e/tasks/befallen.py tests/e2e/tasks/facts.py

e2e-kueue: .venv/.ready ## Kueue's own controller asks the scheduler before it lets Jobs run, and holds GPU tasks in its queue; four minutes, root and Go needed
	@$(BIN)/pytest -m '' --timeout 600 tests/e2e/admission_check.py tests/e2e/tasks/queued.py

e2e-scheduler: .venv/.ready ## 300 gangs on 2,000 nodes that die, a webhook that refuses, the leader killed 50 times: root and Go needed
	@$(BIN)/pytest -m '' --timeout 2400 tests/e2e/gangs/chaos.py tests/e2e/gangs/releasing.py

image: ## the container image, with Docker or what DOCKER names
	@$(DOCKER) build --tag $(IMAGE):$(VERSION) --build-arg VERSION=$(VERSION) \
		--build-arg REVISION=$$(git rev-parse --short HEAD) .

clean: ## remove what was made here; the cache of the end-to-end tests stays
	@rm -rf .venv .venv-tools build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

bench-scheduler: .venv/.ready ## the scheduler's planning times and distances, beside the sliding-window rule's
	@$(BIN)/python -m benches.scheduler

bench-provisioner: .venv/.ready ## the provisioner: decisions a second, memory with 1,000 slices, requests a slice, cost by the size of a set
	@$(BIN)/python -m benches.provisioner

bench-tasks: .venv/.ready ## from submit to Job of GPU tasks, memory with 1,000 of them, status writes in a life, moves that let gangs in
	@$(BIN)/python -m benches.tasks

bench: .venv/.ready ## speed and memory beside a bare plugin; takes about six minutes
	@$(BIN)/python -m benches.agent

proto: ## generate accelet/kubelet/api from proto/
	@proto/generate

crds: .venv/.ready ## write the CustomResourceDefinitions of our kinds
	@$(BIN)/python -m accelet.kinds deploy/crds

policies: .venv/.ready ## write the admission policies that give TPU workers their identity
	@$(BIN)/python -m release.identity deploy/identity

schema: .venv/.ready ## write the JSON schemas of the configuration, of a node's cards, of scenarios and of what --json prints
	@$(BIN)/python -m accelet.agent.configschema > docs/config.schema.json
	@$(BIN)/python -m accelet.assignments.cardsschema > docs/cards.schema.json
	@$(BIN)/python -m accelet.cli.forms.jsonforms > docs/output.schema.json
	@$(BIN)/python -m accelet.fakekubelet.scenario > docs/scenario.schema.json

screenshots: .venv/.ready ## the pictures of the page and of accelet cards in docs/images, of a simulated cluster: Debian's chromium needed
	@$(BIN)/python -m tests.screenshots docs/images

bench-storm: .venv/.ready ## storms of pods on a real kubelet, beside the same without assignments: root and Go needed
	@$(BIN)/python -m tests.e2e.bench_storm

bench-identity: .venv/.ready ## what the identity of TPU workers costs a real API server: root and Go needed
	@$(BIN)/python -m tests.e2e.bench_identity
