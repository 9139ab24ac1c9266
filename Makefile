# The project's commands. Every one makes the environment first if it is missing or stale;
# `make help` lists them. Needs Python 3.11 or newer, a C compiler, make and git.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
AUTOTUNE := $(BIN)/autotune
CHECKED := autotune datasets benchmarks examples tests setup.py

KERNEL_SOURCES := $(shell find kernels -name '*.pyx' -o -name '*.pxd' -o -name '*.pxi' -o -name '*.h')
SCALESIM := .bench/scalesim
CPU_PEERS := .bench/cpu
TVM := .bench/tvm
TREES := .bench/trees
TORCH := .bench/torch
DRIFT := .bench/drift
SCALE := .bench/scale
REPLAY := .bench/kernel-tuner
INSTALLED := $(VENV)/.installed
BUILT := $(VENV)/.built
say = @printf '\033[1m==> %s\033[0m\n' $(1)

# What the demo shows: an ONNX file or the name of a shipped network, a target, a measuring budget
# (unless told: half of a calibration's own, which later calibrations complete), a search's trials.
MODEL ?= mobilenet_v2
TARGET ?= cpu
BUDGET ?= 750
TRIALS ?= 50
DEMO := demo

.PHONY: bench-networks bench-training bench-warm-start docs models bench-machines bench-truth bench-scale bench-store bench-serve bench-search-time help env demo test check bench bench-systolic bench-cpu bench-search-cpu bench-roofline bench-variants bench-compile bench-model bench-learning bench-misjudged bench-predictor bench-tuning bench-explore bench-trees operators fuzz fuzz-import fuzz-networks fuzz-narrow fuzz-schedules fuzz-trees soak lint format types layers tests fast-tests wheel-test clean bench-profile bench-carried bench-replay bench-search bench-callers bench-decoder bench-drift bench-online bench-swap bench-guards bench-build bench-placement bench-narrow bench-narrow-machines

help: ## list these commands
	@printf 'autotune: make one of\n\n'
	@sed -nE 's/^([a-z-]+):.*## (.*)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

env: $(BUILT) ## make or refresh the virtual environment and the compiled kernels

demo: $(BUILT) ## run a network here, calibrate, search, run the plan, check it, write the report
	@mkdir -p $(DEMO)
	$(call say,"running $(MODEL) on $(TARGET) as it is: no calibration needed")
	@$(AUTOTUNE) run $(MODEL) --target $(TARGET)
	$(call say,"calibrating target $(TARGET): measuring programs and training the cost model")
	@$(AUTOTUNE) calibrate --target $(TARGET) $(if $(BUDGET),--budget $(BUDGET))
	$(call say,"searching fusion groups and schedules for $(MODEL) on $(TARGET)")
	@$(AUTOTUNE) search $(MODEL) --target $(TARGET) $(if $(TRIALS),--trials $(TRIALS)) \
		--out $(DEMO)/$(basename $(notdir $(MODEL))).plan --report $(DEMO)/report.html
	$(call say,"running the found plan and checking every number against the reference")
	@$(AUTOTUNE) run $(DEMO)/$(basename $(notdir $(MODEL))).plan --check
	$(call say,"done. The report is $(CURDIR)/$(DEMO)/report.html")
	@printf 'The cost model is in your home (%s): your own commands find it.\n' "$$($(AUTOTUNE) store path)"
	@printf 'Activate the environment, then run a network of yours:\n\n'
	@printf '  source %s/bin/activate\n  autotune run net.onnx\n' '$(abspath $(VENV))'

test: lint types layers tests ## everything: format, lint, types, layering, all tests, the wheel
	$(call say,"all passed")

test-torch: $(BUILT) $(TORCH)/.installed ## models of PyTorch's libraries by torch.compile and from_torch
	$(call say,"running the tests that need PyTorch")
	@$(TORCH)/bin/python -m pytest -n 2 tests/adapters 'tests/examples/test_examples.py::test_an_example_runs_on_an_empty_home[compile_pytorch]'

check: lint types layers fast-tests ## the same in under a minute: without the slow tests
	$(call say,"all passed")

bench: $(BUILT) ## figures as ratios measured in one run; JSON=file keeps them as JSON too
	$(call say,"benchmarking")
	@$(PY) -m benchmarks.bench --markdown docs/figures.md $(if $(JSON),--json $(JSON))

bench-systolic: $(BUILT) $(SCALESIM)/.installed ## emulator against SCALE-Sim in one run; FULL=1: every layer (15 minutes)
	$(call say,"benchmarking the emulator and SCALE-Sim")
	@$(PY) -m benchmarks.systolic --markdown docs/figures-systolic.md $(if $(FULL),--full) $(if $(JSON),--json $(JSON))

bench-cpu: $(BUILT) $(CPU_PEERS)/.installed ## native engine against ONNX Runtime and OpenVINO in one run; PLANS=folder of our plans, JSON=file keeps rows and goes on from them
	$(call say,"benchmarking the native engine beside ONNX Runtime and OpenVINO")
	@$(PY) -m benchmarks.cpu --markdown docs/figures-cpu.md $(if $(PLANS),--plans $(PLANS)) $(if $(JSON),--json $(JSON))

bench-search-cpu: $(BUILT) ## plans that a search finds on this CPU against the heuristic plan (an hour); ABLATE=1 compares ways to search
	$(call say,"searching every network on this CPU")
	@$(PY) -m benchmarks.search_cpu --plans .bench/plans $(if $(ABLATE),--ablate,--markdown docs/figures-search-cpu.md) $(if $(JSON),--json $(JSON))

bench-networks: $(BUILT) ## what predict says of every shipped network, and what it takes here; after calibrating cpu:1 and cpu:2
	$(call say,"predicting networks and running them")
	@$(PY) -m benchmarks.network_times --markdown docs/figures-networks.md $(if $(JSON),--json $(JSON))

bench-roofline: $(BUILT) ## how much of what this CPU allows every network reaches, and which groups lose it
	$(call say,"profiling networks against the roofline")
	@$(PY) -m benchmarks.roofline --markdown docs/figures-roofline.md $(if $(JSON),--json $(JSON))

bench-variants: $(BUILT) ## where each kernel variant wins and loses, in emulated cycles
	$(call say,"setting kernel variants against each other")
	@$(PY) -m benchmarks.variants --markdown docs/figures-variants.md $(if $(JSON),--json $(JSON))

bench-callers: $(BUILT) $(CPU_PEERS)/.installed ## several callers of one session: requests per second and the slowest ones beside ONNX Runtime
	$(call say,"serving several callers")
	@$(PY) -m benchmarks.callers --markdown docs/figures-callers.md

bench-decoder: $(BUILT) $(CPU_PEERS)/.installed ## decoders whose cache grows: tokens per second and longest step beside ONNX Runtime
	$(call say,"generating text with autotune and ONNX Runtime")
	@$(PY) -m benchmarks.decoder --markdown docs/figures-decoder.md $(if $(JSON),--json $(JSON))

bench-build: $(BUILT) ## building plans on one core and two, killed builds, peak memory of every network (15 minutes); JSON=file keeps figures and goes on from them
	$(call say,"building plans as graphs of tasks")
	@$(PY) -m benchmarks.build --markdown docs/figures-build.md $(if $(JSON),--json $(JSON))

bench-compile: $(BUILT) ## CPU time from a file to programs and to a first result, and of starting
	$(call say,"benchmarking the way from a network to its first result")
	@$(PY) -m benchmarks.compile_path --markdown docs/figures-compile.md $(if $(JSON),--json $(JSON))

bench-predictor: $(BUILT) ## CPU time of the embedded predictor: loading, single and many schedules, should_fuse
	$(call say,"timing the embedded predictor")
	@$(PY) -m benchmarks.predictor --markdown docs/figures-predictor.md $(if $(JSON),--json $(JSON))

bench-warm-start: $(BUILT) ## searches from an empty store, the nearest machine's and the same machine's; then a model extended beside one trained anew; SEEDS=1 for fewer; NETWORKS="swin_tiny ..."; JSON=file keeps searches and goes on from them
	$(call say,"searching from cold and from warm stores")
	@$(PY) -m benchmarks.warm_search --markdown docs/figures-warm-start.md $(if $(NETWORKS),--networks $(NETWORKS)) $(if $(SEEDS),--seeds $(SEEDS)) $(if $(JSON),--json $(JSON))
	$(call say,"extending a cost model by new measurements")
	@$(PY) -m benchmarks.warm_start

bench-model: $(BUILT) ## how well programs of unseen networks are predicted on every target; TARGETS="edge cpu:1" for some, GROUPS=1 for less, WORKERS=2 or tcp://HOST:PORT
	$(call say,"judging the cost model on networks that it was not trained on")
	@$(PY) -m benchmarks.model --markdown docs/figures-model.md $(if $(TARGETS),--targets $(TARGETS)) $(if $(GROUPS),--groups $(GROUPS)) $(if $(WORKERS),--workers $(WORKERS))

bench-learning: $(BUILT) ## what feature families and measurements buy the cost model, on networks it was not trained on; TARGETS="edge mobile" for others
	$(call say,"learning curves and ablations of the cost model")
	@$(PY) -m benchmarks.learning --markdown docs/figures-learning.md $(if $(TARGETS),--targets $(TARGETS))

bench-misjudged: $(BUILT) ## which model answers on machines that are not what their spec says
	$(call say,"calibrating machines that hide another one behind their spec")
	@$(PY) -m benchmarks.misjudged --markdown docs/figures-misjudged.md

bench-explore: $(BUILT) ## exploration of machines beside sweeping by hand, on a grid where both can be done
	$(call say,"benchmarking exploration of machines")
	@$(PY) -m benchmarks.explore --markdown docs/figures-explore.md $(if $(JSON),--json $(JSON))

bench-tuning: $(BUILT) $(TVM)/.installed ## our search against TVM's MetaSchedule, one operator at a time (calibrate cpu:1 first)
	$(call say,"tuning single operators with autotune and TVM")
	@$(PY) -m benchmarks.tuning --markdown docs/figures-tuning.md $(if $(JSON),--json $(JSON))

bench-replay: $(BUILT) $(REPLAY)/.installed ## search of tuning spaces beside Optuna, XGBoost and Kernel Tuner; FILES="a.json.gz b.json.gz" adds recordings; MODELS="gemm nbody", SEEDS=25, PEER_SEEDS=10; JSON=file keeps runs and goes on from them
	$(call say,"searching recorded tuning spaces")
	@$(PY) -m benchmarks.replay $(FILES) --seeds $(or $(SEEDS),25) --peer-seeds $(or $(PEER_SEEDS),10) --json $(or $(JSON),build/replay-runs.json) $(if $(MODELS),--models $(MODELS)) --kernel-tuner $(REPLAY)/bin/python --markdown docs/figures-replay.md

bench-search: $(BUILT) ## strategies of search at equal numbers of measurements (hours); QUICK=1: minutes, TARGETS=cpu:1: on this CPU, JSON=file keeps runs and goes on from them
	$(call say,"comparing strategies of search")
	@$(PY) -m $(if $(filter cpu%,$(TARGETS)),benchmarks.search_in_place --markdown docs/figures-search-in-place.md,benchmarks.search --markdown docs/figures-search.md) $(if $(TARGETS),--targets $(TARGETS)) $(if $(QUICK),--quick) $(if $(JSON),--json $(JSON))

bench-placement: $(BUILT) ## networks on several devices beside single devices, rules and lower bounds; NETWORKS="mlp ..."
	$(call say,"placing networks on several devices")
	@$(PY) -m benchmarks.placement --markdown docs/figures-placement.md $(if $(NETWORKS),--networks $(NETWORKS)) $(if $(JSON),--json $(JSON))

bench-profile: $(BUILT) ## what profiling every run costs: time by turns, status files, the program cache, memory
	$(call say,"measuring what the profile costs")
	@$(PY) -m benchmarks.run_profile --markdown docs/figures-profile.md $(if $(JSON),--json $(JSON))

bench-guards: $(BUILT) ## what variants for classes of inputs save, and what their guards cost
	$(call say,"comparing variants for classes of inputs with general programs")
	@$(PY) -m benchmarks.guards --markdown docs/figures-guards.md $(if $(JSON),--json $(JSON))
	@$(PY) -m benchmarks.live_session --picture docs/images/variants.svg

bench-carried: $(BUILT) ## what survives of a tuned plan when a number of the machine changes (an hour); NETWORKS="mlp ..."; JSON=file keeps rows and goes on from them
	$(call say,"comparing carried plans with searches from nothing")
	@$(PY) -m benchmarks.carried --markdown docs/figures-carried.md $(if $(NETWORKS),--networks $(NETWORKS)) $(if $(JSON),--json $(JSON))

bench-drift: $(BUILT) $(DRIFT)/.installed ## drift detectors on quiet runs of this CPU and on shifts, ours beside River's
	$(call say,"comparing drift detectors")
	@$(PY) -m benchmarks.drift --markdown docs/figures-drift.md

bench-online: $(BUILT) ## learning while serving beside never learning and an oracle, on emulated machines that change and on this CPU (10 minutes); NETWORKS="lstm:1 ...", NOTE="...", JSON=file keeps turns on this CPU and goes on from them
	$(call say,"benchmarking learning from runs")
	@$(PY) -m benchmarks.online --markdown docs/figures-online.md $(if $(NETWORKS),--networks $(NETWORKS)) $(if $(JSON),--json $(JSON)) $(if $(NOTE),--note "$(NOTE)")

bench-swap: $(BUILT) ## what learning on live requests brings on this CPU, and what swaps cost under load (an hour; SECONDS=40 for each network: 20 minutes); NOTE="...", JSON=file keeps rows and goes on from them
	$(call say,"serving with and without learning")
	@$(PY) -m benchmarks.online_swaps --markdown docs/figures-swaps.md --load-markdown docs/figures-swap-load.md --picture docs/images/learning.svg $(if $(SECONDS),--seconds $(SECONDS)) $(if $(JSON),--json $(JSON)) $(if $(NOTE),--note "$(NOTE)")

bench-narrow: $(BUILT) $(CPU_PEERS)/.installed ## networks of 8 bits and of bf16 on this CPU beside ONNX Runtime, OpenVINO and our float32; NETWORKS="mlp ...", NOTE="...", JSON=file keeps rows of other networks
	$(call say,"benchmarking narrow networks")
	@$(PY) -m benchmarks.narrow --markdown docs/figures-narrow.md $(if $(NETWORKS),--networks $(NETWORKS)) $(if $(JSON),--json $(JSON)) $(if $(NOTE),--note "$(NOTE)")

bench-narrow-machines: $(BUILT) ## int8 against fp32 on every emulated machine, and how near the analytic estimate is
	$(call say,"timing narrow networks on emulated machines")
	@$(PY) -m benchmarks.narrow_machines --markdown docs/figures-narrow-machines.md
	@$(PY) -m benchmarks.narrow_model --networks bert_small unet --drawn 0 --markdown docs/figures-narrow-machines.md

bench-formats: $(BUILT) ## int8, bf16, and both chosen for each product, within a limit of the loss, on emulated machines (15 minutes)
	$(call say,"choosing formats of products")
	@$(PY) -m benchmarks.formats --markdown docs/figures-formats.md

bench-precision: $(BUILT) ## precision chosen within search, on edge, server and one core of this CPU (50 minutes); PARTS="fronts times trials", NETWORKS="mlp ...", TARGETS="edge", JSON=file keeps what was measured and goes on from it
	$(call say,"choosing precision within search")
	@$(PY) -m benchmarks.precision_search --markdown docs/figures-precision.md $(if $(PARTS),--parts $(PARTS)) $(if $(NETWORKS),--networks $(NETWORKS)) $(if $(TARGETS),--targets $(TARGETS)) $(if $(JSON),--kept $(JSON))

bench-machines: $(BUILT) ## how well the shipped model predicts drawn machines it never saw
	$(call say,"judging the shipped model on unseen machines")
	@$(PY) -m benchmarks.model_machines --markdown docs/figures-machines.md

bench-search-time: $(BUILT) ## seconds of searches on TARGETS (edge), and of graphs of 50 to 2 000 operators
	$(call say,"timing searches")
	@$(PY) -m benchmarks.search_time --markdown docs/figures-search-time.md $(if $(TARGETS),--targets $(TARGETS))

bench-training: $(BUILT) ## memory and time of training on up to 1,000,000 measurements; ROWS="10000 100000", NOTE="..."
	$(call say,"training on many measurements")
	@$(PY) -m benchmarks.training --markdown docs/figures-training.md $(if $(ROWS),--rows $(ROWS)) $(if $(NOTE),--note "$(NOTE)")

bench-store: $(BUILT) ## the store with a million measurements, and writers that are killed, on SQLite and PostgreSQL; PARTS="plain sqlite", NOTE="...", JSON=file keeps rows and goes on from them
	$(call say,"benchmarking the store")
	@$(PY) -m benchmarks.store --markdown docs/figures-store.md $(if $(PARTS),--parts $(PARTS)) $(if $(NOTE),--note "$(NOTE)") $(if $(JSON),--json $(JSON))

bench-serve: $(BUILT) ## the service under load, good clients beside bad ones; NOTE="..."
	$(call say,"loading the service")
	@$(PY) -m benchmarks.serve --markdown docs/figures-serve.md $(if $(NOTE),--note "$(NOTE)")

bench-scale: $(BUILT) $(SCALE)/.installed ## what measuring costs over up to 1,000 workers, and trees on 1,000,000 rows over Dask; PARTS="costs values trees", NOTE="...", JSON=file keeps parts and goes on from them
	$(call say,"simulating many workers")
	@$(SCALE)/bin/python -m benchmarks.scale --markdown docs/figures-scale.md $(if $(PARTS),--parts $(PARTS)) $(if $(NOTE),--note "$(NOTE)") $(if $(JSON),--json $(JSON))

bench-truth: $(BUILT) ## found plans beside proved optima of small graphs, and beside lower bounds of networks
	$(call say,"proving the best plans of small graphs")
	@$(PY) -m benchmarks.truth --markdown docs/figures-truth.md $(if $(GRAPHS),--graphs $(GRAPHS))

models: $(BUILT) ## rebuild the cost model that ships, from measurements of shipped and drawn machines (15 minutes)
	$(call say,"measuring machines and training the shipped cost model")
	@$(PY) -m benchmarks.shipped_model

bench-trees: $(BUILT) $(TREES)/.installed ## how fast a cost model's trees answer, beside XGBoost, ONNX Runtime and TL2cgen
	$(call say,"timing trees")
	@$(PY) -m benchmarks.trees --markdown docs/figures-trees.md

docs: $(BUILT) ## the documentation as HTML in build/docs; warnings and broken links are errors
	$(call say,"building the documentation")
	@$(PY) -m sphinx -q -W --keep-going docs build/docs
	$(call say,"the documentation is $(CURDIR)/build/docs/index.html")

operators: $(BUILT) ## run ONNX's backend suite and write docs/operators.md
	$(call say,"running ONNX's backend suite on the emulator")
	@mkdir -p build && $(PY) -m autotune.backend.manual > build/operators.md && mv build/operators.md docs/operators.md

lint: $(BUILT)
	$(call say,"checking format and lint (ruff)")
	@$(BIN)/ruff format --check --quiet $(CHECKED) || { echo "run 'make format'" >&2; exit 1; }
	@$(BIN)/ruff check --quiet $(CHECKED)

types: $(BUILT)
	$(call say,"checking types (mypy --strict)")
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/mypy --no-error-summary --package tests

layers: $(BUILT)
	$(call say,"checking that imports follow the flow (import-linter)")
	@$(BIN)/lint-imports --no-logo 2>/dev/null || $(BIN)/lint-imports

tests: $(BUILT) ## all tests
	$(call say,"running all tests")
	@$(BIN)/pytest -n auto

fuzz: $(BUILT) ## try CASES=1000000 of SEED=0 on sanitized kernels (the nightly run); FIRST=n goes on from a case
	$(call say,"fuzzing decoder and assembler and verifier and engine")
	@$(PY) -m tests.fuzz --sanitize --cases $(or $(CASES),1000000) --seed $(or $(SEED),0) --first $(or $(FIRST),0)

fuzz-import: $(BUILT) ## try CASES=50000 changed ONNX files of SEED=0 on the importer; FIRST=n goes on from a case
	$(call say,"fuzzing the importer")
	@$(PY) -m tests.fuzz.models --cases $(or $(CASES),50000) --seed $(or $(SEED),0) --first $(or $(FIRST),0)

fuzz-networks: $(BUILT) ## try CASES=1000 drawn networks of SEED=0 by drawn plans on every kind of machine
	$(call say,"trying drawn networks by drawn plans")
	@$(PY) -m tests.fuzz.networks --cases $(or $(CASES),1000) --seed $(or $(SEED),0)

fuzz-narrow: $(BUILT) ## try CASES=3000 drawn products of bytes, bf16 and stored fp16 of SEED=0 on both engines, on sanitized kernels
	$(call say,"trying products of narrow numbers")
	@$(PY) -m tests.fuzz.narrow --cases $(or $(CASES),3000) --seed $(or $(SEED),0)

fuzz-schedules: $(BUILT) ## lower, verify and bind CASES=100000 legal schedules of SEED=0 for every target; FIRST=n goes on from a case
	$(call say,"lowering drawn schedules")
	@$(PY) -m tests.fuzz.schedules --cases $(or $(CASES),100000) --seed $(or $(SEED),0) --first $(or $(FIRST),0)

fuzz-trees: $(BUILT) ## compare flat trees with XGBoost on ROWS=1000000 hostile rows of SEED=0, bit for bit
	$(call say,"comparing flat trees with XGBoost")
	@$(PY) -m tests.fuzz.trees --rows $(or $(ROWS),1000000) --seed $(or $(SEED),0)

soak: $(BUILT) ## serve for MINUTES=60 from several threads while faults of SEED=0 strike; Ctrl-C ends it with the report
	$(call say,"soaking sessions that learn")
	@$(PY) -m tests.soak --minutes $(or $(MINUTES),60) --seed $(or $(SEED),0)

fast-tests: $(BUILT)
	$(call say,"running the fast tests")
	@AUTOTUNE_TESTS=fast $(BIN)/pytest -n auto -m 'not slow'

wheel-test: $(BUILT) ## build sdist, wheel from it, and try the wheel outside of the repository
	$(call say,"building the wheel from the sdist and trying it")
	@$(BIN)/pytest tests/packaging

format: $(BUILT) ## rewrite the sources in the project's format
	@$(BIN)/ruff format $(CHECKED)
	@$(BIN)/ruff check --fix $(CHECKED)

clean: ## remove the environment and everything built
	rm -rf $(VENV) .bench build dist $(DEMO) *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find kernels autotune -name '*.so' -delete -o -name '*.c' -path 'kernels/*' -delete
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(INSTALLED): pyproject.toml setup.py
	$(call say,"making the virtual environment $(VENV)")
	@.ci/environment $(VENV)
	@touch $@

$(SCALESIM)/.installed: benchmarks/scalesim.txt | $(INSTALLED)
	$(call say,"installing SCALE-Sim in an environment of its own $(SCALESIM)")
	@$(PY) -m venv --clear $(SCALESIM)
	@$(SCALESIM)/bin/python -m pip --disable-pip-version-check --quiet install -r $<
	@touch $@

$(CPU_PEERS)/.installed: benchmarks/cpu.txt | $(INSTALLED)
	$(call say,"installing ONNX Runtime and OpenVINO in an environment of their own $(CPU_PEERS)")
	@$(PY) -m venv --clear $(CPU_PEERS)
	@$(CPU_PEERS)/bin/python -m pip --disable-pip-version-check --quiet install -r $<
	@touch $@

$(TREES)/.installed: benchmarks/trees.txt | $(INSTALLED)
	$(call say,"installing TL2cgen in an environment of its own $(TREES)")
	@$(PY) -m venv --clear $(TREES)
	@$(TREES)/bin/python -m pip --disable-pip-version-check --quiet install -r $<
	@touch $@

$(REPLAY)/.installed: benchmarks/replay.txt | $(INSTALLED)
	$(call say,"installing Kernel Tuner in an environment of its own $(REPLAY)")
	@$(PY) -m venv --clear $(REPLAY)
	@$(REPLAY)/bin/python -m pip --disable-pip-version-check --quiet install -r $<
	@touch $@

$(DRIFT)/.installed: benchmarks/drift.txt | $(INSTALLED)
	$(call say,"installing River in an environment of its own $(DRIFT)")
	@$(PY) -m venv --clear $(DRIFT)
	@$(DRIFT)/bin/python -m pip --disable-pip-version-check --quiet install -r $<
	@touch $@

# Packages of $(VENV) are shared: only pandas is of its own.
$(SCALE)/.installed: benchmarks/scale.txt | $(INSTALLED)
	$(call say,"installing what XGBoost on Dask needs in an environment of its own $(SCALE)")
	@$(PY) -m venv --clear $(SCALE)
	@shared=$$($(PY) -c 'import sysconfig; print(sysconfig.get_path("purelib"))'); \
	own=$$($(SCALE)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))'); \
	echo "import site; site.addsitedir('$$shared')" > "$$own/shared.pth"
	@$(SCALE)/bin/python -m pip --disable-pip-version-check --quiet install -r $<
	@touch $@

$(TVM)/.installed: benchmarks/tvm.txt | $(INSTALLED)
	$(call say,"installing TVM in an environment of its own $(TVM)")
	@$(PY) -m venv --clear $(TVM)
	@$(TVM)/bin/python -m pip --disable-pip-version-check --quiet install -r $<
	@touch $@

# Packages of $(VENV) are shared: autotune itself, NumPy and ONNX. torchvision has no build for PyTorch's
# CPU packages, so it and timm, which requires it, come without what they depend on.
$(TORCH)/.installed: tests/adapters/torch.txt tests/adapters/torch-models.txt | $(INSTALLED)
	$(call say,"installing PyTorch and libraries of models in an environment of their own $(TORCH)")
	@$(PY) -m venv --clear $(TORCH)
	@shared=$$($(PY) -c 'import sysconfig; print(sysconfig.get_path("purelib"))'); \
	own=$$($(TORCH)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))'); \
	echo "import site; site.addsitedir('$$shared')" > "$$own/shared.pth"
	@$(TORCH)/bin/python -m pip --disable-pip-version-check --quiet install -r tests/adapters/torch.txt
	@$(TORCH)/bin/python -m pip --disable-pip-version-check --quiet install --no-deps -r tests/adapters/torch-models.txt
	@touch $@

# The editable install has compiled them already: again only if a source is newer than a module.
$(BUILT): $(INSTALLED) $(KERNEL_SOURCES)
	@oldest=$$(find kernels -name '*.so' -printf '%T@ %p\n' | sort -n | head -n 1 | cut -d' ' -f2-); \
	if [[ -z $$oldest || -n $$(find $(KERNEL_SOURCES) -newer "$$oldest" -print -quit) ]]; then \
		printf '\033[1m==> compiling the kernels (Cython)\033[0m\n'; \
		$(PY) setup.py --quiet build_ext --inplace; \
	fi
	@touch $@
