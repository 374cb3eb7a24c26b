# Every command that a developer types. `make` prints them.
.DEFAULT_GOAL := help
SHELL := /bin/bash

VENV := .venv
ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
EXT := python/rgrad/_C.pyd
else
BIN := $(VENV)/bin
EXT := python/rgrad/_C.abi3.so
endif
PY := $(BIN)/python
PROFILE ?= release
RUST_FILES := $(shell find src shaders -type f) build.rs Cargo.toml Cargo.lock

.PHONY: help
help: ## Print this
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  \1\t\2/' | expand -t 14

$(VENV)/.ready: pyproject.toml
	python3 -m venv $(VENV)
	$(PY) -m pip install --quiet pip==26.3
	$(PY) -m pip install --quiet --group dev
	@touch $@

# Through maturin, so that `make wheel` finds everything compiled: cargo compares flags and environments.
$(EXT): $(RUST_FILES) | $(VENV)/.ready
	VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/maturin develop --quiet --locked --skip-install --profile $(PROFILE)
	@touch $@

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
	PYTHONPATH=python $(PY) -m pytest -n 2 --dist loadfile $(ARGS)

.PHONY: test-gpu
test-gpu: dev ## The tests of the GPU alone, Rust and Python; fails where there is no adapter
	RGRAD_REQUIRE_GPU=1 cargo test --quiet --locked --test gpu
	RGRAD_REQUIRE_GPU=1 PYTHONPATH=python $(PY) -m pytest -k gpu $(ARGS)

# SwiftShader has none of the optional features: what passes there passes anywhere. Debian ships it with its browser.
SWIFTSHADER := target/swiftshader/usr/lib/chromium/vk_swiftshader_icd.json
$(SWIFTSHADER):
	mkdir -p target/swiftshader
	cd target/swiftshader && apt-get download -qq chromium-common && dpkg -x chromium-common_*.deb . && rm *.deb
	@touch $@

.PHONY: test-swiftshader
test-swiftshader: dev $(SWIFTSHADER) ## What every GPU can do, on SwiftShader (taken from a Debian package)
	VK_ICD_FILENAMES=$(abspath $(SWIFTSHADER)) VK_DRIVER_FILES=$(abspath $(SWIFTSHADER)) RGRAD_REQUIRE_GPU=1 \
		RGRAD_GPU_ADAPTER=SwiftShader PYTHONPATH=python $(PY) -m pytest tests/python/test_gpu_minimal.py tests/python/test_gpu_wide.py

.PHONY: doctor
doctor: dev ## Every operation on this machine's GPU against the CPU
	PYTHONPATH=python $(PY) -m rgrad.doctor $(ARGS)

# PyTorch is kept out: the packages' dependencies are listed in full.
PACKAGES := target/packages
$(PACKAGES)/.ready: tests/packages/requirements.txt
	python3 -m venv $(PACKAGES)
	$(PACKAGES)/bin/python -m pip install --quiet --no-deps -r $<
	@touch $@

.PHONY: packages
packages: dev $(PACKAGES)/.ready ## Packages written for PyTorch on rgrad, compared with what PyTorch computed (NAMES picks some)
	PYTHONPATH=python $(PACKAGES)/bin/python tests/packages/run.py $(NAMES)

# Tests in Rust under valgrind with these options. It knows no AVX-512.
valgrind = RGRAD_CPU_ISA=avx2 RGRAD_NUM_THREADS=2 CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="valgrind --quiet --error-exitcode=1 $(1)" \
	cargo test --quiet --locked --no-default-features

.PHONY: slow
# Miri is not among these: it needs a nightly toolchain that has it.
slow: dev ## loom over the locks of the graph, valgrind over elements and leaks, every call of a kernel checked, every test in a region, 10,000 random programs, a million random calls, threads many times
	RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom cargo test --quiet --locked --no-default-features --test loom
	# Left out: tests that read what nothing has written, and one whose child process ends without destructors.
	$(call valgrind) --lib -- --skip backend::checked --skip forked_child
	$(call valgrind,--leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite) \
		--test graph --test interpreters --test locks --test nn --test ops --test reductions
	RGRAD_CHECK=1 PYTHONPATH=python $(PY) -m pytest -k "not gpu"
	PYTHONPATH=python RANDOM_PROGRAMS=10000 $(PY) -m pytest tests/python/test_random_programs.py
	# Everything inside of regions of deferred operations, in which small tensors wait too.
	RGRAD_TEST_REGIONS=1 RGRAD_DEFER_FROM=1 PYTHONPATH=python $(PY) -m pytest
	RGRAD_DEFER_FROM=1 PYTHONPATH=python RANDOM_PROGRAMS=10000 $(PY) -m pytest tests/python/test_random_programs.py tests/python/test_random_rows.py tests/python/test_random_epilogues.py
	PYTHONPATH=python RANDOM_CALLS=1000000 $(PY) -m pytest tests/python/test_random_calls.py
	cargo build --quiet --locked --tests
	for i in $$(seq 20); do cargo test --quiet --locked --test locks || exit 1; done
	for i in $$(seq 5); do cargo test --quiet --locked --test graph threads || exit 1; done
	PYTHONPATH=python $(PY) -m pytest tests/python/test_autograd_graph.py tests/python/test_autograd.py -k threads

.PHONY: lint
lint: $(VENV)/.ready ## Formatter, ruff, pyright: what needs nothing built
	cargo fmt --check
	$(BIN)/ruff check python tests examples benches docs
	PYTHONPATH=python $(BIN)/basedpyright --level error

.PHONY: check
check: lint ## The same, clippy, layers and unsafe list, clippy without features, generated files
	# One thread generates the code of the module; everything else is compiled beside it.
	$(MAKE) -j 2 dev check-core
	PYTHONPATH=python $(PY) -m pytest tests/python/test_generated.py

.PHONY: check-core
check-core:
	cargo clippy --quiet --locked --all-targets --features python -- -D warnings
	cargo clippy --quiet --locked --no-default-features -- -D warnings
	cargo test --quiet --locked --no-run
	cargo test --quiet --locked --test layers

.PHONY: gen
gen: dev ## Rewrite the files that follow from the operation table and the measurements
	PYTHONPATH=python $(PY) docs/generate.py --write
	PYTHONPATH=python $(PY) docs/figures.py --write

.PHONY: bench
bench: dev ## Measure against PyTorch (PEER_PYTHON names an interpreter that has it; WORKLOADS the driver)
	PYTHONPATH=python $(PY) benches/run.py
	PYTHONPATH=python $(PY) benches/limits.py

.PHONY: bench-gpu
bench-gpu: dev ## Measure what the GPU backend promises (RGRAD_GPU_ALLOW_CPU=1 admits software adapters)
	PYTHONPATH=python $(PY) benches/gpu.py $(ARGS)

DOCS := target/docs
$(DOCS)/.ready: docs/requirements.txt
	python3 -m venv $(DOCS)
	$(DOCS)/bin/python -m pip install --quiet --no-deps -r $<
	@touch $@

.PHONY: docs
docs: dev $(DOCS)/.ready ## Build the documentation into target/site; a warning is an error
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=python $(DOCS)/bin/mkdocs build --strict

.PHONY: test-docs
test-docs: docs ## Open every page of the documentation in headless Chromium, and search it
	$(DOCS)/bin/python docs/check_site.py

.PHONY: wheel
wheel: $(VENV)/.ready ## Build the wheel into dist/
	rm -rf dist
	$(BIN)/maturin build --quiet --locked --interpreter $(PY) --out dist

.PHONY: test-wheel
test-wheel: wheel ## Install the wheel into a new environment and differentiate there
	$(TRY_WHEEL)

define TRY_WHEEL
	rm -rf target/wheel-env && python3 -m venv target/wheel-env
	target/wheel-env/bin/python -m pip install --quiet "numpy==$$($(PY) -c 'import numpy; print(numpy.__version__)')" dist/*.whl
	cd target && env -u PYTHONPATH wheel-env/bin/python -W error ../tests/wheel.py
endef

MANYLINUX := target/manylinux
$(MANYLINUX)/.ready: pyproject.toml
	python3 -m venv $(MANYLINUX)
	$(MANYLINUX)/bin/python -m pip install --quiet pip==26.3
	$(MANYLINUX)/bin/python -m pip install --quiet --group manylinux
	@touch $@

# A library linked on this machine wants this machine's glibc or a newer one. Zig links against the older one that it is given.
.PHONY: wheels
wheels: $(VENV)/.ready $(MANYLINUX)/.ready ## Build a wheel for any Linux with glibc 2.28 or newer into dist/ (Zig links it), check and try it
	rm -rf dist
	PATH="$(abspath $(MANYLINUX)/bin):$$PATH" maturin build --quiet --locked --zig \
		--compatibility manylinux_2_28 --interpreter $(PY) --out dist
	$(MANYLINUX)/bin/python tests/manylinux.py 2.28 dist/*.whl
	$(TRY_WHEEL)

.PHONY: clean
clean: ## Remove what was built
	rm -rf target dist $(VENV) $(EXT)
