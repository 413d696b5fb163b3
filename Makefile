# `make demo` and `make test` need Python 3.11 or later, make and git; they set up the rest in .venv.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3.14 python3 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
unexport PYTHONDONTWRITEBYTECODE  # the tests start hundreds of commands, which would all compile perdure

.PHONY: demo test test-quick test-slow test-frameworks frameworks-table test-processors conformance fuzz docs test-docs check bench bench-watching bench-running bench-gpu bench-strategies bench-studies bench-pages bench-start bench-scale bench-peers coverage power verdicts pins pictures notebooks lock package test-lowest test-pythons lint-files clean

demo: .venv/train
	$(BIN)/perdure run
	$(BIN)/perdure plot curves runs/split-digits-replay-* -o runs/stability_gap.png --tasks 1 --dpi 110 & \
	$(BIN)/perdure report runs/split-digits-replay-* -o runs/report.html && wait $$!
	@echo "Figure: runs/stability_gap.png. Report: runs/report.html."
	@echo "To call the command: $(BIN)/perdure --help, or 'source $(BIN)/activate' and then 'perdure --help'."

# Two processes with one thread each, which take whole files, so that neither waits long for the
# other.
test: check
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow" -n 2 --dist loadfile --no-loadscope-reorder

# Two minutes on two cores, to run while working; `make test` decides.
test-quick: .venv/dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow and not long" -n 2 --dist loadfile -q

test-slow: .venv/dev
	$(BIN)/python -m pytest -m slow

# The site in site/, from mkdocs.yml, docs/ and what docs/scripts/ generates, in an environment of its own.
DOCS := .venv-docs
docs: $(DOCS)/installed
	$(DOCS)/bin/python -m docs.scripts.build
	@echo "Open site/index.html in a browser; no server is needed."

$(DOCS)/installed: pyproject.toml requirements.lock
	@test -n "$(PYTHON)" || { echo "perdure needs Python 3.11 or later; none was found. Install it, or name one: make PYTHON=/path/to/python"; exit 2; }
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip --disable-pip-version-check --quiet install -c requirements.lock hatchling editables
	$(DOCS)/bin/python -m pip --disable-pip-version-check --quiet install -c requirements.lock --no-build-isolation -e ".[docs]"
	@touch $@

# Every page of the site in Chromium, on a phone and on a desktop; and the tutorials that train.
test-docs: docs .venv/dev
	$(BIN)/python -m pytest -m slow tests/test_site.py tests/test_tutorials.py

# The fast tests with the kernels of other processors; those without PyTorch also on Python 3.13.
test-processors: .venv/dev
	$(BIN)/python -m tests.processors

# Every command reads ten thousand corrupted files; FUZZ="--inputs 500 --seed 7" changes how many.
fuzz: .venv/dev
	$(BIN)/python -m tests.fuzz $(FUZZ)

check: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/dev
	$(BIN)/python benchmarks/bench.py

# The cost of evaluating a training loop, relative to a loop with the evaluation written by hand.
bench-watching: .venv/dev
	$(BIN)/python benchmarks/watching.py

# The cost of an iteration of `perdure run`, relative to the same loop (needs MNIST).
bench-running: .venv/dev
	$(BIN)/python benchmarks/running.py

# The same on a CUDA device: evaluating a loop, `perdure run` with one seed and more, and what the GPU can do with several.
bench-gpu: .venv/dev
	$(BIN)/python benchmarks/watching_cuda.py
	$(BIN)/python benchmarks/running_cuda.py
	$(BIN)/python benchmarks/streams_cuda.py

# The cost of a step of each strategy, relative to naive.
bench-strategies: .venv/dev
	$(BIN)/python benchmarks/strategies.py

# The overhead of a study over its runs, and a comparison of the executors.
bench-studies: .venv/dev
	$(BIN)/python benchmarks/studies.py

# The cost of a report of 100 runs and of the live page with 10,000 runs (needs Chromium).
bench-pages: .venv/dev
	$(BIN)/python benchmarks/pages.py

# How long commands take from a cold start, and a run to its first iteration; BEFORE=PATH compares a checkout.
bench-start: .venv/dev
	$(BIN)/python benchmarks/cold_start.py $(BEFORE)

# How cost grows with iterations, tasks, evaluations and runs.
bench-scale: .venv/dev
	$(BIN)/python benchmarks/scale.py

# Another library doing the same work, in its own environment.
PEERS := .venv-peers
PEERS_PIP := $(PEERS)/bin/python -m pip --disable-pip-version-check --quiet install
bench-peers: .venv/dev $(PEERS)/avalanche
	$(BIN)/python benchmarks/watching.py --only floor --iterations 30
	$(PEERS)/bin/python benchmarks/peers/avalanche_loop.py --iterations 30

# PyTorch first, at exactly our version, and named again so that nothing replaces it.
$(PEERS)/avalanche:
	$(PYTHON) -m venv $(PEERS)
	$(PEERS_PIP) torch==2.13.0
	$(PEERS_PIP) torch==2.13.0 torchvision==0.28.0 avalanche-lib==0.6.0 fastai==2.8.12
	$(PEERS_PIP) -c requirements.lock torch==2.13.0 pytest hypothesis -e ".[train]"
	@touch $@

# Runs inside other frameworks, each in an environment where it installs next to our PyTorch.
# `make test` runs those inside Lightning and transformers too; the others are skipped there.
FRAMEWORKS := .venv-frameworks
test-frameworks: $(FRAMEWORKS)/installed $(PEERS)/avalanche
	OMP_NUM_THREADS=1 $(FRAMEWORKS)/bin/python -m pytest tests/frameworks -rs
	OMP_NUM_THREADS=1 $(PEERS)/bin/python -m pytest tests/frameworks -rs

# The table of docs/frameworks.md: what each framework's own evaluation does to the weights.
frameworks-table: $(FRAMEWORKS)/installed $(PEERS)/avalanche
	@$(FRAMEWORKS)/bin/python -m tests.frameworks.table
	@$(PEERS)/bin/python -m tests.frameworks.table

$(FRAMEWORKS)/installed: tests/frameworks/requirements.txt
	$(PYTHON) -m venv $(FRAMEWORKS)
	$(FRAMEWORKS)/bin/python -m pip --disable-pip-version-check --quiet install torch==2.13.0
	$(FRAMEWORKS)/bin/python -m pip --disable-pip-version-check --quiet install -r $<
	$(FRAMEWORKS)/bin/python -m pip --disable-pip-version-check --quiet install --no-deps -e .
	@touch $@

# The table of docs/conformance.md: the vectors in conformance/ given to other tools' own code.
# Renate requires Python below 3.11, but its metrics need nothing else; continuum does not state
# that it needs six; CapyMOA needs Java.
CONFORMANCE := .venv-conformance
conformance: $(CONFORMANCE)/installed
	for adapter in conformance/adapters/*.py; do $(CONFORMANCE)/bin/python conformance/tools.py $$adapter || exit 1; done
	@$(CONFORMANCE)/bin/python conformance/tools.py

$(CONFORMANCE)/installed: conformance/requirements.txt
	$(PYTHON) -m venv $(CONFORMANCE)
	$(CONFORMANCE)/bin/python -m pip --disable-pip-version-check --quiet install torch==2.13.0
	$(CONFORMANCE)/bin/python -m pip --disable-pip-version-check --quiet install -r $<
	$(CONFORMANCE)/bin/python -m pip --disable-pip-version-check --quiet install --no-deps --ignore-requires-python renate==0.5.2
	@touch $@

# Pins the datasets to the current revisions on the hub; review the difference before you commit.
pins: .venv/dev
	$(BIN)/python -m perdure.data._hub

# The figures, screenshots and the animation of docs/gallery.md (trains 57 runs, needs Chromium).
pictures: .venv/dev
	PATH="$(CURDIR)/$(BIN):$$PATH" sh docs/pictures.sh runs/pictures

# What the cells of docs/notebooks show, executed from the start.
notebooks: .venv/dev
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.notebooks

coverage: .venv/dev
	$(BIN)/python benchmarks/coverage.py
	$(BIN)/python benchmarks/coverage_matrix.py
	$(BIN)/python benchmarks/coverage_control.py

# Size and power of the tests in `perdure compare`, as in docs/statistics.md.
power: .venv/dev
	$(BIN)/python benchmarks/power.py

# Error rates and power of `perdure check`, as in docs/check.md.
verdicts: .venv/dev
	$(BIN)/python benchmarks/verdicts.py

# A stamp file per set of packages: a second call skips what is installed.
.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "perdure needs Python 3.11 or later; none was found. Install it, or name one: make PYTHON=/path/to/python"; exit 2; }
	@echo "setting up .venv with $$($(PYTHON) --version) (once)"
	$(PYTHON) -m venv .venv

# PyTorch first and by its exact version, so that pip can use a smaller build if one is available.
.venv/train: pyproject.toml requirements.lock | .venv/bin/python
	@echo "installing PyTorch and the rest (once, some minutes)"
	$(PIP) install -c requirements.lock hatchling editables
	$(PIP) install $$(grep '^torch==' requirements.lock)
	$(PIP) install -c requirements.lock --no-build-isolation -e ".[train,report]"
	@touch $@

.venv/dev: .venv/train
	$(PIP) install -c requirements.lock --no-build-isolation -e ".[train,dev]"
	@touch $@

# Resolves every extra in a temporary environment and writes the resulting versions.
lock:
	rm -rf .lock && $(PYTHON) -m venv .lock
	.lock/bin/pip install --quiet hatchling editables torch==2.13.0
	.lock/bin/pip install --quiet --no-build-isolation -e ".[all,dev,docs]"
	sed -n '/^#/p' requirements.lock > .lock/head
	.lock/bin/pip freeze --exclude-editable --exclude pip | sed 's/+cpu$$//' | cat .lock/head - > requirements.lock
	rm -rf .lock

# The wheel and the source archive in dist/, checked, and tried in empty environments.
PACKAGING := .venv-packaging
package: $(PACKAGING)/installed
	$(PACKAGING)/bin/python -m tests.packaging.wheel

# The tests with the lowest versions that pyproject.toml allows; PyTorch stays at the locked one.
test-lowest: $(PACKAGING)/installed
	$(PACKAGING)/bin/python -m tests.packaging.lowest

# The tests that need no PyTorch, on every Python from 3.11 that is on PATH or known to pyenv.
test-pythons:
	$(PYTHON) -m tests.packaging.pythons

# Files that other programs read: the workflow, templates, hooks, citation and container file.
lint-files: $(PACKAGING)/installed
	$(PACKAGING)/bin/zizmor --quiet --offline .github
	$(PACKAGING)/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(PACKAGING)/bin/check-jsonschema --builtin-schema vendor.github-issue-forms \
		$(filter-out %/config.yml,$(wildcard .github/ISSUE_TEMPLATE/*.yml))
	$(PACKAGING)/bin/check-jsonschema --builtin-schema vendor.citation-file-format CITATION.cff
	$(PACKAGING)/bin/pre-commit validate-config
	$(PACKAGING)/bin/hadolint packaging/Containerfile

$(PACKAGING)/installed: tests/packaging/requirements.txt
	$(PYTHON) -m venv $(PACKAGING)
	$(PACKAGING)/bin/python -m pip --disable-pip-version-check --quiet install -r $<
	@touch $@

clean:
	rm -rf dist .venv .venv-docs .venv-peers .venv-frameworks .venv-conformance .venv-packaging .venv-lowest .docs .mkdocs.yml .cache site .mypy_cache .pytest_cache .ruff_cache .hypothesis
