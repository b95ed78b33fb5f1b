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

.PHONY: demo test lint bench zoo wheel setup apt venv client client-release rust-test python-test codegen clean
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

# Sweeps take long and need the zoo (SHARED); their tables are committed, their rows are not.
SHARED ?= ../shared
LIMIT  ?= 80
zoo: client-release
	@mkdir -p target/sweeps
	$(PY) -m pip install --quiet --no-deps timm==1.0.31 safetensors huggingface_hub
	TPUD_BIN=$(RELEASE_BIN) $(PY) $(SHARED)/zoo/zoo.py run --backend tpu --mode infer --suite hf,tv,timm,decode \
	  --list $(SHARED)/zoo/public.txt --limit $(LIMIT) --once --timeout 240 --out target/sweeps/infer.jsonl
	$(PY) tests/sweeps/zoo_table.py target/sweeps/infer.jsonl -o docs/ZOO.md

wheel: client-release
	@bash tests/setup/wheel.sh $(VENV) $(RELEASE_BIN)

codegen: setup
	cargo xtask codegen

clean:
	rm -rf target .cache dist
