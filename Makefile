# Thin names for the sections of .ci/run, which installs what it needs into .venv.
.PHONY: install run wheels fmt lint test full fuzz fuzz-seeds crash crash-long schedules planted flips conformance clients
.PHONY: console bench bench-short instructions compare compare-short notebooks docs site clean

install:      ## the package with test and lint tools, in .venv
	bash .ci/run install
run:          ## install as users do, then `orcas serve`
	bash .ci/run serve
wheels:       ## [TARGETS=triples] source distribution and wheels in dist, checked and tried
	bash .ci/run wheels
fmt:          ## rewrite the sources in the project's format
	bash .ci/run format
lint:         ## format, clippy, ruff, mypy, import contracts, stubs
	bash .ci/run fmt clippy lint
test:         ## what a change must pass, in 40 minutes on two processors: lint, tests of Rust and Python, one in eight simulated stores
	bash .ci/run
full:         ## everything: all tests and seeds, schedules, planted defects, fuzzing, clients, benchmarks. Tests and seeds alone take an hour and a half
	bash .ci/run full
fuzz:         ## [FUZZ_SECONDS=1800] [FUZZ_TARGETS=names]: the fuzz targets with a new seed; findings in target/fuzz
	FUZZ_SECONDS=$${FUZZ_SECONDS:-1800} FUZZ_SEED=$${FUZZ_SEED:-0} bash .ci/run fuzz
fuzz-seeds:   ## write the seeds in rust_core/fuzz/corpus anew
	bash .ci/run fuzz-seeds
crash:        ## only the tests that kill servers
	bash .ci/run crash
crash-long:   ## simulated power cuts and failing disks with new seeds, until Ctrl-C or CRASH_SECONDS
	bash .ci/run crash-long
schedules:    ## threads of the engine in thousands of orders
	bash .ci/run schedules
planted:      ## deliberate defects, each until a suite has caught it
	bash .ci/run planted
flips:        ## every byte of a store flipped, one at a time: takes hours
	ORCAS_FLIPS=all cargo test --locked --profile ci --package orcas_core --test flips -- --nocapture --test-threads=1
conformance:  ## only the tests with other people's clients
	bash .ci/run conformance
clients:      ## tests with clients that the default run does not install; needs npm, restic, Node.js and Go for some
	bash .ci/run clients
console:      ## the web console in Chromium; needs Debian's package chromium
	bash .ci/run console
bench:        ## benchmarks, on a release build
	bash .ci/run bench
bench-short:  ## a short pass of the benchmarks; JSON in target/bench
	bash .ci/run bench-short
instructions: ## instruction counts of hot paths against benchmarks/instructions.toml
	bash .ci/run instructions
compare:      ## BASE=commit [HEAD=commit]: two commits, built and measured in turn
	bash .ci/run compare
compare-short: ## [BASE=commit]: a short pass of the same beside the installed build; JSON in target/bench
	bash .ci/run compare-short
notebooks:    ## every notebook at full size on a release build, written to docs/notebooks with its figures
	bash .ci/run notebooks
docs:         ## check that the documents agree with the code
	bash .ci/run install
	.venv/bin/python -m pytest tests/test_documents.py tests/test_operations_guide.py tests/test_tidy.py -k "document or guide"
site:         ## the documents as a site that can be searched, in target/site; takes half a minute
	bash .ci/run site
clean:        ## delete .venv and target
	rm -rf .venv target
