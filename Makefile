# Short targets; `make` alone lists them. Needs Go 1.26, a C compiler and
# Python 3.11 or later; everything else is set up in .venv.

PYTHON  ?= python3
VENV    := .venv
BIN     := $(VENV)/bin
RESULTS := _results
# How long each fuzz target runs.
FUZZTIME ?= 10s
PYTEST  := $(BIN)/python -m pytest -q
# An interpreter that has torch and torch_geometric, for the tests that need them.
TORCH_PYTHON ?=
# Tests that cross packages, without the rules of tests/lint.
SUITES  := ./tests/accuracy ./tests/bounds ./tests/budget ./tests/corruption ./tests/exactness ./tests/faults ./tests/longrun ./tests/sizes

SOURCES := $(shell find layout goagnes kernels capi python/goagnes -type f \
             \( -name '*.go' -o -name '*.c' -o -name '*.h' -o -name '*.py' -o -name '*.pyi' \) ! -name '*_test.go') \
           go.mod go.sum setup.py pyproject.toml VERSION

.PHONY: help demo install test check lint bench fuzz go-tests python-tests torch-tests readme-tests totals venv clean

help:
	@echo 'make demo      build, install into .venv, train on a graph larger than its memory (under 5 minutes)'
	@echo 'make install   build the wheel and install it into .venv'
	@echo 'make check     the fast tests (under 2 minutes)'
	@echo 'make test      all tests'
	@echo 'make lint      house rules, formatters, linters, type checker'
	@echo 'make fuzz      every fuzz target for FUZZTIME (10s)'
	@echo 'make bench     micro-benchmarks of the Go packages'
	@echo 'make clean     remove everything that was built here'

# ---- set-up ----------------------------------------------------------------

venv: $(VENV)/.tools

$(VENV)/.tools: tests/requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "goagnes needs Python 3.11 or later; this is " + sys.version.split()[0] + ": make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check -r tests/requirements.txt
	@touch $@

dist/.wheel: $(SOURCES) | $(VENV)/.tools
	@rm -rf dist && mkdir -p dist
	$(BIN)/python -m pip wheel -q --disable-pip-version-check --no-deps -w dist .
	@touch $@

$(VENV)/.installed: $(VENV)/.tools dist/.wheel
	$(BIN)/python -m pip install -q --disable-pip-version-check --force-reinstall --no-deps dist/*.whl
	@touch $@

install: $(VENV)/.installed

# ---- for people ------------------------------------------------------------

demo: install
	$(BIN)/python docs/demo/demo.py demo

bench:
	go test -run '^$$' -bench . -benchtime 1s ./layout/... ./kernels/... ./goagnes/...

# ---- tests -----------------------------------------------------------------

check: install
	go test -short ./...
	$(PYTEST) -m 'not slow and not torch and not readme' tests python/tests

lint: venv
	go test -count=1 ./tests/lint

test: install
	@rm -rf $(RESULTS) && mkdir -p $(RESULTS)
	-@$(MAKE) --no-print-directory go-tests
	-@$(MAKE) --no-print-directory python-tests
	-@$(MAKE) --no-print-directory torch-tests
	@$(MAKE) --no-print-directory totals

# All of Go; then the parts with goroutines under the race detector, freed memory
# being overwritten (tag invariants); then without cgo the portable kernels and the
# networks upon them. A failed run does not keep the next from running: totals
# tells. -count=1: the rules of tests/lint look at files that the test cache does
# not know of.
go-tests:
	@mkdir -p $(RESULTS)
	-go test -count=1 -timeout 15m -json ./... > $(RESULTS)/go.json
	-go test -race -short -tags invariants -timeout 15m -json ./layout/... ./goagnes/... ./kernels/... ./capi/... $(SUITES) > $(RESULTS)/go-race.json
	-CGO_ENABLED=0 go test -short -timeout 10m -json ./kernels/... ./goagnes/nn > $(RESULTS)/go-nocgo.json

python-tests: install
	@mkdir -p $(RESULTS)
	$(PYTEST) -m 'not torch and not readme' --junitxml=$(RESULTS)/python.xml tests python/tests

# Only where an interpreter with torch is named: torch takes gigabytes.
torch-tests: dist/.wheel
	@mkdir -p $(RESULTS)
ifeq ($(TORCH_PYTHON),)
	@echo 'torch tests: not run, TORCH_PYTHON names no interpreter with torch and torch_geometric'
else
	$(TORCH_PYTHON) -m pip install -q --disable-pip-version-check --force-reinstall --no-deps dist/*.whl
	$(TORCH_PYTHON) -m pytest -q -m torch --junitxml=$(RESULTS)/torch.xml tests python/tests
endif

# Every command of the README, in order.
readme-tests: install
	@mkdir -p $(RESULTS)
	$(PYTEST) -m readme --junitxml=$(RESULTS)/readme.xml tests/test_readme.py

# Inputs that were found are kept in testdata/fuzz beside the target.
fuzz:
	@mkdir -p $(RESULTS)/fuzz
	@tests/fuzz.sh $(FUZZTIME) $(RESULTS)/fuzz

totals:
	@$(BIN)/python tests/totals.py $(RESULTS)

clean:
	rm -rf $(VENV) $(RESULTS) build dist demo _native python/*.egg-info
