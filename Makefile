# Every target stands alone: it sets up what it needs first.
SHELL := /bin/bash
BIN := .venv/bin
PYTEST := $(BIN)/pytest
KEPT := tools/kept_log.sh
COMPILE := pip compile pyproject.toml --all-extras --group dev --universal --generate-hashes \
	--no-emit-index-url --no-annotate --no-header --quiet
# tests start many processes: each would compile every module again
export PYTHONDONTWRITEBYTECODE :=
# the longer proofs start Spark again and again: from an archive of its classes in half the time
CLASSES = SPARK_SUBMIT_OPTS="$$($(BIN)/python tools/class_archive.py)"
LOG := docs/soak.log
.DEFAULT_GOAL := help
.PHONY: help setup servers demo test pythons verify soak fuzz bench lint fmt lock lock-check docs clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Make .venv with what requirements.lock pins (instant the second time)
	@tools/setup.sh

servers: setup ## Install the servers that tests start themselves, into .tools
	@tools/servers.sh

demo: setup ## A legacy table under SQL: imported, taken over, mirrored, damaged, repaired, read by all
	@tools/delta_jars.sh
	@$(BIN)/python examples/demo --jars .tools/jars

test: setup servers ## All tests but the long ones
	$(PYTEST) -m "not verify and not soak" -n 2 --dist loadfile $(ARGS)

pythons: setup ## Import every module and run the unit tests on each supported Python that is there
	tools/pythons.sh $(ARGS)

verify: setup servers ## The longer proofs: crashes, faults, concurrency
	$(CLASSES) $(PYTEST) -m "verify and not soak" -n 2 --dist loadgroup $(ARGS)

soak: setup servers ## The proofs in full size: hours; the last log is docs/soak.log (LOG=…)
	@$(CLASSES) $(KEPT) $(LOG) $(PYTEST) -m soak --timeout 0 $(ARGS)

fuzz: setup ## Property tests with new examples (DELTASQL_FUZZ_EXAMPLES); log in docs/fuzz.log
	@HYPOTHESIS_PROFILE=fuzz $(KEPT) docs/fuzz.log $(PYTEST) tests/property --timeout 0 $(ARGS)

bench: setup ## Measure against the numbers in the documentation
	$(BIN)/python -m bench.run $(ARGS)

lint: setup ## Style, types, layers, file sizes, generated pages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/file_sizes.py
	$(BIN)/python tools/words.py
	$(BIN)/python tools/docs.py --check

fmt: setup ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: setup ## Pin the newest versions that pyproject.toml allows
	@"$$(tools/uv.sh)" $(COMPILE) --upgrade -o requirements.lock

lock-check: setup ## Is requirements.lock what pyproject.toml asks for?
	@mkdir -p .cache && cp requirements.lock .cache/requirements.lock
	@"$$(tools/uv.sh)" $(COMPILE) -o .cache/requirements.lock
	@cmp requirements.lock .cache/requirements.lock && echo "requirements.lock is up to date"

docs: setup ## Write the generated pages of the documentation
	$(BIN)/python tools/docs.py

clean: ## Remove what setup, tests and the demo made (.tools stays: it is slow to build)
	rm -rf .venv .cache .demo .bench .pytest_cache .mypy_cache .ruff_cache .hypothesis dist build
	find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
