# The course's commands. Everything is installed into .venv; stamp files there remember what is done, so that a second
# call starts at once. On Windows without make: python -m pip install -e .[lab], then python -m hopperlab lab.

PYTHON   ?= python3
LAB_ARGS ?=
TEST_ARGS ?=
# Which CuPy: auto asks the NVIDIA driver (none found: no CuPy); 13, 12 or none decides.
CUDA     ?= auto

VENV   := .venv
BIN    := $(VENV)/bin
STAMPS := $(VENV)/stamps
PIP    := $(BIN)/python -m pip --disable-pip-version-check
PINS   := $(STAMPS)/constraints.txt

.PHONY: help lab test doctor install cupy gpu-test gpu-memcheck gpu-outputs notebooks exercises precompiled check-notebooks site bundle bench clean
.DELETE_ON_ERROR:
.NOTPARALLEL:

help:  ## list the targets
	@echo "make TARGET"
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | while IFS="$$(printf '\t')" read -r name text; do \
	    printf '  %-16s %s\n' "$$name" "$$text"; done
	@echo "Settings: PYTHON=python3.12   LAB_ARGS='--no-browser --port=8899'   TEST_ARGS='tests/runtime -x'   CUDA=auto|13|12|none"

lab: $(STAMPS)/lab cupy  ## install what is missing, fill work/ and open JupyterLab on the landing page
	@echo "==> Starting JupyterLab"
	@$(BIN)/hopperlab lab $(LAB_ARGS)

test: $(STAMPS)/test cupy  ## install what is missing and run the whole test suite
	@echo "==> Running the tests"
	@$(BIN)/python -m pytest -n auto --dist loadfile $(TEST_ARGS)

doctor: $(STAMPS)/lab cupy  ## check this machine
	@$(BIN)/hopperlab doctor

install: $(STAMPS)/lab cupy  ## only install

notebooks: $(STAMPS)/test  ## build the notebooks from their sources (keeps outputs that are still fresh)
	@$(BIN)/python -m hopperlab.notebooks build

exercises: $(STAMPS)/test  ## write exercises/ from solutions/ (run after a change there)
	@$(BIN)/python -m hopperlab.notebooks exercises

precompiled: $(STAMPS)/test  ## compile the lessons' kernels for machines without a compiler (macOS)
	@$(BIN)/python -m hopperlab.notebooks precompile

check-notebooks: $(STAMPS)/test  ## say which stored outputs are stale or missing
	@$(BIN)/python -m hopperlab.notebooks check

gpu-test: $(STAMPS)/test cupy  ## on a Hopper machine: only the tests that need the GPU
	@$(BIN)/python -m pytest -m gpu $(TEST_ARGS)

# Tests of tests/gpu that choose shapes for kernels, and those of tests/kernels that --differential repeats on the GPU.
MEMCHECK_TESTS := copies_on_gpu.py variants_on_gpu.py pitches_on_gpu.py tools_on_gpu.py::test_both_places_tell_the_same_events
MEMCHECK_DIFFERENTIAL := attention attention_fp8 banks_kernels copies fp8 fp8_grouped kernels_run ladder mbarrier_kernels tiles_and_stores variants

gpu-memcheck: $(STAMPS)/test cupy  ## on a Hopper machine: every kernel under compute-sanitizer's memcheck, and its recording
	@$(BIN)/python -m hopperlab.measure.memcheck --out hopperlab/recordings --tests $(MEMCHECK_TESTS:%=tests/gpu/test_%) \
	    --differential $(MEMCHECK_DIFFERENTIAL:%=tests/kernels/test_%.py)

gpu-outputs: $(STAMPS)/test cupy  ## on a Hopper machine: execute the notebooks and store their outputs
	@echo "==> Executing the notebooks on the GPU"
	@$(BIN)/python -m hopperlab.notebooks execute --backend gpu

site: $(STAMPS)/site  ## render lessons, docs and API reference as HTML in build/site/html
	@echo "==> Rendering the site"
	@$(BIN)/python -m hopperlab.notebooks site

bundle: $(STAMPS)/lab  ## a folder in build/bundle that installs and runs offline (BUNDLE_EXTRAS=cuda13 adds CuPy)
	@echo "==> Collecting the course and its wheels"
	@$(BIN)/python -m hopperlab.notebooks bundle $(BUNDLE_EXTRAS)

bench: $(STAMPS)/test  ## time the emulator and the compiler
	@$(BIN)/python -m benchmarks.emulator
	@$(BIN)/python -m benchmarks.runtime

clean:  ## remove .venv and everything made by builds and tests (work/ stays)
	rm -rf $(VENV) build dist .pytest_cache *.egg-info
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
	@echo "==> Installing the course and JupyterLab (about 750 MB on disk; a minute or two, once)"
	@$(PIP) install --quiet -c $(PINS) hatchling editables
	@$(PIP) install --quiet -c $(PINS) --no-build-isolation -e '.[lab]'
	@touch $@

$(STAMPS)/test: $(STAMPS)/lab $(PINS)
	@echo "==> Installing what the tests need"
	@$(PIP) install --quiet -c $(PINS) --no-build-isolation -e '.[test]'
	@touch $@

$(STAMPS)/site: $(STAMPS)/lab $(PINS)
	@echo "==> Installing what renders the site"
	@$(PIP) install --quiet -c $(PINS) --no-build-isolation -e '.[site]'
	@touch $@

# CuPy comes only where a driver is found; without one this costs one look and installs nothing.
cupy: | $(STAMPS)/lab  ## add the CuPy that fits the NVIDIA driver (part of lab and test)
	@extra="$(CUDA)"; \
	case "$$extra" in \
	    auto) extra=$$($(BIN)/python hopperlab/runtime/driver.py) ;; \
	    none) extra= ;; \
	    *) extra=cuda$$extra ;; \
	esac; \
	if [ -n "$$extra" ] && [ ! -e $(STAMPS)/cupy-$$extra ]; then \
	    echo "==> NVIDIA driver found: adding CuPy ($$extra)"; \
	    if [ $$extra = cuda12 ]; then \
	        names=$$(sed -n 's/^\([a-z0-9-]*\)==.*/\1/p' constraints-cuda12.txt | paste -sd'|' -); \
	        { grep -vE "^($$names)==" constraints.txt; cat constraints-cuda12.txt; } > $(PINS); \
	    fi; \
	    $(PIP) install --quiet -c $(PINS) --no-build-isolation -e ".[$$extra]" && \
	    touch $(PINS) $(STAMPS)/lab && { [ ! -e $(STAMPS)/test ] || touch $(STAMPS)/test; } && touch $(STAMPS)/cupy-$$extra; \
	fi
