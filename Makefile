# Everything a person needs: `make demo` and `make test`. Each sets up .venv first, if it is not there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# with Spark and the Delta jars
SPARK_READY := $(VENV)/.spark-ready
# with all that tests, lint and types need, the Delta jars excepted
CHECKS_READY := $(VENV)/.checks-ready
INSTALL := -m pip install --quiet --disable-pip-version-check --require-hashes
# what fills .venv: uv takes a second where pip takes half a minute
UV := $(shell command -v uv)
FILL := $(if $(UV),uv pip install --quiet --python $(BIN)/python,$(BIN)/python -m pip install --quiet --disable-pip-version-check) --require-hashes
PEERS := .venv-bench
PEERS_READY := $(PEERS)/.ready
SCHEDULERS := .venv-schedules
SCHEDULERS_READY := $(SCHEDULERS)/.ready
STORES := .venv-stores
STORES_READY := $(STORES)/.ready
MODELS := .venv-models
MODELS_READY := $(MODELS)/.ready
MANUAL := .venv-manual
MANUAL_READY := $(MANUAL)/.ready
AUDITOR := .venv-audit
AUDITOR_READY := $(AUDITOR)/.ready
LOCKED := requirements.in requirements-spark.in requirements-gates.in requirements-mcp.in requirements-checks.in \
	bench/requirements.in tests/schedules/requirements.in tests/stores/requirements.in tests/audit/requirements.in \
	tests/manual/requirements.in tests/models/requirements.in
# make bench BENCH="allocation --rounds 5 --data /somewhere"; python -m bench --help tells more
BENCH ?=
# where there is Java; without it nothing starts Spark
JAVA := $(shell "$${JAVA_HOME:+$$JAVA_HOME/bin/}java" -version >/dev/null 2>&1 && echo yes)
# make demo ENGINE=spark: the same tables, made by Spark on this machine
ENGINE ?= local

.PHONY: help demo test soak bench check audit sbom page-check contracts manual zip wheel lock clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

$(READY): requirements.lock setup.cfg pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "hindsight needs Python 3.11 or newer; $(PYTHON) is older. Try: make PYTHON=python3.13 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null \
		|| { echo "$(PYTHON) cannot make virtual environments; install its venv module (Debian: python3-venv)."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(FILL) -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(READY)

$(SPARK_READY): $(READY) requirements-spark.lock
	$(FILL) -r requirements-spark.lock
	$(BIN)/python -m hindsight.jobs.running.delta_jars
	@touch $(SPARK_READY)

$(CHECKS_READY): $(READY) requirements-spark.lock requirements-gates.lock requirements-mcp.lock requirements-checks.lock
	$(FILL) -r requirements-spark.lock -r requirements-gates.lock -r requirements-mcp.lock \
		-r requirements-checks.lock
	@touch $(CHECKS_READY)

demo: $(if $(filter spark,$(ENGINE)),$(SPARK_READY),$(READY))  ## run the pipeline on data_samples into ./lake
	$(BIN)/hindsight run-pipeline --landing data_samples --lake lake --engine $(ENGINE)
	@echo
	@echo "Two queries to try:"
	@echo "  $(BIN)/hindsight sql --lake lake \"SELECT consumer_group, code, sentence FROM current_drift WHERE severity <> 'INFO'\""
	@echo "  $(BIN)/hindsight sql --lake lake \"SELECT broker_name, client_id, seconds, end_reason FROM broker_isolation ORDER BY seconds DESC\""
	@echo "The report, for a browser:"
	@echo "  $(CURDIR)/lake/report.html"

# what is compiled is kept, whatever the environment says: to rewrite each test module takes ten seconds a process.
# Three processes, as a quarter of the time each waits for Spark, a command or a page: two keep two cores busy for 76 %.
test: $(CHECKS_READY) $(if $(JAVA),$(SPARK_READY))  ## run the tests, in three processes; of Spark where Java is
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder

soak: $(CHECKS_READY) $(SPARK_READY) $(SCHEDULERS_READY) $(STORES_READY) $(MODELS_READY) $(MANUAL_READY)  ## run the long tests that `make test` leaves out
	HINDSIGHT_SOAK=1 $(BIN)/python -m pytest -o faulthandler_timeout=7200 -m "soak or random"

$(PEERS_READY): bench/requirements.lock
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python $(INSTALL) -r bench/requirements.lock
	@touch $(PEERS_READY)

$(SCHEDULERS_READY): tests/schedules/requirements.lock
	$(PYTHON) -m venv $(SCHEDULERS)
	$(SCHEDULERS)/bin/python $(INSTALL) -r $<
	@touch $(SCHEDULERS_READY)

$(STORES_READY): tests/stores/requirements.lock
	$(PYTHON) -m venv $(STORES)
	$(STORES)/bin/python $(INSTALL) -r $<
	@touch $(STORES_READY)

$(MODELS_READY): tests/models/requirements.lock
	$(PYTHON) -m venv $(MODELS)
	$(MODELS)/bin/python $(INSTALL) --no-deps -r $<
	@touch $(MODELS_READY)

bench: $(CHECKS_READY) $(SPARK_READY) $(PEERS_READY)  ## measure the pipeline beside its peers, into bench/records
	$(BIN)/python -m bench $(BENCH)

check: $(CHECKS_READY)  ## lint and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(AUDITOR_READY): tests/audit/requirements.lock
	$(PYTHON) -m venv $(AUDITOR)
	$(AUDITOR)/bin/python $(INSTALL) -r $<
	@touch $(AUDITOR_READY)

audit: $(AUDITOR_READY)  ## known vulnerabilities of what the locks pin (asks the Python package index itself)
	$(AUDITOR)/bin/python tests/audit/audit_locks.py $(AUDITOR)/bin/pip-audit $(LOCKED:.in=.lock)

sbom: $(CHECKS_READY) $(AUDITOR_READY) wheel  ## what the wheel holds and needs, with licences, beside it (CycloneDX)
	$(AUDITOR)/bin/python tests/audit/bill_of_materials.py $(BIN)/python $$(ls -t dist/*.whl | head -1) \
		requirements.lock requirements-spark.lock requirements-gates.lock requirements-mcp.lock

page-check: $(CHECKS_READY)  ## look at the report of ./lake in Chromium at three widths (make demo first)
	$(BIN)/python -m tests.page.browser lake/report.html $(PICTURES)

contracts: $(READY)  ## docs/contracts.md from schemas/
	$(BIN)/python -m hindsight.schemas.contract_page > docs/contracts.md

$(MANUAL_READY): tests/manual/requirements.lock
	$(PYTHON) -m venv $(MANUAL)
	$(MANUAL)/bin/python $(INSTALL) -r $<
	@touch $(MANUAL_READY)

manual: $(MANUAL_READY)  ## the manual as a site that can be searched, in site/ (mkdocs-material)
	NO_MKDOCS_2_WARNING=1 $(MANUAL)/bin/mkdocs build --strict --quiet
	@echo "python3 -m http.server --directory site shows it; the search needs a server."

zip: $(READY)  ## dist/hindsight.zip for spark-submit --py-files
	@mkdir -p dist
	@find hindsight conf schemas udfs jobs -name __pycache__ -exec rm -rf {} +
	$(BIN)/python -m zipfile -c dist/hindsight.zip hindsight

wheel: $(READY)  ## dist/rocketmq_hindsight-*.whl, to be installed elsewhere
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	@rm -rf build

lock:  ## write each lock from its list of requirements (needs uv)
	for listed in $(LOCKED); do \
		uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
			--no-header $$listed -o $${listed%.in}.lock || exit 1; \
	done

clean:  ## remove what was made here, the environments excepted
	rm -rf dist build site lake spark-warehouse .mypy_cache .ruff_cache .pytest_cache .hypothesis
