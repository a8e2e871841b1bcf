# `make demo` and `make test` set everything up by themselves: Python from 3.11 on, make and gcc are all a machine needs.
# The first of these that is there and new enough; `make PYTHON=/path/to/python3 ...` takes another.
PYTHONS := python3.11 python3.12 python3.13 python3
PYTHON ?= $(firstword $(foreach each,$(PYTHONS),$(shell $(each) -c $(NEW_ENOUGH) 2> /dev/null)))
NEW_ENOUGH := "import sys; sys.version_info >= (3, 11) and print(sys.executable)"
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
WORKERS ?= 2
DAILY  := not slow and not covered_by

.PHONY: setup demo docs test test-slow coverage check bench wheels lock clean

BROWSERS := chromium chromium-browser google-chrome

setup: $(STAMP)
	@for each in $(BROWSERS); do command -v $$each > /dev/null && exit 0; done; \
	  echo "note: no browser, so that tests of the board and of reports in one are skipped: apt-get install chromium (firefox-esr: make test-slow)"

$(STAMP): requirements.txt pyproject.toml reproduction/pyproject.toml
	$(if $(PYTHON),,$(error no Python from 3.11 on among $(PYTHONS): install one, or say make PYTHON=/path/to/python3))
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . -e reproduction
	touch $@

demo: setup
	$(BIN)/tacit demo --out runs/demo

docs: setup  # the manual as a site: build/docs/index.html
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet docs build/docs

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

test: check
	$(BIN)/pytest -n $(WORKERS) --dist loadfile -m "$(DAILY)"

test-slow: setup  # what takes minutes: docs/deploy.md in network namespaces (as root), swarms, killed peers, whole experiments;
# what is skipped is said with the reason: what to install
	$(BIN)/pytest -rs -m "not ($(DAILY))"

# One test fills its process's disk, so that the measurement cannot be written either.
coverage: setup  # which lines of src the daily tests run, in the processes that they start too
	$(BIN)/pytest -n $(WORKERS) --dist loadfile -m "$(DAILY)" --cov --cov-report=term-missing:skip-covered \
	  --deselect tests/cli/test_peer_commands.py::test_a_fault_in_its_rounds_is_its_exit_code

bench: setup  # all of them run; fails at the end if one failed or missed its goal
	$(BIN)/python -m benchmarks

wheels: setup  # both distributions: dist/*.whl
	$(BIN)/pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist . ./reproduction

lock:  # regenerate requirements.txt from pyproject.toml: hashes only, no addresses; versions stay where they can
	$(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/pip install --quiet pip-tools
	$(VENV)-lock/bin/pip-compile --quiet --generate-hashes --no-emit-index-url --no-emit-trusted-host \
	  --no-emit-find-links --no-strip-extras --extra dev --unsafe-package tacit -o requirements.txt pyproject.toml

clean:
	rm -rf $(VENV) $(VENV)-lock .mypy_cache .ruff_cache .hypothesis runs build dist src/*.egg-info reproduction/build reproduction/src/*.egg-info
