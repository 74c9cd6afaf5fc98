# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
#
# The front door: each target installs what it needs and is missing, then calls CMake.
# `make help` lists the targets; CMakePresets.json and scripts/ do the work.
PREFIX ?= /usr/local
RELEASE = build/release

.DEFAULT_GOAL = all
.PHONY: all demo test check-style asan tsan debug clang bench python install man exports soak full
.PHONY: clean deps help

all: $(RELEASE)/build.ninja ## Build the library and the command into build/release (the default)
	cmake --build --preset release

demo: all ## Build, plan a placement for an uneven load, and serve a model that is balanced meanwhile
	sh scripts/demo.sh

test: ## Build and run the fast tests, under five minutes
	sh scripts/deps.sh build test
	sh scripts/test.sh release

check-style: ## Run the style test alone
	sh scripts/deps.sh build test
	cmake --preset release -DEPLB_BUILD_TESTS=ON
	cmake --build --preset release --target style
	ctest --preset release -R '^style'

asan tsan debug: ## Build and test with sanitizers, or without optimisation
	sh scripts/deps.sh build test
	sh scripts/test.sh $@

clang: ## Build and test with clang
	sh scripts/deps.sh build test clang
	sh scripts/test.sh clang

bench: all ## Run the benchmarks; DATA=DIR names a folder of recordings
	set -e; for program in $(RELEASE)/bench_*; do \
	    echo "+ $$program"; $$program $(if $(DATA),--data=$(DATA)); done

python: all ## Build a wheel of the Python package below build/release/python, offline
	sh scripts/deps.sh build test
	cmake --build --preset release --target python_wheel

install: all ## Install below PREFIX (default /usr/local); DESTDIR is honoured
	cmake --preset release -DCMAKE_INSTALL_PREFIX="$(PREFIX)"
	cmake --build --preset release
	cmake --install $(RELEASE)

man: all ## Write the manual pages (eplb.1 and one per command) to build/release
	cmake --build --preset release --target man

exports: all ## Rewrite the list of symbols that libeplb.so exports, after an intended change
	sh tests/symbols/exported.sh --update $(RELEASE)/libeplb.so tests/symbols/exported.txt

soak: ## Run the simulator over 50000 seeds, ten million messages between processes, and whole recordings
	sh scripts/deps.sh build test
	cmake --preset release -DEPLB_BUILD_TESTS=ON
	cmake --build --preset release --target sim_soak
	cmake --build --preset release --target channel_soak
	cmake --build --preset release --target trace_soak
	cmake --build --preset release --target recovery_soak

full: ## Everything that CI runs, the soak, and the bare Debian test (needs root)
	bash .ci/run
	$(MAKE) soak
	sh scripts/deps.sh bare
	sh scripts/bare_debian.sh

clean: ## Remove build/
	rm -rf build

deps: ## Install the packages that building and testing need
	sh scripts/deps.sh build test

help: ## List the targets
	@sed -n 's/^\([a-z][a-z -]*\):[^#]*## \(.*\)/  make \1|\2/p' Makefile | \
	  awk -F '|' '{ printf "%-26s %s\n", $$1, $$2 }'

# Once there is a build folder, Ninja re-runs CMake by itself when a list file changes.
$(RELEASE)/build.ninja:
	sh scripts/deps.sh build
	cmake --preset release -DEPLB_BUILD_TESTS=OFF
