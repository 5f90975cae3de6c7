# The course's commands. Everything is installed into .venv; stamp files there remember what is done, so that a second
# call starts at once. On Windows without make: python -m pip install -e .[lab], then python -m hopperlab lab.

PYTHON   ?= python3
LAB_ARGS ?=
LESSONS  ?=
TEST_ARGS ?=
# How long `make site` launches settings of panels; `make panels` has no limit.
PANEL_SECONDS ?= 20
# Which CuPy: auto asks the NVIDIA driver (none found: no CuPy); 13, 12 or none decides.
CUDA     ?= auto
# Where the site's links to the repository and to Colab lead, https://github.com/OWNER/NAME; empty: the clone's origin.
REPOSITORY ?=

VENV   := .venv
BIN    := $(VENV)/bin
STAMPS := $(VENV)/stamps
# Without compiling: Python compiles what is imported, when it is, and keeps that also where the machine's settings (of many containers) say otherwise.
INSTALL := $(BIN)/python -P hopperlab/authoring/shipping/pip_progress.py install --no-compile
PINS   := $(STAMPS)/constraints.txt
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help lab test test-all test-every lint doctor install cupy gpu-test gpu-memcheck gpu-outputs notebooks exercises restamp check-notebooks panels site pdf slides bundle bench clean
.DELETE_ON_ERROR:
.NOTPARALLEL:

help:  ## list the targets
	@echo "make TARGET"
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | while IFS="$$(printf '\t')" read -r name text; do \
	    printf '  %-16s %s\n' "$$name" "$$text"; done
	@echo "Settings: PYTHON=python3.12   LAB_ARGS='--no-browser --port=8899'   TEST_ARGS='tests/runtime -x'   PANEL_SECONDS=20   CUDA=auto|13|12|none"

lab: $(STAMPS)/lab cupy  ## install what is missing, fill work/ and open JupyterLab on the landing page
	@echo "==> Starting JupyterLab"
	@$(BIN)/hopperlab lab $(LAB_ARGS)

# With TEST_ARGS only what they name runs, and nobody asks whether that visits the whole course.
PYTEST := $(BIN)/python -m pytest --dist worksteal -n
# One more than cores: some tests of the whole suite wait for a browser, a process, a time limit.
MORE   := $(shell expr 1 + `getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2`)
ASKED   = $(or $(TEST_ARGS),--visits)

test: $(STAMPS)/test cupy  ## install what is missing and run the tests for every change (about six minutes on two cores, nothing compiled yet)
	@echo "==> Running the tests; make test-all runs those marked thorough too"
	@$(PYTEST) auto -m "not thorough" $(ASKED)

test-all: $(STAMPS)/test cupy  ## install what is missing and run every test (about 25 minutes on two cores)
	@echo "==> Running every test"
	@$(PYTEST) $(MORE) $(ASKED)

test-every: $(STAMPS)/test cupy  ## every case, also those that repeat a path of test-all (over an hour on two cores)
	@echo "==> Running every case of every test"
	@$(PYTEST) $(MORE) --visits --every-case

lint: $(STAMPS)/test  ## ruff over the whole tree, mypy over the package
	@$(BIN)/python -m ruff check .
	@$(BIN)/python -m mypy

doctor: $(STAMPS)/lab cupy  ## check this machine
	@$(BIN)/hopperlab doctor

install: $(STAMPS)/lab cupy  ## only install

notebooks: $(STAMPS)/test  ## build lessons, solutions and exercises from their sources (outputs stay)
	@$(BIN)/python -m hopperlab.authoring build

exercises: $(STAMPS)/test  ## only solutions/ and exercises/, from solutions/sources
	@$(BIN)/python -m hopperlab.authoring exercises

restamp: $(STAMPS)/test  ## after a change: run what is stale in the emulator, keep what is the same, list what needs a GPU (LESSONS='05 09')
	@$(BIN)/python -m hopperlab.authoring restamp $(LESSONS)


check-notebooks: $(STAMPS)/test  ## say which stored outputs are stale or missing
	@$(BIN)/python -m hopperlab.authoring check

gpu-test: $(STAMPS)/test cupy  ## on a Hopper machine: only the tests that need the GPU
	@$(BIN)/python -m pytest -m gpu $(TEST_ARGS)

# Tests of tests/gpu that choose shapes for kernels, and tests of the emulator that --differential repeats on the GPU.
MEMCHECK_TESTS := copies_on_gpu.py dependent_products_on_gpu.py variants_on_gpu.py pitches_on_gpu.py chains_on_gpu.py two_gpus_on_gpu.py tools_on_gpu.py::test_both_places_tell_the_same_events
MEMCHECK_DIFFERENTIAL := $(patsubst %,tests/kernels/test_%.py,attention attention_backward attention_fp8 banks_kernels beside_ladder chain clusters copies drawn_choices fp8 fp8_grouped \
    kernels_run ladder mbarrier_kernels mixed tiles_and_stores variants) tests/emulator/hazards/test_no_false_alarms.py tests/lessons/test_l12_shared_tiles.py

gpu-memcheck: $(STAMPS)/test cupy  ## on a Hopper machine: every kernel under compute-sanitizer's memcheck, and its recording
	@$(BIN)/python -m hopperlab.measure.profile.memcheck --out hopperlab/recordings --tests $(MEMCHECK_TESTS:%=tests/gpu/test_%) \
	    --differential $(MEMCHECK_DIFFERENTIAL)

gpu-outputs: $(STAMPS)/test cupy  ## on a Hopper machine: execute the notebooks and store their outputs
	@echo "==> Executing the notebooks on the GPU"
	@$(BIN)/python -m hopperlab.authoring execute --backend gpu

panels: $(STAMPS)/lab  ## launch every setting of the panels that the site shows (tens of minutes on two cores, once; LESSONS='05 09')
	@echo "==> Launching the panels' settings"
	@$(BIN)/python -m hopperlab.authoring panels $(LESSONS)

site: $(STAMPS)/site  ## render lessons, docs and API reference as HTML in build/site/html (PANEL_SECONDS=20 go into panels that move)
	@echo "==> Launching settings of panels for $(PANEL_SECONDS) s; make panels launches them all"
	@$(BIN)/python -m hopperlab.authoring panels --seconds $(PANEL_SECONDS)
	@echo "==> Rendering the site"
	@$(BIN)/python -m hopperlab.cli.site --repository "$(REPOSITORY)"

pdf: $(STAMPS)/site  ## the site, with the whole course and the cheat sheet as PDF beside it (needs Chromium, Chrome or Edge)
	@echo "==> Rendering the site and printing it"
	@$(BIN)/python -m hopperlab.cli.site --repository "$(REPOSITORY)" --pdf

slides: $(STAMPS)/site  ## render the workshop's slides, with speaker notes, in build/slides/html
	@echo "==> Rendering the slides"
	@$(BIN)/python -m hopperlab.authoring slides

bundle: $(STAMPS)/lab  ## a folder in build/bundle that installs and runs offline (BUNDLE_EXTRAS=cuda13 adds CuPy)
	@echo "==> Collecting the course and its wheels"
	@$(BIN)/python -m hopperlab.authoring bundle $(BUNDLE_EXTRAS)

bench: $(STAMPS)/test  ## time the emulator and the compiler
	@$(BIN)/python -m benchmarks.emulator
	@$(BIN)/python -m benchmarks.runtime

clean:  ## remove .venv and everything made by builds and tests (work/ stays)
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .mypy_cache *.egg-info
	find . -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +

# --- what the targets above rest on -----------------------------------------------------------------------------------

$(STAMPS)/venv:
	@echo "==> Making a Python environment in $(VENV)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "hopperlab needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make lab PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "Python has no venv module; on Debian or Ubuntu: apt install python3-venv"; exit 1; }
	@mkdir -p $(STAMPS)
	@touch $@

# The pins in use: constraints.txt, with the lines of constraints-cuda12.txt in place of its own under CUDA 12.
$(PINS): constraints.txt constraints-cuda12.txt | $(STAMPS)/venv
	@rm -f $(STAMPS)/cupy-*
	@cp constraints.txt $@

$(STAMPS)/lab: pyproject.toml $(PINS)
	@echo "==> Installing the course and JupyterLab (about 700 MB on disk; under a minute where pip has it in its cache, once)"
	@$(INSTALL) -c $(PINS) hatchling editables
	@$(INSTALL) -c $(PINS) --no-build-isolation -e '.[lab]'
	@touch $@

$(STAMPS)/test: $(STAMPS)/lab $(PINS)
	@echo "==> Installing what the tests need"
	@$(INSTALL) -c $(PINS) --no-build-isolation -e '.[test]'
	@touch $@

$(STAMPS)/site: $(STAMPS)/lab $(PINS)
	@echo "==> Installing what renders the site"
	@$(INSTALL) -c $(PINS) --no-build-isolation -e '.[site]'
	@touch $@

# CuPy comes only where a driver is found; without one this costs one look and installs nothing.
cupy: | $(STAMPS)/lab  ## add the CuPy that fits the NVIDIA driver (part of lab and test)
	@extra="$(CUDA)"; \
	case "$$extra" in \
	    auto) extra=$$($(BIN)/python hopperlab/runtime/gpu/driver.py) ;; \
	    none) extra= ;; \
	    *) extra=cuda$$extra ;; \
	esac; \
	if [ -n "$$extra" ] && [ ! -e $(STAMPS)/cupy-$$extra ]; then \
	    echo "==> NVIDIA driver found: adding CuPy ($$extra)"; \
	    if [ $$extra = cuda12 ]; then \
	        names=$$(sed -n 's/^\([a-z0-9-]*\)==.*/\1/p' constraints-cuda12.txt | paste -sd'|' -); \
	        { grep -vE "^($$names)==" constraints.txt; cat constraints-cuda12.txt; } > $(PINS); \
	    fi; \
	    $(INSTALL) -c $(PINS) --no-build-isolation -e ".[$$extra]" && \
	    touch $(PINS) $(STAMPS)/lab && { [ ! -e $(STAMPS)/test ] || touch $(STAMPS)/test; } && touch $(STAMPS)/cupy-$$extra; \
	fi
