# `make run` and `make test` do everything from a fresh clone; see README.md.

CARGO_BIN := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin
export PATH := $(PATH):$(CARGO_BIN)

# The emulator is compiled once: all that links it is built and tested in release mode.
# The pure crates are also tested with overflow checks and debug assertions.
PURE     := -p mmuscope-models -p mmuscope-traces
EMULATED := -p mmuscope-guest -p mmuscope-emu -p mmuscope-benches

# The comparison that `make run` ends with: a 1 GiB mapping moved at each table level.
COMPARISON := compare mremap level=pte,pmd,pud size=1G src=pud dst=pud \
	--on cortex-a76,skylake-sp

# Seconds that `make fuzz` spends on each target.
FUZZ_SECONDS := 60

# Options of `make validate`, such as VALIDATE="--on zen3-guest".
VALIDATE :=

.PHONY: help run build test test-long fuzz lint bench validate prerequisites prerequisites-long
.DEFAULT_GOAL := help

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 11

run: build ## Install what is missing, build, and compare mremap of 1 GiB on both architectures
	cargo run --locked --release --quiet -- $(COMPARISON)

build: prerequisites ## Install what is missing and build the command mmuscope
	cargo build --locked --release

test: prerequisites ## Install what is missing and run every test
	cargo test --locked $(PURE)
	cargo test --locked --release $(EMULATED)

# MMUSCOPE_WALKS and MMUSCOPE_SEED set the number of walks per architecture and the seed;
# MMUSCOPE_RECORDINGS names a folder with more recordings of real kernels (docs/oracles.md).
test-long: prerequisites-long ## Install QEMU and compare a million random walks with it
	cargo test --locked --release -p mmuscope-guest --test qemu_walks -- --ignored --nocapture
	MMUSCOPE_WALKS=$(or $(MMUSCOPE_WALKS),1000000) \
		cargo test --locked --release -p mmuscope-emu --test oracle -- --nocapture
	cargo test --locked --release -p mmuscope-traces --test walk_real_kernels -- --nocapture

fuzz: ## Fuzz walkers, decoders and parsers, FUZZ_SECONDS each (needs cargo-fuzz and nightly Rust)
	@cargo fuzz --version >/dev/null 2>&1 || { echo "cargo-fuzz is missing: cargo install cargo-fuzz, \
	and rustup toolchain install nightly" >&2; exit 2; }
	cd fuzz && for target in $$(cargo fuzz list); do \
		cargo +nightly fuzz run $$target -- -max_total_time=$(FUZZ_SECONDS) || exit 1; \
	done

lint: prerequisites ## Check the formatting and run clippy, warnings as errors
	cargo fmt --all --check
	cargo clippy --locked $(PURE) --all-targets -- -D warnings
	cargo clippy --locked --release $(EMULATED) --all-targets -- -D warnings

bench: prerequisites ## Run the benches
	cargo bench --locked -p mmuscope-benches

validate: prerequisites ## Do mremap and a pointer chase on this host and by the model, print both
	cargo run --locked --release --quiet -p mmuscope-benches --bin validate -- $(VALIDATE)

prerequisites:
	@bash .ci/prerequisites.sh

prerequisites-long:
	@bash .ci/prerequisites.sh long
