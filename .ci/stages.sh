# shellcheck shell=bash
# What CI does: the stages in their order, a sentence about each, and the command of each.
# shellcheck disable=SC2034 # read by .ci/run

stages=(setup format layers reference integration install asan tsan crash storm)
# Run only where they are named: before a release, and after a change to what they look at.
more_stages=(tidy bench fuzz metrics crash_whole crash_inbox mutants races long two_builds cluster kafka kafka_storm s3 demo traces browser languages image packages)

declare -A about=(
  [setup]='the packages, once for all that follows'
  [format]='all C++ is as .clang-format says'
  [layers]='from any file one can only look down, and the other rules that are checked by reading'
  [reference]='Doxygen reads the public headers without a warning'
  [tidy]='clang-tidy finds nothing in the framework, the tools, the example and bench/'
  [asan]='unit and conformance tests under AddressSanitizer and UBSan'
  [tsan]='conformance tests, and what of the unit tests has threads, under ThreadSanitizer'
  [races]='whole services under ThreadSanitizer, on real servers, while they are killed and cut off'
  [crash]='services killed at every failpoint, each way; and stopped or cut off there in turn'
  [crash_whole]='services killed, stopped and cut off at every failpoint, each way'
  [crash_inbox]='the same without a broker'
  [mutants]='what is wrong on purpose is noticed by the crash matrix or a unit test'
  [integration]='every test that ctest has but those of other stages'
  [bench]='`skald-bench` whole, small: what it measures is what it says'
  [install]='installed, found by a project of its own, built and run; what `skald new` makes; the ABI as it was'
  [long]='failover, COMMITs that hang, a step that kills its worker, no code of failpoints'
  [two_builds]='sagas over processes of this version and the one before, on one schema, replaced and killed'
  [storm]='a minute of orders while everything breaks, one over the other'
  [cluster]='a minute of orders while the nodes of a broker cluster are killed in turn'
  [s3]='large bodies on a real server that speaks S3'
  [kafka]='what every transport must keep, and more, over a real Kafka; the command line; the demonstration'
  [kafka_storm]='orders while the nodes of a Kafka are killed in turn, while processes join and leave, while everything breaks'
  [languages]='participants: their SQL against the C++ a million times, the SDKs on real servers, the demonstration'
  [traces]='what a collector gets is what OpenTelemetry defines'
  [demo]='three hundred orders through the demonstration'
  [browser]='the console in a real browser: every page and act, by keyboard, without a script, narrow and dark'
  [image]='the image is built, and the order example runs in its containers'
  [packages]='packages for Debian 12 and 13, installed, used, upgraded and purged in bare roots; the one of Conan'
  [metrics]='a real Prometheus scrapes the example, and its counters equal what SQL says'
  [fuzz]='a quarter of a minute of made-up bytes for each reader of the bytes of strangers'
)

stage_setup() { scripts/setup.sh --dev; }
stage_format() { scripts/format.sh --check; }
stage_layers() { configure && ctest --test-dir build --no-tests=error --output-on-failure --label-regex layers; }
stage_reference() { configure && cmake --build --preset default --target reference; }
stage_tidy() { scripts/tidy.sh; }
stage_asan() { scripts/test.sh asan; }
stage_tsan() { scripts/test.sh tsan; }
stage_races() { scripts/test.sh races; }
stage_crash() { scripts/test.sh crash_sample; }
stage_crash_whole() { scripts/test.sh crash --tests-regex '^crash_matrix$'; }
stage_crash_inbox() { scripts/test.sh crash --tests-regex '^crash_matrix_without_broker$'; }
stage_mutants() { scripts/test.sh mutants; }
# Before what builds parts of the same folder with fewer warnings, which would all be built again.
stage_integration() { configure && scripts/test.sh --without 'install|layers|bench'; }
stage_bench() { configure && scripts/test.sh default --label-regex '^bench$'; }
stage_install() {
  local exports
  trap 'scripts/stack.sh down --purge build/test-install' EXIT
  configure && cmake --build --preset default --parallel "$(nproc)" && exports=$(scripts/stack.sh up build/test-install postgres) &&
    eval "$exports" && ctest --test-dir build --no-tests=error --output-on-failure --label-regex install
}
stage_long() { scripts/test.sh long; }
stage_two_builds() { scripts/two_builds.sh; }
stage_storm() { scripts/chaos.sh --minutes 1 --seed 1; }
stage_cluster() { scripts/chaos.sh --cluster --minutes 1 --seed 2 --only broker_killed; }
stage_s3() { configure && scripts/test.sh s3; }
stage_kafka() { configure && scripts/test.sh kafka && scripts/demo.sh --transport kafka --orders 300 --seed 1; }
stage_kafka_storm() {
  scripts/chaos.sh --transport kafka --cluster --minutes 1 --seed 2 --only broker_killed &&
    scripts/chaos.sh --transport kafka --minutes 2 --seed 3 --only service_restarted &&
    scripts/chaos.sh --transport kafka --cluster --minutes 1 --seed 1
}
stage_demo() { scripts/demo.sh --orders 300 --seed 1; }
stage_languages() {
  configure && scripts/test.sh languages && scripts/demo.sh --payments python --shipping typescript --orders 300 --seed 1 &&
    scripts/demo.sh --payments go --orders 300 --seed 1 && scripts/demo.sh --payments java --orders 300 --seed 1
}
stage_metrics() { configure && scripts/observability.sh; }
stage_traces() { scripts/traces.sh; }
stage_browser() { scripts/setup.sh --browser && configure && cmake --build --preset default --target order_service shipping_service faulty_payment_service skald_cli && tests/console/browser/browser.sh docs/pictures; }
stage_packages() {
  scripts/packages.sh --release bookworm --test && scripts/packages.sh --release trixie --test &&
    scripts/packages.sh --conan
}
stage_image() { scripts/image.sh; }
stage_fuzz() { scripts/fuzz.sh --minutes 0.25; }

configure() { cmake --preset default -DSKALD_WARNINGS_AS_ERRORS=ON >/dev/null; }
