#include "runner/run/planned_runs.h"

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

TEST_CASE("a run that could not be submitted is refused at the place that asks for it") {
  const TemporaryFolder folder;
  const auto check = [&](const std::string& second) {
    const auto file = folder.write("lab.yaml",
                                   "experiment: lab\nbase: {device: cpu}\npoints:\n"
                                   "  - {name: plain}\n  - {name: second, " +
                                       second + "}\n");
    check_jobs_of(Experiment::load(file).expand({}, {}));
  };
  CHECK_NOTHROW(check("slurm: {partition: gpu, time: '1:00:00'}"));
  CHECK_THROWS_WITH(check("slurm: {srun_options: ['--network sn_all']}"),
                    Catch::Contains("lab.yaml:5:") && Catch::Contains("write '--network=sn_all'"));
  CHECK_THROWS_WITH(check("strategy: {kind: ddp, ranks: 3}, slurm: {nodes: 2}"),
                    Catch::Contains("lab.yaml:5:") && Catch::Contains("'slurm.nodes'") &&
                        Catch::Contains("3 ranks do not spread evenly over 2 nodes"));
  CHECK_THROWS_WITH(check("slurm: {mode: allocation}"),
                    Catch::Contains("lab.yaml:5:") &&
                        Catch::Contains("'plain' and 'second' have different slurm keys"));
  const auto mine = folder.write("mine.sh", "#!/bin/bash\n{{sbatch_option}}\n");
  CHECK_THROWS_WITH(
      check("slurm: {template: " + mine.string() + "}"),
      Catch::Contains("mine.sh: {{sbatch_option}} is not a name that a template may use"));
}
