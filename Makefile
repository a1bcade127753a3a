# make demo          a job from stack to results on this machine   (CLOUD=gcp: on a GCP, KEEP=1: leave everything up)
# make stack         write a new team's stack file                 (TEAM=vision ENV=prod CLOUD=aws)
# make queue         edit a queue of a stack file                  (STACK=vision-dev DO=add NAME=gpu SET='item.gpus=1 …')
# make preview       show what a stack would create, under the policy pack    (STACK=vision-dev)
# make review        show what a change does to a stack, dangers first        (STACK=vision-dev BASE=main)
# make worker        build the worker's image                      (PUSH=REGISTRY: push it, ARCH=arm64: for arm64)
# make test          run lint and the tests                        (ALL=1: slow and unchanged ones, too, as in CI)
# make test-fast     run the tests of the inner loop
# make test-images   test the worker for arm64, and in images with another C library or none (needs apt)
# make lint          check style, types and workflows
# make format        format the code
# make bench         measure the figures in the documents          (ONLY=preview)
# make lock          update the locked dependencies
# make clean         remove what make has made here
# Each installs what it needs, on a machine with Python 3.11, make, git and Go.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
PYTHON ?= python3
# Downloads and figures, without a line for each package.
BRIEFLY := 2>&1 | awk '!/^ [-+~] / { print; fflush() }'
BIN := .venv/bin
INSTALLED := .venv/.installed
# Half of the tests' time is spent waiting: for two cores.
JOBS ?= 6
# CI runs everything.
ALL ?= $(CI)
QUICK := tests/unit tests/figures tests/components tests/policy tests/plugin
STACK ?= vision-dev
CLOUD ?= aws
BASE ?= main
# The cloud of the stack, by its file.
OF_STACK = $(if $(shell grep -s '^ *tidemill:cloud: *gcp' stacks/Pulumi.$(STACK).yaml),gcp,aws)
OF_ARCH = $(if $(ARCH),--architecture $(ARCH))
# A default that was used is shown.
SAY_STACK = $(if $(filter file,$(origin STACK)),@echo "STACK=$(STACK) (STACK=NAME takes another one)" >&2)

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Activated environments of the caller must not leak into ours.
unexport VIRTUAL_ENV PYTHONPATH
# The tests start thousands of interpreters, and each one would compile our modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo kernel test servers test-images worker lint format lines lock stack queue preview review engine bench clean test-fast

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile

.venv/bin/uv:
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet 'uv>=0.5,<1'

# Everything, for tests, benchmarks and releases.
$(INSTALLED): requirements.txt pyproject.toml | .venv/bin/uv
	@echo "Installing everything that is locked into .venv"
	@$(BIN)/uv pip sync --compile-bytecode --python $(BIN)/python --require-hashes requirements.txt $(BRIEFLY)
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --editable .
	@touch $@ .venv/.aws .venv/.gcp

# The part of it that one cloud's demo and stacks need: a quarter of its size.
.venv/.aws .venv/.gcp: .venv/.%: requirements-%.txt pyproject.toml | .venv/bin/uv
	@echo "Installing what $* stacks need into .venv"
	@$(BIN)/uv pip install --no-deps --python $(BIN)/python --require-hashes --requirements $< $(BRIEFLY)
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --editable .
	@touch $@

# There is no other part.
.venv/.%:
	@echo "CLOUD=$*: there is no such cloud. Write aws or gcp." >&2; exit 2

# The engine and localcloud's Pub/Sub are built once a version, into the user's cache folder.
engine: $(INSTALLED)
	@$(BIN)/python -m localcloud engine

# Before anything is built: what a kernel without namespaces leaves out.
kernel:
	@$(PYTHON) -m localcloud.machines.namespaces

demo: kernel .venv/.$(CLOUD)
	@$(BIN)/python -m localcloud engine --cloud $(CLOUD)
	@$(BIN)/python -m examples.photo_tiles.demo --cloud $(CLOUD) $(if $(KEEP),--keep)

PYTEST = $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder

# `make -n test` would run a recipe that holds the name of make itself.
AGAIN = $(MAKE) --no-print-directory

# Lint runs next to the builds and tests, and what it says follows theirs. A failure of either is a failure.
test: $(INSTALLED)
	@out=$$(mktemp); trap 'kill $$lint 2>/dev/null || true; rm -f "$$out"' EXIT; \
	$(AGAIN) lint >"$$out" 2>&1 & lint=$$!; \
	$(AGAIN) -j2 engine servers; \
	tests=0; $(PYTEST) $(if $(ALL),,--leave-out) --ignore tests/images tests || tests=$$?; \
	linted=0; wait $$lint || linted=$$?; cat "$$out"; \
	exit $$((tests | linted))

test-fast: $(INSTALLED)
	@$(PYTEST) -m 'not engine' -n 2 $(QUICK)

# What the store's contract is held against, and what runs TypeScript, built once per version like the engine.
servers: $(INSTALLED)
	@$(BIN)/python -m tests.store.servers
	@$(BIN)/python -m tests.engine.typescript

# It downloads Debian's packages and makes roots from them.
test-images: $(INSTALLED)
	@$(BIN)/python -m pytest tests/images

# The worker as a tree of its own, next to whatever an image contains. It needs no Docker; for another architecture, apt.
worker: .venv/.$(CLOUD)
	@$(BIN)/python -m worker_image build $(OF_ARCH)
	@$(if $(PUSH),$(BIN)/python -m worker_image push $(OF_ARCH) "$(PUSH)")

lint: $(INSTALLED) lines
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/python -m tests.unchanged $(if $(ALL),--all) $(BIN)/pyright
	@$(BIN)/python -m ops workflows

format: $(INSTALLED)
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format --quiet .

# localcloud is scaffolding: it stays smaller than what it holds up.
lines:
	@count() { git ls-files -- "$$@" | grep -E '\.(py|go|yaml|sh)$$' | xargs cat | wc -l; }; \
	product=$$(count __main__.py bootstrap components ops plugin policy shared tidemill worker_image); \
	scaffold=$$(count localcloud); \
	echo "lines: product $$product, localcloud $$scaffold"; \
	test $$scaffold -lt $$product || { echo "localcloud must have fewer lines than the product" >&2; exit 1; }

# Writes requirements.txt anew: hashed, without index addresses; and two parts of it: what one cloud's stacks need, and
# what the package of components needs, which the engine installs where a program of another language uses it. Of
# scikit-image the demo takes the photographs alone.
LOCK = $(BIN)/uv pip compile --quiet --python-version 3.11 --generate-hashes --no-emit-index-url --no-header
PHOTOGRAPHS = $(addprefix --no-emit-package ,imageio lazy-loader networkx numpy scipy tifffile)
lock: $(INSTALLED)
	@$(LOCK) --extra aws --extra gcp --extra parquet --group dev --output-file requirements.txt pyproject.toml
	@for cloud in aws gcp; do \
	  $(LOCK) --constraints requirements.txt --extra $$cloud --group $$cloud $(PHOTOGRAPHS) \
	    --output-file requirements-$$cloud.txt pyproject.toml; done
	@$(LOCK) --constraints requirements.txt --output-file plugin/requirements.txt plugin/requirements.in

stack: .venv/.$(CLOUD)
	$(if $(and $(TEAM),$(ENV)),,$(error name the team and the environment: make stack TEAM=vision ENV=dev))
	@$(BIN)/python -m ops stack --team "$(TEAM)" --env "$(ENV)" --cloud $(CLOUD)

queue: .venv/.$(OF_STACK)
	$(if $(and $(DO),$(NAME)),,$(error say what to do with which queue: make queue STACK=vision-dev DO=add NAME=gpu (or DO=set, DO=remove)))
	@$(BIN)/python -m ops queue $(DO) --stack $(STACK) $(NAME) $(SET)

preview: .venv/.$(OF_STACK)
	$(SAY_STACK)
	@$(BIN)/python -m localcloud engine --cloud $(OF_STACK)
	@$(BIN)/python -m ops preview --stack $(STACK)

review: .venv/.$(OF_STACK)
	$(SAY_STACK)
	@$(BIN)/python -m localcloud engine --cloud $(OF_STACK)
	@$(BIN)/python -m ops review --stack $(STACK) --base $(BASE)

bench: engine
	@$(BIN)/python -m benchmarks $(ONLY)

clean:
	rm -rf .venv .localcloud .pytest_cache .ruff_cache .hypothesis
