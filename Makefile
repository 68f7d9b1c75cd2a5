.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin

.PHONY: help demo test check e2e bench soak proto image clean

help: ## what there is to make
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.venv/.ready: pyproject.toml
	@echo "setting up .venv (once, about half a minute)"
	@$(PYTHON) -m venv .venv
	@$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: .venv/.ready ## the main job on a simulated node: no root, no cluster, no GPU
	@$(BIN)/accelet demo

test: .venv/.ready ## every test that needs neither root nor a cluster
	@$(BIN)/pytest

check: .venv/.ready ## format, lint, types, layers, generated files
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@proto/check

bench: .venv/.ready ## speed and memory beside a bare plugin; takes about four minutes
	@$(BIN)/python -m benches.agent

proto: ## generate accelet/kubelet/api from proto/
	@proto/generate
