# Kavka. `make run` and `make test` set up all they need; a second run finds it there.
# Needs Python 3.11 or newer, and make.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.NOTPARALLEL:

PORT ?= 9092
DATA ?= ./data
WORKERS ?= 4
COMPACT_RECORDS ?= 20000000
CRASH_ROUNDS ?= 200
GROUP_ROUNDS ?= 5
TIMES ?= 200
TRANSACTION_RECORDS ?= 200000
TRANSACTION_KILLS ?= 10
MIRROR_RECORDS ?= 1000000
MIRROR_TOPICS ?= 20
MIRROR_KILLS ?= 3
MOVE_KILLS ?= 40
CLUSTER_RECORDS ?= 100000
GROWTH_MB ?= 400
CLUSTER_KILLS ?= 15
MIXED_RECORDS ?= 60000
SECONDS ?= 600
KILLS ?= 30
FAULT_EXAMPLES ?= 4000
FUZZ_FRAMES ?= 10000000
FUZZ_SEED ?= 5
FUZZ_BROKERS ?= 2
SEEDS ?= 10000
CLUSTER_SEEDS ?= 10000
FIRST_SEED ?= 1
SPARK_RECORDS ?= 5000000
SPARK_MINUTES ?= 8

# Images for Python often forbid it; tests start hundreds of interpreters, which would each compile
# all that they import.
export PYTHONDONTWRITEBYTECODE :=

VENV := .venv
BIN := $(VENV)/bin
STEP := .ci/step

# What pip was given last. A change of the pins or of the project installs again.
PINS := constraints.txt pyproject.toml
FOR_RUN := $(VENV)/.installed-run
FOR_TEST := $(VENV)/.installed-test

# In the order of the files: those that start brokers, with few tests that take long, come first.
# Those wait much, so there are twice as many workers as cores.
PYTEST := $(BIN)/pytest --numprocesses=$(WORKERS) --dist=loadfile --no-loadscope-reorder

.PHONY: compat compat-beside compat-oracle compat-secured compat-recording help run test whole pythons another-python fresh-seeds lint unit format crash groups transactions mirror cluster cluster-faults rolling commits moves foreign misbehaviour faults fuzz simulate spark spark-soak compact bench bench-cluster dist pages clean java clients compat-clients kerberos clients-page
.PHONY: lint-style lint-format lint-types lint-imports lint-seams

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1 /p' Makefile | while read -r name what; do \
		printf '  make %-14s %s\n' "$$name" "$$what"; done

run: $(FOR_RUN) ## start a broker on 127.0.0.1:9092 (PORT=) with its data in ./data (DATA=)
	@exec $(BIN)/kavka start --override "listeners=PLAINTEXT://127.0.0.1:$(PORT)" \
		--override "log.dirs=$(DATA)"

test: lint java clients kerberos archives tests ## lints and tests (as root it installs Java, Maven, Node.js, Go, Kerberos)

pythons: $(FOR_TEST) java clients ## the unit tests and a round trip on the other Pythons that are here
	@.ci/pythons $(BIN)/python $(WORKERS)

another-python: $(FOR_TEST) java clients
	@.ci/pythons $(BIN)/python $(WORKERS) one

.PHONY: archives tests
archives: $(FOR_TEST) java
	@$(STEP) "archives of Java's classes" env PYTHONPATH=tests \
		$(BIN)/python -m support.java_archive

tests: $(FOR_TEST)
	@$(STEP) "tests" $(PYTEST) tests

whole: $(FOR_TEST) java clients kerberos archives ## the tests that `make test` leaves out, too: about twice as long
	@$(STEP) "all tests" env WHOLE=1 $(PYTEST) tests

lint: lint-style lint-format lint-types lint-imports lint-seams ## all checks that run no test

lint-style: $(FOR_TEST)
	@$(STEP) "ruff check" $(BIN)/ruff check --quiet .

lint-format: $(FOR_TEST)
	@$(STEP) "ruff format" $(BIN)/ruff format --quiet --diff .

lint-types: $(FOR_TEST)
	@$(STEP) "mypy" $(BIN)/mypy --no-error-summary

lint-imports: $(FOR_TEST)
	@$(STEP) "import-linter" $(BIN)/lint-imports --no-logo

lint-seams: $(FOR_TEST)
	@$(STEP) "seam and size lint" env PYTHONPATH=tests $(BIN)/python -m lint

unit: $(FOR_TEST) ## only the unit tests
	@$(STEP) "unit tests" $(PYTEST) tests/unit tests/lint

format: $(FOR_TEST) ## put the sources into the project's form
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format .

crash: $(FOR_TEST) java ## kill a broker under load, 200 times (CRASH_ROUNDS=), and count the records
	@$(STEP) "crash rounds" env WHOLE=1 CRASH_ROUNDS=$(CRASH_ROUNDS) $(BIN)/pytest -s tests/broker/test_crash.py

fuzz: $(FOR_TEST) ## send 2 brokers 10 million damaged frames (FUZZ_BROKERS=, FUZZ_FRAMES=, FUZZ_SEED=; FUZZ_REPLAY=)
	@env PYTHONPATH=src:tests $(BIN)/python -m fuzz --frames $(FUZZ_FRAMES) --seed $(FUZZ_SEED) \
		--brokers $(FUZZ_BROKERS) $(if $(FUZZ_REPLAY),--replay $(FUZZ_REPLAY))

groups: $(FOR_TEST) java clients ## kill consumers of every client, and their broker, 5 times (GROUP_ROUNDS=)
	@$(STEP) "groups" env WHOLE=1 GROUP_ROUNDS=$(GROUP_ROUNDS) $(BIN)/pytest -s tests/broker/test_groups.py

transactions: $(FOR_TEST) java clients ## 200,000 records (TRANSACTION_RECORDS=) once each, 10 broker kills (TRANSACTION_KILLS=)
	@$(STEP) "transactions" env WHOLE=1 TRANSACTION_RECORDS=$(TRANSACTION_RECORDS) \
		TRANSACTION_KILLS=$(TRANSACTION_KILLS) $(BIN)/pytest -s tests/broker/test_exactly_once.py \
		tests/broker/test_zombie.py

mirror: $(FOR_TEST) java ## mirror 1,000,000 records (MIRROR_RECORDS=) of 20 topics (MIRROR_TOPICS=); 3 kills (MIRROR_KILLS=) of each of source, target and mirror
	@$(STEP) "mirror" env WHOLE=1 MIRROR_RECORDS=$(MIRROR_RECORDS) MIRROR_TOPICS=$(MIRROR_TOPICS) \
		MIRROR_KILLS=$(MIRROR_KILLS) $(BIN)/pytest -s tests/commands/test_mirror.py

cluster: $(FOR_TEST) java clients ## 100,000 records (CLUSTER_RECORDS=) once each on three brokers, 15 of which are killed (CLUSTER_KILLS=); 400 MB (GROWTH_MB=) moved to a fourth
	@$(STEP) "cluster" env WHOLE=1 CLUSTER_RECORDS=$(CLUSTER_RECORDS) CLUSTER_KILLS=$(CLUSTER_KILLS) \
		$(BIN)/pytest -s tests/broker/test_cluster_kills.py
	@$(STEP) "a cluster that grows" env WHOLE=1 GROWTH_MB=$(GROWTH_MB) \
		$(BIN)/pytest -s tests/broker/test_cluster_growth.py

cluster-faults: $(FOR_TEST) java clients ## three brokers under load and ten minutes of faults (SECONDS=); SEED= replays them
	@env PYTHONPATH=src:tests $(BIN)/python -m cluster_faults --seconds $(SECONDS) \
		$(if $(SEED),--seed $(SEED))

rolling: $(FOR_TEST) java clients ## roll a cluster of Apache Kafka 3.9 over to Kavka and back, with 60,000 records (MIXED_RECORDS=)
	@$(STEP) "rolling" env WHOLE=1 MIXED_RECORDS=$(MIXED_RECORDS) \
		$(BIN)/pytest -s tests/broker/test_mixed_cluster.py

commits: $(FOR_TEST) java ## kill a broker at every step it makes on its disk in transactions
	@$(STEP) "deaths in memory" env WHOLE=1 CRASH_EVERY=1 \
		$(PYTEST) --dist=load tests/unit/server/test_transaction_crashes.py \
		tests/unit/server/test_offset_fetch_responses.py
	@$(STEP) "deaths by SIGKILL" env WHOLE=1 $(BIN)/pytest -s \
		tests/broker/test_commit_then_kill.py tests/broker/test_transaction_kills.py
	@$(STEP) "Apache Kafka's" env PYTHONPATH=src:tests $(BIN)/python \
		tests/broker/test_commit_then_kill.py

moves: $(FOR_TEST) java clients ## move partitions in use to and fro, kill the broker 40 times (MOVE_KILLS=) and at every step
	@$(STEP) "deaths in memory" env WHOLE=1 CRASH_EVERY=1 \
		$(PYTEST) --dist=load tests/unit/server/test_move_crashes.py
	@$(STEP) "moves" env WHOLE=1 MOVE_KILLS=$(MOVE_KILLS) $(BIN)/pytest -s tests/broker/test_moves.py

foreign: $(FOR_TEST) java ## the integration tests of kafka-python and of Apache Kafka, against Kavka
	@$(STEP) "kafka-python's own tests" env WHOLE=1 $(BIN)/pytest tests/broker/test_kafka_python_suite.py
	@$(STEP) "Apache Kafka's own tests" env WHOLE=1 $(BIN)/pytest -s tests/broker/test_foreign_java.py

misbehaviour: $(FOR_TEST) java clients ## double, reorder and lose Produce requests, 200 times each (TIMES=)
	@$(STEP) "a misbehaving network" env WHOLE=1 MISBEHAVIOUR_TIMES=$(TIMES) \
		$(BIN)/pytest -s tests/broker/test_misbehaviour.py

faults: $(FOR_TEST) java ## break disk and files in every way: 4000 histories (FAULT_EXAMPLES=) of 60 steps
	@$(STEP) "histories under faults" env WHOLE=1 FAULT_EXAMPLES=$(FAULT_EXAMPLES) \
		$(BIN)/pytest tests/unit/log/test_log_faults.py
	@$(STEP) "damaged files" env DAMAGE=whole $(BIN)/pytest \
		tests/unit/log/test_damage.py tests/unit/log/test_index_damage.py
	@$(STEP) "places without a descriptor" env SHORTAGE_EVERY=1 $(BIN)/pytest --timeout 1800 \
		tests/unit/server/test_shortage.py

fresh-seeds: $(FOR_TEST) ## simulate 200 seeds of brokers, and as many of clusters, that belong to the commit
	@$(STEP) "fresh seeds" env PYTHONPATH=src:tests $(BIN)/python -m sim --seeds 200 --fresh
	@$(STEP) "fresh seeds of clusters" env PYTHONPATH=src:tests $(BIN)/python -m sim --cluster \
		--seeds 200 --fresh

simulate: $(FOR_TEST) ## simulate brokers and clusters under faults: 10,000 seeds (SEEDS=, CLUSTER_SEEDS=, FIRST_SEED=)
	@env PYTHONPATH=src:tests $(BIN)/python -m sim --seeds $(SEEDS) --first $(FIRST_SEED) \
		--failures failing-seeds.txt
	@env PYTHONPATH=src:tests $(BIN)/python -m sim --cluster --seeds $(CLUSTER_SEEDS) \
		--first $(FIRST_SEED) --failures failing-cluster-seeds.txt
	@env PYTHONPATH=src:tests $(BIN)/python -m sim --cluster --seeds 50 --first $(FIRST_SEED) --same
	@env PYTHONPATH=src:tests $(BIN)/python -m sim --seeds 200 --first $(FIRST_SEED) --same
	@$(STEP) "planted bugs" env WHOLE=1 $(PYTEST) --dist=load tests/sim/test_planted.py

spark: $(FOR_TEST) java ## Spark's Kafka source and sink, and the pipelines, on Kavka and on Apache Kafka
	@$(STEP) "Spark" env WHOLE=1 SPARK=whole $(BIN)/pytest tests/spark

spark-soak: $(FOR_TEST) java ## 5 million records through pipelines (SPARK_RECORDS=) over 8 minutes (SPARK_MINUTES=), all killed
	@$(STEP) "Spark soak" env WHOLE=1 SPARK=whole SPARK_SOAK=$(SPARK_RECORDS) SPARK_SOAK_MINUTES=$(SPARK_MINUTES) \
		$(BIN)/pytest -s tests/spark/test_soak.py

compat: $(FOR_TEST) java compat-clients ## the compatibility suite: every client and scenario on Kavka, and errors that it must find
	@env KAVKA_COMPAT_CACHE=.cache/compat $(BIN)/kavka compat --name Kavka --no-skips \
		--json compat-kavka.json --html compat-kavka.html --markdown docs/compatibility.md
	@$(STEP) "planted errors" env WHOLE=1 $(PYTEST) tests/compat

compat-oracle: $(FOR_TEST) java compat-clients ## the same on Apache Kafka 4.3.1, where Java's clients up to 0.10 fail, and 3.9.2, which has no KIP-848
	@status=0; for version in 4.3.1 3.9.2; do \
		env PYTHONPATH=src:tests KAVKA_COMPAT_CACHE=.cache/compat $(BIN)/python -m compat.oracle $$version \
			--no-skips --json compat-kafka-$$version.json --html compat-kafka-$$version.html || status=1; \
	done; exit $$status

compat-beside: $(FOR_TEST) ## Kavka's page beside Apache Kafka's, out of what the two targets before have written
	@$(BIN)/kavka compat --compare compat-kafka-4.3.1.json compat-kavka.json \
		--markdown docs/compatibility-beside-apache-kafka.md

compat-secured: $(FOR_TEST) java compat-clients ## the same on Apache Kafka 4.3.1 with TLS and a login; some of it with each other way to log in
	@env PYTHONPATH=src:tests KAVKA_COMPAT_CACHE=.cache/compat $(BIN)/python -m compat.oracle \
		4.3.1-SASL_SSL --no-skips --without java-0.8,java-0.9,java-0.10,kcat --json compat-kafka-secured.json --html compat-kafka-secured.html
	@$(STEP) "each way to log in" env WHOLE=1 $(PYTEST) --dist=load tests/compat/test_secured.py

compat-recording: $(FOR_TEST) java ## record again what Apache Kafka answers to requests, for the compatibility suite
	@env PYTHONPATH=src:tests $(BIN)/python -m compat.recording

compact: $(FOR_TEST) java ## compact 20 million records (COMPACT_RECORDS=), beside Apache Kafka
	@env PYTHONPATH=src $(BIN)/python -m bench.compaction --records $(COMPACT_RECORDS)

bench: $(FOR_TEST) java ## measure Kavka beside Apache Kafka
	@env PYTHONPATH=src $(BIN)/python -m bench

bench-cluster: $(FOR_TEST) java ## measure three brokers beside Apache Kafka 3.9 with ZooKeeper; 30 kills of each kind (KILLS=)
	@env PYTHONPATH=src $(BIN)/python -m bench --only cluster --kills $(KILLS)

dist: $(FOR_TEST) ## build a wheel in ./dist
	@$(STEP) "wheel" .ci/dist $(BIN)/python dist
	@ls dist/*.whl

pages: $(FOR_TEST) ## make the pages of docs/ that are made from tables anew
	@.ci/page $(BIN)/python configuration.md kavka.server.config.docs
	@.ci/page $(BIN)/python metrics.md kavka.server.monitoring.metrics.page
	@.ci/page $(BIN)/python apis.md kavka.server.connections.api_page
	@.ci/page $(BIN)/python conformance.md differential.page
	@.ci/page $(BIN)/python architecture.md lint.rooms
	@.ci/page $(BIN)/python pipelines.md kavka.spark_it.page
	@.ci/page $(BIN)/python simulation.md sim.page
	@.ci/page $(BIN)/python tools.md commands.page

clients-page: $(FOR_TEST) java
	@.ci/page $(BIN)/python clients.md admin

clean: ## remove what make made, but not ./data
	rm -rf $(VENV) .venv-3.* build dist src/kavka.egg-info .cache .mypy_cache .ruff_cache .pytest_cache \
		.hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

java:
	@.ci/java

clients:
	@.ci/clients

compat-clients:
	@.ci/clients compat

kerberos: $(FOR_TEST)
	@.ci/kerberos $(VENV)

$(BIN)/python:
	@$(STEP) "environment in $(VENV)" .ci/venv $(VENV)

$(FOR_RUN): $(PINS) | $(BIN)/python
	@$(STEP) "install the broker" .ci/install $(VENV) .
	@touch $@

$(FOR_TEST): $(PINS) | $(BIN)/python
	@$(STEP) "install the broker and its tests" .ci/install $(VENV) ".[spark,spark-test,test,lint]"
	@touch $@ $(FOR_RUN)
