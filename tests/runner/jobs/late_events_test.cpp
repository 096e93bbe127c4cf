#include <catch2/catch.hpp>

#include "base/files/file_digest.h"
#include "runner/experiment/experiment.h"
#include "tests/runner/jobs/slurm_fixture.h"

// Ranks on a node that Slurm takes for failed write after their attempt was judged.
using namespace fsdp;
using enum RunStatus;

TEST_CASE_METHOD(OneRunner, "what ranks wrote after their job was queued again was not recorded") {
  const std::vector<RunRecord> runs = submitted(runs_of_one_shape(1, /*checkpoint_steps=*/5));
  FakeJob orphans = lab.job(runs[0]);
  FakeJob next = lab.job(runs[0]);
  const bool do_finish = GENERATE(false, true);
  life.happens = {[&] {
                    lab.begins(orphans, "100_0");
                    orphans.steps(7);
                    orphans.says("node_failed");
                  },
                  [&] { lab.cluster.waits_again("100_0"); }};
  life.happens.resize(life.happens.size() + 8, [] {});
  life.happens.push_back([&] {
    CHECK(life.attempts(runs[0].id) == Statuses{kNodeFailed});
    orphans.steps(9);
    if (do_finish) orphans.ranks_finish();
    if (!do_finish) {
      lab.begins(next, "100_0", 2);
      next.finishes();
    }
    lab.cluster.ends("100_0");
  });
  CHECK(life.sweep.follow() == ExitCode::kOk);
  CHECK(life.status(runs[0].id) == kFinished);
  CHECK(life.store.newest_steps(runs[0].id, 1, 0, 99).size() == (do_finish ? 20 : 9));
  CHECK(life.attempts(runs[0].id) ==
        (do_finish ? Statuses{kFinished} : Statuses{kNodeFailed, kFinished}));
}

TEST_CASE_METHOD(OneRunner, "a run of an allocation was submitted again after its late result") {
  const std::vector<RunRecord> runs = submitted({two_runs(SlurmMode::kAllocation)[0]});
  FakeJob orphans = lab.job(runs[0]);
  life.happens = {[&] {
    lab.begins(orphans, "100");
    orphans.steps(7);
    orphans.says("node_failed");
  }};
  life.happens.resize(8, [] {});
  life.happens.push_back([&] {
    CHECK(life.attempts(runs[0].id) == Statuses{kNodeFailed});
    orphans.ranks_finish();
    lab.cluster.ends("100", "NODE_FAIL");
  });
  CHECK(life.sweep.follow() == ExitCode::kOk);
  CHECK(life.status(runs[0].id) == kFinished);
  CHECK(life.attempts(runs[0].id) == Statuses{kFinished});
  CHECK(life.progress.count("first: finished") == 1);
  CHECK(lab.cluster.submissions == 1);
}

TEST_CASE_METHOD(OneRunner, "a run was submitted again though an earlier attempt had a result") {
  const std::vector<RunRecord> runs = submitted(1);
  FakeJob orphans = lab.job(runs[0]);
  FakeJob next = lab.job(runs[0]);
  life.happens = {[&] {
                    lab.begins(orphans, "100_0");
                    orphans.says("node_failed");
                  },
                  [&] { lab.cluster.waits_again("100_0"); }};
  life.happens.resize(10, [] {});
  life.happens.push_back([&] { lab.begins(next, "100_0", 2); });
  life.happens.resize(14, [] {});
  life.happens.push_back([&] {
    orphans.ranks_finish();
    lab.cluster.ends("100_0", "NODE_FAIL");
  });
  CHECK(life.sweep.follow() == ExitCode::kOk);
  CHECK(life.status(runs[0].id) == kFinished);
  CHECK(life.attempts(runs[0].id) == Statuses{kFinished, kNodeFailed});
  CHECK(lab.cluster.submissions == 1);
}

TEST_CASE_METHOD(OneRunner, "a late result counted though the run's inputs had changed") {
  std::vector<RunRecord> planned = runs_of_one_shape(1);
  const TemporaryFolder data;
  planned[0].spec.data.train = data.write("games.csv", "games");
  planned[0].spec.data.tokenizer = data.write("tokenizer.model", "pieces");
  planned[0].data_digest = data_digest(planned[0].spec, file_digest);
  const std::vector<RunRecord> runs = submitted(planned);
  FakeJob orphans = lab.job(runs[0]);
  life.happens = {[&] {
                    lab.begins(orphans, "100_0");
                    orphans.says("node_failed");
                  },
                  [&] { lab.cluster.waits_again("100_0"); }};
  life.happens.resize(10, [] {});
  life.happens.push_back([&] {
    CHECK(life.attempts(runs[0].id) == Statuses{kNodeFailed});
    data.write("games.csv", "other games");
    orphans.ranks_finish();
    lab.cluster.ends("100_0");
  });
  CHECK(life.sweep.follow() == ExitCode::kRunFailed);
  CHECK(life.attempts(runs[0].id) == Statuses{kFailed});
  CHECK_THAT(life.store.run(runs[0].id)->reason, Catch::Contains(" changed during the run"));
  CHECK(lab.cluster.submissions == 1);
}
