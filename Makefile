# Everything a person needs: `make demo` and `make test`. Each sets up .venv first, if it is not there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# with the Delta jars, for what starts Spark
SPARK_READY := $(VENV)/.spark-ready
PEERS := .venv-bench
PEERS_READY := $(PEERS)/.ready
SCHEDULERS := .venv-schedules
SCHEDULERS_READY := $(SCHEDULERS)/.ready
STORES := .venv-stores
STORES_READY := $(STORES)/.ready
AUDITOR := .venv-audit
AUDITOR_READY := $(AUDITOR)/.ready
LOCKED := . bench tests/schedules tests/stores tests/audit
# make bench BENCH="allocation --rounds 5 --data /somewhere"; python -m bench --help tells more
BENCH ?=
# make demo ENGINE=spark: the same tables, made by Spark on this machine
ENGINE ?= local

.PHONY: help demo test soak bench check audit page-check contracts zip wheel lock clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

$(READY): requirements.lock setup.cfg pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "hindsight needs Python 3.11 or newer; $(PYTHON) is older. Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null \
		|| { echo "$(PYTHON) cannot make virtual environments; install its venv module (Debian: python3-venv)."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(READY)

$(SPARK_READY): $(READY)
	$(BIN)/python -m hindsight.jobs.running.delta_jars
	@touch $(SPARK_READY)

demo: $(if $(filter spark,$(ENGINE)),$(SPARK_READY),$(READY))  ## run the pipeline on data_samples into ./lake
	$(BIN)/hindsight run-pipeline --landing data_samples --lake lake --engine $(ENGINE)
	@echo
	@echo "Two queries to try:"
	@echo "  $(BIN)/hindsight sql --lake lake \"SELECT consumer_group, code, sentence FROM current_drift WHERE severity <> 'INFO'\""
	@echo "  $(BIN)/hindsight sql --lake lake \"SELECT broker_name, client_id, seconds, end_reason FROM broker_isolation ORDER BY seconds DESC\""
	@echo "The report, for a browser:"
	@echo "  $(CURDIR)/lake/report.html"

test: $(SPARK_READY)  ## run the tests, in two processes where there are two cores
	$(BIN)/python -m pytest -n auto --maxprocesses 2 --dist loadfile --no-loadscope-reorder

soak: $(SPARK_READY) $(SCHEDULERS_READY) $(STORES_READY)  ## run the long tests that `make test` leaves out
	HINDSIGHT_SOAK=1 $(BIN)/python -m pytest -m "soak or random"

$(PEERS_READY): bench/requirements.lock
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r bench/requirements.lock
	@touch $(PEERS_READY)

$(SCHEDULERS_READY): tests/schedules/requirements.lock
	$(PYTHON) -m venv $(SCHEDULERS)
	$(SCHEDULERS)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $(SCHEDULERS_READY)

$(STORES_READY): tests/stores/requirements.lock
	$(PYTHON) -m venv $(STORES)
	$(STORES)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $(STORES_READY)

bench: $(SPARK_READY) $(PEERS_READY)  ## measure the pipeline beside its peers, into bench/records
	$(BIN)/python -m bench $(BENCH)

check: $(READY)  ## lint and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(AUDITOR_READY): tests/audit/requirements.lock
	$(PYTHON) -m venv $(AUDITOR)
	$(AUDITOR)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $(AUDITOR_READY)

audit: $(AUDITOR_READY)  ## known vulnerabilities of what the locks pin (asks the Python package index itself)
	$(AUDITOR)/bin/python tests/audit/audit_locks.py $(AUDITOR)/bin/pip-audit $(LOCKED:%=%/requirements.lock)

page-check: $(READY)  ## look at the report of ./lake in Chromium at 1440 and 390 px (make demo first)
	$(BIN)/python -m tests.chromium lake/report.html $(PICTURES)

contracts: $(READY)  ## docs/contracts.md from schemas/
	$(BIN)/python -m hindsight.schemas.contract_page > docs/contracts.md

zip: $(READY)  ## dist/hindsight.zip for spark-submit --py-files
	@mkdir -p dist
	@find hindsight conf schemas udfs jobs -name __pycache__ -exec rm -rf {} +
	$(BIN)/python -m zipfile -c dist/hindsight.zip hindsight

wheel: $(READY)  ## dist/rocketmq_hindsight-*.whl, to be installed elsewhere
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	@rm -rf build

lock:  ## write each requirements.lock from its requirements.in (needs uv)
	for place in $(LOCKED); do \
		uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
			--no-header $$place/requirements.in -o $$place/requirements.lock || exit 1; \
	done

clean:  ## remove what was made here, the environments excepted
	rm -rf dist build lake spark-warehouse .mypy_cache .ruff_cache .pytest_cache .hypothesis
