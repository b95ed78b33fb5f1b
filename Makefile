# Two commands do everything on a fresh Debian 12 machine: `make demo` and `make test`. Each installs what it needs
# (Debian packages, .venv, the cargo build) and is quick the second time.

SHELL      := /bin/bash
PYTHON     := python3.11
VENV       := .venv
PY         := $(VENV)/bin/python
DEV_BIN    := $(CURDIR)/target/debug/tpud
RELEASE_BIN := $(CURDIR)/target/release/tpud
APT        := build-essential libmlir-19-dev llvm-19-dev libpolly-19-dev libclang-19-dev clang-19 libzstd-dev \
              zlib1g-dev protobuf-compiler mold python3.11-venv python3-dev ca-certificates

# One thread for torch: results are the same everywhere and two cores are not fought over.
export OMP_NUM_THREADS ?= 1
export HF_HUB_OFFLINE := 1
export TORCH_DEVICE_BACKEND_AUTOLOAD := 0

.PHONY: demo test lint bench zoo zoo-train zoo-bf16 zoo-tpu opinfo cases sweep-setup wheel setup apt venv client client-release rust-test python-test codegen clean
.DEFAULT_GOAL := demo

setup: apt venv

apt: .cache/apt.stamp
.cache/apt.stamp: Makefile
	@mkdir -p .cache
	@bash tests/setup/apt.sh $(APT)
	@bash tests/setup/rust.sh
	@touch $@

venv: .cache/venv.stamp
.cache/venv.stamp: tests/requirements.txt | .cache/apt.stamp
	@mkdir -p .cache
	@bash tests/setup/venv.sh $(VENV) $(PYTHON) tests/requirements.txt
	@touch $@

# The daemon and the Python extension, as tests use them (unoptimised) and as users get them.
client: setup
	cargo build --locked --quiet -p tpud-daemon
	@bash tests/setup/client.sh $(VENV) dev
client-release: setup
	cargo build --locked --release --quiet -p tpud-daemon
	@bash tests/setup/client.sh $(VENV) release

demo: client-release
	@TPUD_BIN=$(RELEASE_BIN) $(PY) python-client/examples/sentence_embeddings.py

test: rust-test python-test

rust-test: setup
	cargo xtask codegen --check
	cargo xtask tidy
	TPUD_PYTHON=$(CURDIR)/$(PY) cargo test --locked --workspace --quiet

python-test: client
	TPUD_BIN=$(DEV_BIN) $(PY) -m pytest -q tests

lint: setup
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets --quiet -- -D warnings
	cargo xtask codegen --check
	cargo xtask tidy

bench: client-release
	TPUD_BIN=$(RELEASE_BIN) $(PY) tests/bench/run.py

# Sweeps take long and need collections of models and programs (SHARED); their tables are committed, their rows are not.
# A sweep goes on where it was interrupted. RETRY=1 runs again what did not pass, LIMIT=n takes n entries a process.
SHARED ?= ../shared
LIMIT  ?= 0
RETRY  ?=
ROWS   := target/sweeps
SWEEP   = TPUD_BIN=$(RELEASE_BIN) $(PY) tests/sweeps/sweep.py $(1) --shared $(SHARED) --rows $(ROWS) --limit $(LIMIT) $(if $(RETRY),--retry)

sweep-setup: client-release
	$(PY) -m pip install --quiet --no-deps timm==1.0.31 safetensors huggingface_hub

zoo: sweep-setup
	$(call SWEEP,zoo-infer)
	$(PY) tests/sweeps/zoo_table.py $(ROWS) zoo-infer -o docs/ZOO.md

zoo-train: sweep-setup
	$(call SWEEP,zoo-train)
	$(PY) tests/sweeps/zoo_table.py $(ROWS) zoo-train -o docs/ZOO.md

zoo-bf16: sweep-setup
	$(call SWEEP,zoo-bf16)
	$(PY) tests/sweeps/zoo_table.py $(ROWS) zoo-bf16 -o docs/ZOO.md

zoo-tpu: sweep-setup
	$(call SWEEP,zoo-tpu-infer)
	$(call SWEEP,zoo-tpu-train)
	$(PY) tests/sweeps/zoo_table.py $(ROWS) zoo-tpu-infer -o docs/ZOO.md

opinfo: sweep-setup
	$(call SWEEP,opinfo-infer)
	$(call SWEEP,opinfo-train)
	$(PY) tests/sweeps/opinfo_table.py $(ROWS) -o docs/OPINFO.md
	cargo xtask codegen

CASE_SWEEPS := $(foreach backend,tpu tpud_strict,$(foreach setting,auto true false capture,cases-$(setting)-$(backend)))
cases: sweep-setup
	$(foreach sweep,$(CASE_SWEEPS),$(call SWEEP,$(sweep)) &&) true
	$(PY) tests/sweeps/cases_table.py $(ROWS) -o docs/CASES.md

wheel: client-release
	@bash tests/setup/wheel.sh $(VENV) $(RELEASE_BIN)

codegen: setup
	cargo xtask codegen

clean:
	rm -rf target .cache dist
