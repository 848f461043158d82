# make run | test | law | browser | cluster | image | sanitize | real | lint | clean. `make run PYTHON=python3.12` picks the interpreter.

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python -m
READY := $(VENV)/.ready
PULLED := qwen2.5-coder-1.5b qwen2.5-coder-0.5b
PAIR := --model qwen2.5-coder-1.5b --draft model:qwen2.5-coder-0.5b --k 4

.PHONY: run test law browser cluster image sanitize real lint clean

run: $(READY)
	$(RUN) paceline generate --color --stats "def read_lines(path):" < /dev/null

test: lint
	$(RUN) pytest --numprocesses 2

lint: $(READY)
	$(RUN) ruff check
	$(RUN) ruff format --check
	$(RUN) mypy

law: $(READY)
	$(RUN) pytest -m long tests/law

# Finds a Chromium, or installs Debian's; SCREENSHOTS=folder keeps what it saw.
browser: $(READY)
	chromium=$$(scripts/chromium.sh) && CHROMIUM=$$chromium $(RUN) pytest -m browser tests/browser

# Ray comes into the environment to stay, so later runs of make test try the cluster, too.
cluster: $(READY)
	$(RUN) pip install --disable-pip-version-check --quiet --constraint requirements-dev.txt --editable ".[cluster]"
	$(RUN) pytest tests/cluster

# Podman or Docker, whichever is there.
image:
	engine=$$(command -v podman || command -v docker) || { \
	  echo "Neither podman nor docker is installed; one of them builds the image." >&2; exit 1; }; \
	$$engine build -f deploy/Containerfile -t paceline .

sanitize: $(READY)
	PYTHON=$(VENV)/bin/python scripts/sanitize_kernels.sh

real: $(READY)
	for model in $(PULLED); do $(RUN) paceline pull $$model || exit 1; done
	$(RUN) pytest -m real
	$(RUN) paceline certify --parity $(PAIR) --batch 1
	$(RUN) paceline certify --parity $(PAIR) --batch 4
	$(RUN) paceline certify --parity $(PAIR) --batch 1 --temperature 0.8 --seed 7
	$(RUN) paceline certify --parity $(PAIR) --batch 4 --temperature 0.8 --seed 7

# torch first and pinned, so that the package's wider range finds it there.
$(READY): pyproject.toml requirements-dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Paceline needs Python 3.11 or newer; name one: make PYTHON=python3.12" >&2; exit 1; }
	@test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "No virtual environment could be made; install Python's venv module." >&2; exit 1; }
	@echo "Installing into $(VENV); the first time takes some minutes."
	$(RUN) pip install --disable-pip-version-check --quiet --requirement requirements-dev.txt
	$(RUN) pip install --disable-pip-version-check --quiet --constraint requirements-dev.txt --editable ".[dev]"
	@touch $@

clean:
	rm -rf $(VENV) build/lib build/bdist.* dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find paceline scripts tests -name __pycache__ -type d -prune -exec rm -rf {} +
