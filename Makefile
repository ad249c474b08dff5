# The only door. `make help` lists every target; reproduce/python.sh finds or makes the environment.

PROFILE ?= quick
JOBS ?= $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)
SLURM ?=
STATUS ?=
IDS ?=
ID ?=
SAMPLE ?=
SEED ?=
SET ?=
PAPER ?=
FIGURE ?=
LAB ?=
FULL ?=
SECONDS ?=
PART ?=
KEPT ?=
DRY ?=
CI ?=
export SET

run := @sh reproduce/python.sh
given := $(filter-out default undefined file,$(origin PROFILE))
figure_options = --profile $(PROFILE) --jobs $(JOBS)
change = $(if $(SET), --set "$$SET")
one_thread = OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 NUMEXPR_NUM_THREADS=1

MAKEFLAGS += --no-builtin-rules
.DEFAULT_GOAL := help
.PHONY: help all test test-all claim verify certify mutants ledger gallery data paper sweep publish teach site lab new bench references lint clean faults test-slurm flower FORCE

help:  ## list the targets
	@echo "make TARGET [PROFILE=quick|desk|long|paper] [JOBS=n]"
	@awk -F ':.*## ' '/^[a-z%\/<>-]+:.*## / {sub(/fig\/%/, "fig/<paper>/<id>", $$1); printf "  %-18s %s\n", $$1, $$2}' Makefile

all:  ## run what changed of the notebooks of a profile, write figures/, ledger and gallery, print the verdicts
	$(run) -m reproduce run $(figure_options)$(change)

fig/%: FORCE  ## the same for one figure, such as fig/random_participation/fig1, or one paper; SET="p=0.2 sigma=2" changes parameters
	$(run) -m reproduce run $(figure_options)$(change) $*

fig fig/: FORCE
	@echo "name a figure or a paper, such as: make fig/random_participation/fig1" >&2; exit 2

paper:  ## the same with the papers' parameters in full (hours; some figures want a GPU); DRY=1 prints the plan, SLURM="partition --account=name" trains on a cluster first
	$(if $(SLURM),$(if $(DRY),,$(run) -m reproduce data --profile paper $(IDS)))
	$(if $(SLURM),$(if $(DRY),,$(run) -m reproduce sweep --profile paper --slurm "$(SLURM)" $(IDS)))
	$(run) -m reproduce $(if $(DRY),plan --profile paper,run --profile paper --jobs $(JOBS))$(if $(IDS), $(IDS))

test:  ## lint, replay of the committed notebooks, stored numbers, unit tests; IDS=<paper> for one paper
	$(run) -m reproduce test --jobs $(JOBS) $(IDS)

test-all:  ## the slow unit tests that `make test` leaves out
	$(run) -m reproduce test --slow --jobs $(JOBS) $(IDS)

claim:  ## decide one claim anew in a fresh kernel: make claim ID=<paper>/<figure>/<claim>
	@test -n "$(ID)" || { echo "name a claim, such as: make claim ID=random_participation/fig1/order" >&2; exit 2; }
	$(run) -m reproduce.claim "$(ID)"

verify:  ## compare the figures with the stored numbers, check that ledger and gallery are up to date
	$(run) -m reproduce verify --profile $(PROFILE)

certify:  ## check the certificates of refuted claims, with a program that imports nothing of the workbook
	$(run) -m reproduce.certify

mutants:  ## does each verdict notice a fault in the code under it? IDS=<paper>, SHARE=0.2 or SAMPLE=<seconds>, SEED=n
	$(run) -m reproduce.mutants --jobs $(JOBS)$(if $(SHARE), --share $(SHARE))$(if $(SAMPLE), --sample $(SAMPLE))$(if $(SEED), --seed $(SEED)) $(IDS)

ledger:  ## collect every verdict into figures/claims.json and figures/CLAIMS.md
	$(run) -m reproduce.ledger

gallery:  ## renew the gallery in README.md from figures/
	$(run) -m reproduce.gallery

data:  ## fetch and check the data of a profile (here the default is desk)
	$(run) -m reproduce data --profile $(if $(given),$(PROFILE),desk)

sweep:  ## compute the training runs of a profile beforehand; SLURM="partition --account=name" sends them to a cluster, STATUS=1 (SEED=n) tells how far they are and where each log lies
	$(run) -m reproduce sweep $(figure_options)$(if $(STATUS), --status$(if $(SEED), --seed $(SEED)))$(if $(SLURM), --slurm "$(SLURM)")$(if $(IDS), $(IDS))

publish:  ## copy the run records of a profile to data/published/, with their provenance
	$(run) -m reproduce publish --profile $(PROFILE)

teach:  ## make the learners' edition of the lessons in build/teach/, and run both editions
	$(run) -m reproduce.teaching

site:  ## turn reports, notebooks, lessons, ledger and docstrings into web pages, build/site/index.html
	$(run) -m reproduce site --jobs $(JOBS)

lab:  ## open the notebooks in JupyterLab; LAB="--allow-root --ip=0.0.0.0" gives it options
	@$(one_thread) REPRO_PROGRESS_BAR=1 sh reproduce/python.sh -m jupyterlab --notebook-dir=. $(LAB)

new:  ## write what a new figure begins with, and run it: make new PAPER=<paper> FIGURE=<figure>
	@test -n "$(PAPER)" -a -n "$(FIGURE)" || { echo "name both, such as: make new PAPER=sixth FIGURE=fig1" >&2; exit 2; }
	$(run) -m reproduce.skeleton "$(PAPER)" "$(FIGURE)"

bench:  ## run the benchmarks
	$(run) -m reproduce bench

faults:  ## kills, random calls, secure sums with faults, bounded; FULL=1: five cold runs of all figures, SECONDS=n, SEED=n; PART=kills KEPT=<folder>: one part, continued from there
	@$(one_thread) sh reproduce/python.sh bench/faults.py$(if $(PART), --part $(PART))$(if $(KEPT), --kept "$(KEPT)")$(if $(FULL), --full)$(if $(SECONDS), --seconds $(SECONDS))$(if $(SEED), --seed $(SEED))

test-slurm:  ## sweeps and faults on a Slurm started here; FULL=1: 100 faults, SEED=n chooses other ones, CI=1: nothing is timed
	$(run) bench/slurm$(if $(FULL), --full)$(if $(SEED), --seed $(SEED))$(if $(CI), --ci)

flower:  ## run the five algorithms in Flower, as processes with keys; IDS="ddpsa pmsfl" for some of them
	$(run) apps/flower/federation.py $(IDS)

references:  ## renew, on purpose, the notebooks' outputs, stored numbers and costs (of IDS="…", or all)
	$(run) -m reproduce.references --profile $(PROFILE) --jobs $(JOBS) $(IDS)

lint:  ## look for faults in style with ruff
	$(run) -m ruff check

clean:  ## remove build/ and caches; .venv, figures, downloads and run records stay
	@rm -rf build .pytest_cache .ruff_cache .hypothesis src/*.egg-info *.egg-info
	@find src reproduce tests bench notebooks \( -name __pycache__ -o -name .ipynb_checkpoints \) -prune -exec rm -rf {} +
	@find figures data -name '*.partial' -exec rm -f {} + 2>/dev/null || true
