#include <signal.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "tests/end_to_end/stub_runs.h"

// Sweeps that double a key until a run is out of memory. The stub trainer says when.
using namespace fsdp;
using Catch::Matchers::Contains;

namespace {

const std::string kBase =
    "{device: cpu, train.steps: 2, memory_limit_gib: 1, data.train: " + few_games() + "}";
const std::string kTwoFamilies = "  - {name: FSDP}\n  - {name: after, train.seed: 2}\n";
const std::string kRefined = "{double: {batch.size_per_rank: {from: 1, refine: true}}}\n";

// A workplace with `points` and this sweep.
Workplace doubling(const std::string& points, const std::string& sweep = kRefined) {
  return Workplace(points + "sweep: " + sweep, kBase);
}

Variables fits_up_to(int batch) {
  return {{"STUB_RULES", "batch_above=" + std::to_string(batch) + ",out_of_memory=no room"}};
}

Ended without_trainer(const Workplace& workplace, const std::vector<std::string>& arguments) {
  std::vector<std::string> command{FSDP_RUN_PROGRAM};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return Program(workplace / ".", command).wait();
}

// "1 finished 1; 2 out_of_memory -": value, status and attempt of each row of the point.
std::string values(const Workplace& workplace, const std::string& point = "FSDP",
                   const std::string& experiment = "trial") {
  std::string text;
  for (const ComparisonRow& row : Store(workplace.results()).comparison(experiment)) {
    if (!row.point.starts_with(point + " size_per_rank=")) continue;
    text += (text.empty() ? "" : "; ") + std::to_string(row.spec.batch.size_per_rank) + ' ';
    text += name_of(row.status);
    text += row.attempt ? ' ' + std::to_string(*row.attempt) : " -";
  }
  return text;
}

// Returns the runs in the order of their starts: "FSDP 1, FSDP 2".
std::string started(const std::string& errors) {
  std::string text;
  std::istringstream lines(errors);
  for (std::string line; std::getline(lines, line);) {
    const size_t end = line.find(": started");
    if (end == std::string::npos) continue;
    line = line.substr(0, end);
    text += (text.empty() ? "" : ", ") + line.replace(line.find("size_per_rank="), 14, "");
  }
  return text;
}

}  // namespace

TEST_CASE("the values of a doubled key are read from files if the database was lost") {
  const Workplace workplace = doubling(kTwoFamilies);
  CHECK(workplace.run({"experiment.yaml"}, fits_up_to(5)).status == 0);
  const std::string before = values(workplace), after = values(workplace, "after");
  std::filesystem::remove(workplace.results() / "results.sqlite");
  const Ended again = workplace.run({"experiment.yaml"}, fits_up_to(5));
  INFO(again.errors);
  CHECK(again.status == 0);
  CHECK(started(again.errors) == "");
  CHECK(values(workplace) == before);
  CHECK(values(workplace, "after") == after);
}

TEST_CASE("a key is doubled until a run is out of memory, and refined") {
  const Workplace workplace = doubling(kTwoFamilies);
  const Ended first = workplace.run({"experiment.yaml"}, fits_up_to(5));
  CHECK(first.status == 0);
  const std::string found =
      "1 finished 1; 2 finished 1; 4 finished 1; 5 finished 1; 6 out_of_memory 1; "
      "8 out_of_memory 1";
  CHECK(values(workplace) == found);
  CHECK(values(workplace, "after") == found);
  CHECK_THAT(first.output,
             Contains("largest batch.size_per_rank that fits: 5 for FSDP (6 does not)"));
  CHECK(started(first.errors) ==
        "FSDP 1, FSDP 2, FSDP 4, FSDP 8, FSDP 6, FSDP 5, after 1, after 2, "
        "after 4, after 8, after 6, after 5");

  const Ended second = workplace.run({"experiment.yaml"}, fits_up_to(5));
  CHECK(second.output == first.output);
  CHECK_THAT(second.errors, Contains("12 runs with a result already") && !Contains("started"));
  CHECK_THAT(without_trainer(workplace, {"report", "experiment.yaml"}).output,
             Contains("largest batch.size_per_rank that fits: 5 for FSDP (6 does not)"));

  // Fewer values fit in the rerun. It ignores the recorded outcomes of other values.
  CHECK(workplace.run({"experiment.yaml", "--rerun", "--only", "FSDP"}, fits_up_to(2)).status == 0);
  CHECK(values(workplace) == "1 finished 2; 2 finished 2; 3 out_of_memory 1; 4 out_of_memory 2");
  CHECK(values(workplace, "after") == found);
}

TEST_CASE("a runner killed in the middle of a series: the next one goes on where it was") {
  const Workplace workplace = doubling("  - {name: FSDP}\n");
  // Killed at 2, at 8, and at 6, which comes next if 8 does not fit.
  for (const std::string rules :
       {"batch_above=1", "batch_above=7", "batch_above=7,out_of_memory=no room; batch_above=5"}) {
    std::filesystem::remove(workplace / "marker");
    const std::string last = rules.substr(rules.rfind("batch_above"));
    Program runner(workplace / ".", workplace.command({"experiment.yaml"}),
                   {{"STUB_RULES", rules + ",spawn=marker; " + last + ",hang=1"}});
    first_line_of(workplace / "marker");
    runner.send(SIGKILL);
    runner.wait();
  }
  CHECK(workplace.run({"experiment.yaml"}, fits_up_to(6)).status == 0);
  CHECK(values(workplace) ==
        "1 finished 1; 2 finished 2; 4 finished 1; 6 finished 2; 7 out_of_memory 1; "
        "8 out_of_memory 2");
}

TEST_CASE("what ran out of memory is not launched again in another experiment, but by --rerun") {
  const Workplace workplace = doubling("  - {name: FSDP}\n");
  CHECK(workplace.run({"experiment.yaml"}, fits_up_to(5)).status == 0);
  std::ofstream(workplace / "later.yaml")
      << "experiment: later\nbase: " << kBase
      << "\npoints:\n  - {name: FSDP}\n  - {name: other, data.sequence_length: 128}\n"
         "sweep: {double: {batch.size_per_rank: {from: 3, refine: true}}}\n";
  const Ended later = workplace.run({"later.yaml"});
  CHECK(later.status == 0);
  CHECK(values(workplace, "FSDP", "later") == "3 finished 1; 5 finished 1; 6 out_of_memory -");
  CHECK_THAT(later.errors,
             Contains("FSDP size_per_rank=6: not launched: batch.size_per_rank=6 "
                      "ran out of memory ('FSDP size_per_rank=6' of the experiment 'trial')"));
  // `other` has no recorded outcome. Its values are doubled until the training set is too small.
  CHECK_THAT(values(workplace, "other", "later"), Contains("6 finished 1; 12 finished 1"));
  CHECK_THAT(later.errors, Contains("cannot be run, so the search ends here"));

  const std::string before = values(workplace, "FSDP", "later");
  CHECK(workplace.run({"later.yaml"}).status == 0);
  CHECK(values(workplace, "FSDP", "later") == before);
  CHECK(workplace.run({"later.yaml", "--rerun", "--only", "FSDP"}, fits_up_to(6)).status == 0);
  CHECK(values(workplace, "FSDP", "later") ==
        "3 finished 2; 6 finished 1; 7 out_of_memory 1; 8 out_of_memory 1; 9 out_of_memory 1; "
        "12 out_of_memory 1");
}

TEST_CASE("what ran out of memory on another device is launched") {
  const Workplace workplace = doubling("  - {name: FSDP}\n");
  CHECK(workplace.run({"experiment.yaml"}, fits_up_to(2)).status == 0);
  CHECK(values(workplace) == "1 finished 1; 2 finished 1; 3 out_of_memory 1; 4 out_of_memory 1");
  // Earlier versions recorded the host's memory limit.
  Database(workplace.results() / "results.sqlite")
      .execute("update attempts set device_kind = 'cpu, memory limit 900 MiB'");
  const Ended ended = workplace.run({"experiment.yaml"}, fits_up_to(3));
  INFO(ended.errors);
  CHECK(ended.status == 0);
  CHECK(values(workplace) == "1 finished 1; 2 finished 1; 3 finished 2; 4 out_of_memory 2");
}

TEST_CASE("a run that fails ends its series, which goes on when the run is tried again") {
  const Workplace workplace = doubling(kTwoFamilies);
  const auto [action, status] = GENERATE(table<std::string, std::string>(
      {{"fail=the disk is full", "failed"},
       {"out_of_memory=out of memory on the host", "out_of_host_memory"}}));
  const Ended ended = workplace.run({"experiment.yaml"},
                                    {{"STUB_RULES", "point=FSDP,batch_above=1," + action +
                                                        "; batch_above=2,out_of_memory=no room"}});
  CHECK(ended.status == 1);
  CHECK(values(workplace) == "1 finished 1; 2 " + status + " 1");
  CHECK_THAT(ended.output, Contains("largest batch.size_per_rank that fits: 1 for FSDP so far"));
  CHECK_THAT(values(workplace, "after"), Contains("2 finished 1; 3 out_of_memory 1"));
  CHECK(workplace.run({"experiment.yaml"}, fits_up_to(3)).status == 0);
  CHECK(values(workplace) == "1 finished 1; 2 finished 2; 3 finished 1; 4 out_of_memory 1");
}

TEST_CASE("the next value of a key that an open job of Slurm doubles is left to the job") {
  const Workplace workplace = doubling("  - {name: FSDP}\n");
  const Variables second_fails{{"STUB_RULES", "batch_above=1,fail=the disk is full"}};
  REQUIRE(workplace.run({"experiment.yaml"}, second_fails).status == 1);
  Store store(workplace.results());
  const auto run_of_batch = [&](int64_t batch) {
    const auto rows = store.comparison("trial");
    return std::ranges::find(rows, batch, [](auto& row) { return row.spec.batch.size_per_rank; })
        ->run;
  };
  JobRecord job;
  job.experiment = "trial";
  job.mode = "allocation";
  job.folder = "slurm/trial-1";
  job.tasks = {{.run = run_of_batch(1)}};
  const int64_t id = store.record_job(job);
  const Ended left = workplace.run({"experiment.yaml"}, fits_up_to(3));
  CHECK(left.status == 0);
  CHECK_THAT(left.errors, Contains("1 run left to the Slurm jobs that have them"));
  CHECK(values(workplace) == "1 finished 1; 2 failed 1");

  job.tasks[0].over = true;
  store.update_task(id, job.tasks[0]);
  CHECK(workplace.run({"experiment.yaml"}, fits_up_to(3)).status == 0);
  CHECK(values(workplace) == "1 finished 1; 2 finished 2; 3 finished 1; 4 out_of_memory 1");
}

TEST_CASE("check and --dry-run show the first run and what may follow") {
  const Workplace workplace =
      doubling("  - {name: FSDP}\n", "{double: {batch.size_per_rank: {from: 1, to: 6}}}\n");
  const std::string follows = "then batch.size_per_rank 2, 4, until one does not fit";
  CHECK_THAT(without_trainer(workplace, {"check", "experiment.yaml"}).output, Contains(follows));
  const Ended dry = workplace.run({"experiment.yaml", "--dry-run"});
  CHECK_THAT(dry.output,
             Contains("# 1 run\n") && Contains("FSDP size_per_rank=1") && Contains("# " + follows));
  CHECK_FALSE(std::filesystem::exists(workplace.results()));
}
