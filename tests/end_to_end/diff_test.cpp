#include <catch2/catch.hpp>

#include "tests/end_to_end/stub_runs.h"

// fsdp-run diff
using namespace fsdp;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

std::string label(const ComparisonRow& row) {
  return std::to_string(row.run) + " (trial/" + row.point + ", " + row.hash8 + ')';
}

}  // namespace

TEST_CASE("diff prints the keys that differ, with both values") {
  const Workplace workplace(kTwoPoints);
  CHECK(workplace.run().status == 0);
  const std::vector<ComparisonRow> found = rows(workplace);
  const std::string first = label(found.at(0));
  const Ended ended = workplace.call({"diff", "first", found.at(1).hash8});
  CHECK(ended.status == 0);
  CHECK(ended.errors == "");
  const auto padded = [&](std::string value) {
    return value.append(first.size() - value.size(), ' ');
  };
  CHECK_THAT(ended.output, StartsWith("                " + first + "  " + label(found.at(1)) +
                                      "\n"
                                      "strategy.kind   " +
                                      padded("ddp") +
                                      "  fsdp\n"
                                      "strategy.ranks  " +
                                      padded("3") +
                                      "  2\n"
                                      "batch.total     " +
                                      padded("12") + "  8\n"));
}

TEST_CASE("diff prints where the results of two runs of one specification come from") {
  const Workplace workplace("  - {name: one}\n  - {name: two}\n");
  CHECK(workplace.run().status == 0);
  {
    Store store(workplace.results());
    const auto begin = [&](int64_t run, const std::string& commit, const std::string& environment) {
      AttemptStart start;
      start.provenance.git_commit = commit;
      start.provenance.environment = environment;
      store.begin_attempt(run, start);
    };
    begin(1, "c0ffee", R"({"NCCL_DEBUG":"INFO","OMP_NUM_THREADS":"2"})");
    begin(2, "decade", R"({"OMP_NUM_THREADS":"2","NCCL_P2P_DISABLE":"1"})");
    RunStarted started;
    started.cuda_version = "13.0";
    store.ingest(2, 2, 0, std::vector{Event{.sequence = 0, .time_unix_ms = 1, .body = started}});
  }
  const Ended ended = workplace.call({"diff", "one", "two"});
  CHECK(ended.errors == "");
  const std::string& output = ended.output;
  for (const std::string key :
       {"git_commit", "environment.NCCL_DEBUG", "cuda_version", "environment.NCCL_P2P_DISABLE"}) {
    CHECK_THAT(output, Contains('\n' + key + ' '));
  }
  CHECK_THAT(output, Contains("c0ffee  ") && Contains("  decade\n") && Contains("INFO  ") &&
                         Contains("  -\n") && Contains("  13.0\n") && !Contains("OMP_NUM"));
}

TEST_CASE("diff says if losses are equal, or why they need not be") {
  const Workplace workplace("  - {name: one}\n  - {name: two}\n  - {name: seed, train.seed: 7}\n");
  CHECK(workplace.run().status == 0);
  CHECK_THAT(workplace.call({"diff", "one", "two"}).output,
             Contains("Loss: 1 and 2 are equal at all 5 steps\n"));
  CHECK_THAT(workplace.call({"diff", "one", "seed"}).output,
             Contains("Loss: cannot be compared with 1: 3 has other train.seed\n"));
  CHECK_THAT(workplace.call({"diff", "one", "one"}).output, !Contains("Loss: "));
}

TEST_CASE("diff of a run with itself says that nothing differs; an unknown word is refused") {
  const Workplace workplace("  - {name: one}\n");
  CHECK(workplace.run().status == 0);
  CHECK_THAT(workplace.call({"diff", "one", "1"}).output, Contains("differ neither in"));
  const Ended refused = workplace.call({"diff", "one", "oen"});
  CHECK(refused.status == 2);
  CHECK_THAT(refused.errors, Contains("'oen': names no run") && Contains("did you mean 'one'?"));
}
