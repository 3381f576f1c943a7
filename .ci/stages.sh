# shellcheck shell=bash
# What CI does: the stages in their order, a sentence about each, and the command of each.
# shellcheck disable=SC2034 # read by .ci/run

stages=(setup layers reference build tidy asan tsan storm cluster demo long integration install crash fuzz)

declare -A about=(
  [setup]='the packages, once for all that follows'
  [layers]='from any file one can only look down, and the other rules that are checked by reading'
  [reference]='Doxygen reads the public headers without a warning'
  [build]='everything; all but the tests as users build it'
  [tidy]='clang-tidy over the framework, the tools, the examples and bench/'
  [asan]='unit and conformance tests under AddressSanitizer and UBSan'
  [tsan]='unit and conformance tests under ThreadSanitizer'
  [storm]='three minutes of orders while everything breaks, one over the other'
  [cluster]='a minute of orders while the nodes of a broker cluster are killed in turn'
  [demo]='three hundred orders through the demonstration'
  [integration]='every test that ctest has but those of other stages'
  [install]='installed, found by a project of its own, built and run'
  [long]='failover, COMMITs that hang, a step that kills its worker, no code of failpoints'
  [crash]='services killed, stopped and cut off at every failpoint; and every mutant dies'
  [fuzz]='half a minute of made-up bytes for each reader of the bytes of strangers'
)

# What waits for other processes most of the time runs beside what compiles.
run_everything() {
  for name in setup layers reference build; do run_stage "$name"; done
  start_beside storm cluster demo long
  for name in tidy asan tsan; do run_stage "$name"; done
  join_beside storm cluster demo long
  for name in integration install crash fuzz; do run_stage "$name"; done
}

stage_setup() { scripts/setup.sh --dev; }
stage_layers() { configure && ctest --test-dir build --output-on-failure --label-regex layers; }
stage_reference() { configure && cmake --build --preset default --target reference; }
stage_build() { configure && cmake --build --preset default --parallel "$(nproc)"; }

# The one build without all shortcuts (cmake/SkaldFastBuild.cmake says which), so that each file is compiled by itself.
configure() { SKALD_FAST_BUILD=tests cmake --preset default >/dev/null; }

stage_tidy() { nice scripts/tidy.sh; }
stage_asan() { SKALD_FAST_BUILD=all nice scripts/test.sh asan; }
stage_tsan() { SKALD_FAST_BUILD=all nice scripts/test.sh tsan; }
stage_storm() { configure && scripts/chaos.sh --minutes 3 --seed 1; }
stage_cluster() { configure && scripts/chaos.sh --cluster --minutes 1 --seed 2 --only broker_killed; }
stage_demo() { configure && scripts/demo.sh --orders 300 --seed 1; }
stage_integration() { configure && scripts/test.sh --without 'install|layers'; }
stage_install() { stage_build >/dev/null && ctest --test-dir build --output-on-failure --label-regex install; }
stage_long() { configure && scripts/test.sh long; }
stage_crash() { SKALD_FAST_BUILD=all scripts/test.sh crash; }
stage_fuzz() { scripts/fuzz.sh --minutes 0.5; }
