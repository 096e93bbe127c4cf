#include "runner/sweep/planned_runs.h"

#include <catch2/catch.hpp>

#include "tests/temporary_folder.h"

using namespace fsdp;

TEST_CASE("runs that differ in their validation set alone are each checked") {
  const TemporaryFolder folder;
  const auto check = [&](const std::string& evaluation) {
    const auto file = folder.write("lab.yaml",
                                   "experiment: lab\nbase: {device: cpu}\npoints:\n"
                                   "  - {name: plain}\n  - {name: evaluated, evaluation: " +
                                       evaluation + "}\n");
    const Experiment experiment = Experiment::load(file);
    check_inputs_of(experiment.expand({}, {}));
  };
  CHECK_NOTHROW(check("{each_epoch: true, fraction: 0.1}"));
  CHECK_THROWS_WITH(check("{each_epoch: true, data: missing.csv}"),
                    Catch::Contains("lab.yaml:5:") && Catch::Contains("'evaluation.data'") &&
                        Catch::Contains("missing.csv: cannot be read"));
  CHECK_THROWS_WITH(check("{each_epoch: true, fraction: 0.9999}"),
                    Catch::Contains("held out by evaluation.fraction, fewer than one step needs"));
}
