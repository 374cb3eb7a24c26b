# Every command that a developer types. `make` prints them.
.DEFAULT_GOAL := help
SHELL := /bin/bash

VENV := .venv
PY := $(VENV)/bin/python
EXT := python/rgrad/_C.abi3.so
PROFILE ?= release
# What is not marked for it is inlined less: a twentieth of the library, and nothing slower that we measure.
RUSTC_ARGS := $(if $(filter release,$(PROFILE)),-Cllvm-args=-inline-threshold=75)
RUST_FILES := $(shell find src -name '*.rs') Cargo.toml Cargo.lock

.PHONY: help
help: ## Print this
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  \1\t\2/' | expand -t 14

$(VENV)/.ready: pyproject.toml
	python3 -m venv $(VENV)
	$(PY) -m pip install --quiet --upgrade pip
	$(PY) -m pip install --quiet numpy pillow tqdm pytest hypothesis maturin ruff basedpyright
	@touch $@

$(EXT): $(RUST_FILES)
	cargo rustc --quiet --locked --profile $(PROFILE) --features python --lib -- $(RUSTC_ARGS)
	cp target/$(PROFILE)/librgrad.so $@

.PHONY: dev
dev: $(VENV)/.ready $(EXT) ## Set up the environment and build the Python module in place

.PHONY: demo
demo: dev ## Train the quickstart model on Fashion-MNIST pictures (all set-up included)
	PYTHONPATH=python $(PY) examples/demo.py $(ARGS)

.PHONY: test
test: test-rust test-python ## Run every test: Rust first, then Python (all set-up included)

.PHONY: test-rust
test-rust: ## The core alone: no Python needed
	cargo test --quiet --locked

.PHONY: test-python
test-python: dev ## The Python package
	PYTHONPATH=python $(PY) -m pytest $(ARGS)

.PHONY: check
check: dev ## Formatter, clippy, ruff, pyright, layers and unsafe list, generated files
	cargo fmt --check
	cargo clippy --quiet --locked --all-targets -- -D warnings
	cargo clippy --quiet --locked --features python -- -D warnings
	cargo test --quiet --locked --test layers
	$(VENV)/bin/ruff check python tests/python examples benches
	PYTHONPATH=python $(VENV)/bin/basedpyright --level error
	PYTHONPATH=python $(PY) -m pytest tests/python/test_generated.py

.PHONY: gen
gen: dev ## Rewrite the files that follow from the operation table
	PYTHONPATH=python $(PY) docs/generate.py --write

.PHONY: bench
bench: dev ## Measure against PyTorch (PEER_PYTHON names an interpreter that has it; WORKLOADS the driver)
	PYTHONPATH=python $(PY) benches/run.py

.PHONY: wheel
wheel: $(VENV)/.ready ## Build the wheel into dist/
	$(VENV)/bin/maturin build --release --out dist

.PHONY: clean
clean: ## Remove what was built
	rm -rf target dist $(VENV) $(EXT)
