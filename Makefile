# Every target makes the local environment .venv once and reuses it until pyproject.toml changes.
PYTHON ?= python3
BIN := .venv/bin
# For the studies: folder of the data sets; seeds; fits at a time; where records and pages go;
# fewer cases.
DATA ?=
TRIALS ?=
JOBS ?=
OUT ?=
QUICK ?=
PIP := -m pip install -qq --disable-pip-version-check --root-user-action=ignore

.PHONY: demo test test-slow test-lowest test-kernels test-sdist test-torch mutants lint graph paper robustness outliers cells bench torture docs docs-test clean

demo: .venv/demo.stamp
	$(BIN)/corrtensor demo --force

test: lint
	@echo 'tests'
	@$(BIN)/python -m pytest -q -n 2 --brief

test-slow: .venv/test.stamp
	$(BIN)/python -m pytest -q -m slow

lint: .venv/test.stamp
	@echo 'ruff'
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .
	@echo 'mypy'
	@$(BIN)/mypy --no-error-summary

# OpenBLAS picks its kernels by processor, and the last digits with them: no result may hang on those.
KERNELS ?= Haswell Sandybridge Nehalem $(if $(shell grep -m 1 avx512f /proc/cpuinfo 2>/dev/null),SkylakeX)
THREADS ?= 1 2
NUMERIC_TESTS := $(addprefix tests/test_,oracles.py sweeps.py sums.py losses.py methods.py invariances.py numerical_trust.py \
	trust_properties.py large_modes.py stream.py scores.py checkpoint.py profile.py outlier_detector.py failed_fits.py \
	baselines.py bench.py search.py threads.py watching.py doubt.py spectra.py outlying_rows.py)
test-kernels: .venv/test.stamp
	@set -e; for kernel in $(KERNELS); do for threads in $(THREADS); do \
		echo "tests with the kernels for $$kernel, BLAS threads: $$threads"; \
		OPENBLAS_CORETYPE=$$kernel OPENBLAS_NUM_THREADS=$$threads \
			$(BIN)/python -m pytest -q -n 2 --brief -p no:cacheprovider $(NUMERIC_TESTS); \
	done; done

# The tests of the sdist against the wheel; SDIST_PYTHON must be one that every user may run.
SDIST_PYTHON ?= $(PYTHON)
test-sdist:
	@PYTHON=$(SDIST_PYTHON) .ci/test-sdist

# Faults put into the core one at a time: which does no test notice?
mutants: .venv/test.stamp
	@OPENBLAS_NUM_THREADS=1 $(BIN)/python tests/mutants.py $(FAULTS)

# The picture of which room imports which, docs/rooms.svg.
graph: .venv/test.stamp
	$(BIN)/python tests/rooms.py

# Tensors of torch in and out; torch alone is a few gigabytes, so it is not among the test's needs.
test-torch: .venv/test.stamp
	$(BIN)/python $(PIP) torch
	$(BIN)/python -m pytest -q tests/test_citizen.py -k torch

# The core's tests on the lowest versions that pyproject.toml allows.
CORE_TESTS := $(addprefix tests/test_,estimators.py like_pca.py citizen.py bad_input.py losses.py invariances.py properties.py \
	storage.py checkpoint.py failed_fits.py methods.py baselines.py numerical_trust.py sums.py sweeps.py)
test-lowest: .venv-lowest/stamp
	.venv-lowest/bin/python -m pytest -q $(CORE_TESTS)

.venv-lowest/stamp: pyproject.toml
	test -x .venv-lowest/bin/python || $(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python $(PIP) --editable . 'pytest<9' pytest-timeout hypothesis 'pandas==2.2.*' \
		$$($(PYTHON) -c "import tomllib; print(*(d.replace('>=', '==') for d in tomllib.load(open('pyproject.toml', 'rb'))['project']['dependencies']))")
	touch $@

# The studies of studies/README.md. Records stay: stopped and started again, a run goes on.
# NAMES="table1 fig2" chooses among the paper's tables and figures.
NAMES ?= all
WHERE = $(if $(OUT),--out $(OUT))
RUN = $(if $(DATA),--data $(DATA)) $(if $(TRIALS),--trials $(TRIALS)) $(if $(JOBS),--jobs $(JOBS)) $(WHERE)
paper: .venv/studies.stamp
	$(BIN)/python -m studies.paper $(NAMES) $(RUN)

robustness: .venv/studies.stamp
	$(BIN)/python -m studies.robustness $(RUN) $(if $(QUICK),--quick)

outliers: .venv/studies.stamp
	$(BIN)/python -m studies.outliers $(RUN)

cells: .venv/studies.stamp
	$(BIN)/python -m studies.cells $(RUN) $(if $(QUICK),--quick)

bench: .venv/studies.stamp
	$(BIN)/python -m studies.bench $(WHERE) $(if $(QUICK),--quick)

# Mutated files, faults, many fits, for some minutes; docs/reliability.md quotes the figures.
MINUTES ?= 25
torture: .venv/studies.stamp
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m studies.torture --minutes $(MINUTES) --out $(or $(OUT),docs/records/torture.json)

# The gallery runs its scripts once; later builds run those that changed.
docs: .venv/docs.stamp
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

# The site in a browser, and every code block of its pages.
docs-test: docs
	$(BIN)/python -m pytest -q -m 'slow or not slow' tests/test_site.py tests/test_docs_blocks.py

.venv/docs.stamp: .venv/test.stamp
	$(BIN)/python $(PIP) --editable '.[docs]'
	touch $@

.venv/demo.stamp: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python $(PIP) --editable '.[demo]'
	touch $@

.venv/studies.stamp: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python $(PIP) --editable '.[studies]'
	touch .venv/demo.stamp $@

.venv/test.stamp: pyproject.toml
	@echo 'environment in .venv'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python $(PIP) --editable '.[test]'
	@touch .venv/demo.stamp .venv/studies.stamp $@

clean:
	rm -rf .venv .venv-lowest build dist .mypy_cache .ruff_cache .pytest_cache
	rm -rf docs/_build docs/auto_examples docs/api/generated docs/api/backreferences
