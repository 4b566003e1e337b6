# make run    the demo: daemon, embedded runtime, example pods
# make test   linters, type checks and every test that needs no root
# make e2e    against real container runtimes (root; QEMU for e2e-vm)
# make e2e-cri    all tests through the CRI proxy, as long as those through NRI
# make walk   every law of placement for 100 000 steps on each of eight machines, twice, two hours
# make lock   requirements/*.lock anew: the versions that pyproject.toml allows; UPGRADE=1: the newest
# make install, make rollback, make uninstall    on a node (root); see docs/operating.md
#
# Everything happens in .venv, which is made and brought up to date as needed. All paths are
# relative, so the folder may have any name, spaces included.

SHELL := /bin/bash
.DEFAULT_GOAL := help

PREFIX ?= /usr/local
DESTDIR ?=
SYSCONFDIR ?= /etc

# The first Python that is new enough; `make PYTHON=/path/to/python` takes another.
PYTHON ?= $(shell for one in python3.11 python3 python3.12 python3.13 python3.14; do \
	"$$one" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& command -v "$$one" && break; done)

VENV_PYTHON := .venv/bin/python
PYTEST := $(VENV_PYTHON) -m pytest

# Not by .venv: its Python may be one that a service cannot use. Values reach the installer as they
# are, whatever characters they have.
quoted = '$(subst ','\'',$(1))'
INSTALLER = PREFIX=$(call quoted,$(PREFIX)) DESTDIR=$(call quoted,$(DESTDIR)) \
	SYSCONFDIR=$(call quoted,$(SYSCONFDIR)) \
	PYTHON_NAMED=$(call quoted,$(if $(filter file,$(origin PYTHON)),,$(PYTHON))) \
	"$(PYTHON)" -B -m scripts.install

# A venv knows its own path: in a copied or renamed folder it would point at the old one.
ifneq ($(shell cat .venv/installed 2>/dev/null),$(CURDIR))
.PHONY: .venv/installed
endif

.PHONY: help run test walk e2e e2e-host e2e-cri e2e-vm bench bench-runtime proto lock install rollback uninstall python clean

help:
	@sed -n 's/^# make/make/p' Makefile

run: .venv/installed
	.venv/bin/pinfold demo

test: .venv/dev-installed
	$(PYTEST) -ra --ignore=tests/e2e --ignore=tests/bench

walk: .venv/dev-installed
	PINFOLD_WALK_STEPS=$${PINFOLD_WALK_STEPS:-100000} $(PYTEST) -ra tests/property/test_kinds_walk.py tests/property/test_node_walk.py

e2e: e2e-host e2e-vm

e2e-host: .venv/dev-installed
	$(PYTEST) -ra tests/e2e/host

e2e-cri: .venv/dev-installed
	PINFOLD_E2E_WHOLE=1 $(PYTEST) -ra tests/e2e/host -k cri

e2e-vm: .venv/dev-installed
	$(PYTEST) -ra tests/e2e/vm

bench: .venv/dev-installed
	$(VENV_PYTHON) -m tests.bench $(BENCH_FLAGS)

bench-runtime: .venv/dev-installed
	$(PYTEST) -s -ra tests/bench/create_container.py tests/bench/create_container_cri.py

# The symlink is the root of the generated imports too: they read `from pinfold.nri.api import …`.
proto: .venv/dev-installed
	$(VENV_PYTHON) -m grpc_tools.protoc -I .typing --python_out=.typing --pyi_out=.typing \
		.typing/pinfold/nri/api/*.proto .typing/pinfold/cmd/control/api/*.proto
	$(VENV_PYTHON) -m grpc_tools.protoc -I . --python_out=. --pyi_out=. tests/e2e/api/*.proto

lock: .venv/dev-installed
	$(VENV_PYTHON) -m scripts.lock $(if $(UPGRADE),--upgrade)

install: python
	@$(INSTALLER) install

rollback: python
	@$(INSTALLER) rollback

uninstall: python
	@$(INSTALLER) uninstall

clean:
	rm -rf .venv build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage

python:
	@test -n "$(PYTHON)" || { echo "make: no Python 3.11 or newer" \
		"— apt-get install python3 python3-venv, or make PYTHON=/path/to/python" >&2; exit 2; }
	@command -v "$(PYTHON)" >/dev/null || { echo "make: PYTHON: '$(PYTHON)' is no program" \
		"— name one that is there" >&2; exit 2; }

# What is locked and nothing else, from whatever registry pip is configured for: two machines are
# alike. pip's own version does not matter, so that of the Python is taken.
LOCKED := -m pip --disable-pip-version-check install --quiet --require-hashes --requirement

.venv/installed: pyproject.toml requirements/build.lock requirements/run.lock | python
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { echo "make: $(PYTHON) cannot make a" \
		"virtual environment — apt-get install python3-venv" >&2; exit 2; }
	@# What another Python left there would be used, and not found to fit.
	"$(PYTHON)" -m venv --clear .venv
	$(VENV_PYTHON) $(LOCKED) requirements/build.lock
	$(VENV_PYTHON) $(LOCKED) requirements/run.lock
	$(VENV_PYTHON) -m pip install --quiet --no-deps --no-build-isolation --editable .
	@rm -f .venv/dev-installed
	@printf '%s\n' "$(CURDIR)" > .venv/installed

.venv/dev-installed: .venv/installed requirements/dev.lock
	$(VENV_PYTHON) $(LOCKED) requirements/dev.lock
	@touch .venv/dev-installed
