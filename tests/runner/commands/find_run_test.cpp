#include "runner/commands/find_run.h"

#include "base/text/config_error.h"
#include "tests/runner/store/store_fixture.h"

namespace fsdp {
namespace {

using Catch::Matchers::Message;

const std::string kHashA = "aaaaaaaa11111111";
const std::string kHashB = "bbbbbbbb22222222";
const std::string kHashC = "aaaaaaaa33333333";

// Run 1 is lab/one, and run 2 lab/two. Run 3 is lab/one with another hash. It replaces run 1 in the
// list. Run 4 is batch/two.
void fill(Store& store) {
  store.plan(experiment("lab"),
             in_order({planned_run("one", 1, kHashA), planned_run("two", 1, kHashB)}));
  store.plan(experiment("lab"),
             in_order({planned_run("one", 1, kHashB), planned_run("two", 1, kHashB)}));
  store.plan(experiment("batch"), in_order({planned_run("two", 1, kHashC)}));
}

TEST_CASE_METHOD(StoreTest,
                 "a run is found by its number, its point, its experiment and point, or its hash") {
  fill(store);
  CHECK(find_run(store, "1").hash == kHashA);
  CHECK(find_run(store, "lab/two").id == 2);
  CHECK(find_run(store, "batch/two").id == 4);
  CHECK(find_run(store, kHashC).id == 4);
  CHECK(find_run(store, kHashC.substr(0, 9)).id == 4);
  CHECK_FALSE(find_run(store, "1").current);
}

TEST_CASE_METHOD(
    StoreTest, "a point means the run of the current list; an older one has its number and hash") {
  fill(store);
  CHECK(find_run(store, "one").id == 3);
  store.plan(experiment("lab"), in_order({planned_run("two", 1, kHashB)}));
  CHECK_THROWS_AS(find_run(store, "one"), ConfigError);  // two runs that left the list
}

TEST_CASE_METHOD(StoreTest, "a run that left the list is found by the name that reports give it") {
  RunRecord longer = planned_run("one", 1, kHashB);
  longer.spec.train.steps = 20;
  store.plan(experiment("lab"), in_order({planned_run("one", 1, kHashA)}));
  store.plan(experiment("lab"), in_order({longer}));
  const std::string name = "one [train.steps=" + std::to_string(*resolved({}).train.steps) + "]";
  CHECK(find_run(store, name).hash == kHashA);
  CHECK(find_run(store, "lab/" + name).hash == kHashA);
  CHECK_THROWS_AS(find_run(store, "one [train.steps=20]"), ConfigError);  // its name is `one`
}

TEST_CASE_METHOD(StoreTest,
                 "a word that names several runs or none is refused with what there is") {
  CHECK_THROWS_MATCHES(find_run(store, "one"), ConfigError,
                       Message("'one': there is no run in the results yet"));
  fill(store);
  CHECK_THROWS_MATCHES(
      find_run(store, "two"), ConfigError,
      Message("'two': names 2 runs: 4 (batch/two, aaaaaaaa), 2 (lab/two, bbbbbbbb); give one of "
              "these numbers, EXPERIMENT/POINT, or 8 digits of a hash"));
  CHECK_THROWS_MATCHES(find_run(store, "aaaaaaaa"), ConfigError,
                       Catch::Matchers::Predicate<ConfigError>([](const ConfigError& error) {
                         return error.problem().starts_with("names 2 runs: ");
                       }));
  CHECK_THROWS_MATCHES(find_run(store, "twoo"), ConfigError,
                       Message("'twoo': names no run; allowed: a run's number, its point or "
                               "EXPERIMENT/POINT, as `fsdp-run status --all` lists them, or the "
                               "first 8 digits of its hash; did you mean 'two'?"));
  CHECK_THROWS_AS(find_run(store, "aaaaaaa"), ConfigError);  // only seven digits
}

}  // namespace
}  // namespace fsdp
