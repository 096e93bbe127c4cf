#include "runner/store/prune.h"

#include "runner/store/merge.h"
#include "tests/runner/store/store_fixture.h"

// Tests which files prune removes and which it keeps, whatever the database says.
namespace fsdp {
namespace {

using std::filesystem::path;

// A run of the experiment with a checkpoint in its folder.
RunRecord run_with_files(Store& store, const ResultsFolder& results, const std::string& name) {
  RunRecord run = planned_run("a", 1);
  run.folder = path("runs") / name / "a-01234567";
  const RunRecord record = store.plan(experiment(name), std::vector{run}).front();
  std::filesystem::create_directories(results.path() / run.folder / "checkpoints/step-1");
  results.write(run.folder / "checkpoints/step-1/trainer.json", "{}");
  return record;
}

// A whole checkpoint, as the trainer leaves it.
void write_checkpoint(const path& folder) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "weights") << "weights";
  std::ofstream(folder / "trainer.json") << R"({"files": [{"name": "weights", "size_bytes": 7}]})";
}

PruneWish wish_for(std::set<int64_t> runs, bool checkpoints = false) {
  PruneWish wish;
  wish.runs = std::move(runs);
  wish.checkpoints = checkpoints;
  return wish;
}

void prune_all(Store& store, const ResultsFolder& results, const PruneWish& wish) {
  prune(store, results.path(), wish, find_prunable(store, results.path(), wish));
}

// A trainer was killed between the two renames that replace a checkpoint.
TEST_CASE_METHOD(StoreTest,
                 "the checkpoint that was about to be replaced counts until another has its name") {
  const RunRecord run = run_with_files(store, results, "lab");
  const path checkpoints = results.path() / run.folder / "checkpoints";
  for (const char* name : {"step-2.replaced", "step-2.partial"}) {
    std::filesystem::create_directories(checkpoints / name);
  }
  results.write(run.folder / "checkpoints/step-2.replaced/trainer.json", "{}");
  PruneWish wish = wish_for({run.id}, true);
  SECTION("it is the newest") {
    wish.keep_last = 1;
    prune_all(store, results, wish);
    CHECK(names_in(checkpoints) == std::vector<std::string>{"step-2.replaced"});
  }
  SECTION("it goes with all") {
    prune_all(store, results, wish);
    CHECK(names_in(checkpoints).empty());
  }
  SECTION("another has its name") {
    std::filesystem::create_directories(checkpoints / "step-2");
    results.write(run.folder / "checkpoints/step-2/trainer.json", "{}");
    wish.keep_last = 1;
    prune_all(store, results, wish);
    CHECK(names_in(checkpoints) == std::vector<std::string>{"step-2"});
  }
}

TEST_CASE_METHOD(StoreTest, "of the checkpoints to keep only whole ones count") {
  const RunRecord run = run_with_files(store, results, "lab");
  const path checkpoints = results.path() / run.folder / "checkpoints";
  write_checkpoint(checkpoints / "step-1");
  write_checkpoint(checkpoints / "step-2");
  const std::string file = GENERATE("weights", "trainer.json");
  SECTION("one without a file") { std::filesystem::remove(checkpoints / "step-2" / file); }
  SECTION("one with half a file") {
    const path half = checkpoints / "step-2" / file;
    std::filesystem::resize_file(half, std::filesystem::file_size(half) / 2);
  }
  PruneWish wish = wish_for({run.id}, true);
  wish.keep_last = 1;
  prune_all(store, results, wish);
  CHECK(names_in(checkpoints) == std::vector<std::string>{"step-1"});
}

TEST_CASE_METHOD(StoreTest, "a merged run goes whatever it did, and nothing goes from its source") {
  const ResultsFolder eve;
  Store theirs(eve.path());
  const RunRecord run = run_with_files(theirs, eve, "lab");
  theirs.begin_attempt(run.id, attempt_start());
  prune_all(theirs, eve, wish_for({run.id}));
  CHECK(theirs.runs().size() == 1);
  run_with_files(store, results, "lab");
  merge_results(results.path(), std::vector<MergeSource>{{"eve", eve.path()}});
  store.sync();
  REQUIRE(store.runs().size() == 2);
  prune_all(store, results, wish_for({store.runs().front().id}));  // eve/lab
  REQUIRE(store.runs().size() == 1);
  CHECK(store.runs().front().experiment == "lab");
  CHECK_FALSE(std::filesystem::exists(results / "merged"));
  CHECK(std::filesystem::exists(eve.path() / run.folder / "checkpoints/step-1/trainer.json"));
}

TEST_CASE("links lead prune nowhere") {
  const ResultsFolder results, elsewhere;
  Store store(results.path());
  const RunRecord run = run_with_files(store, results, "lab");
  const path folder = results.path() / run.folder;
  path target = elsewhere / "precious";
  PruneWish wish = wish_for({run.id});
  std::filesystem::create_directories(target / "step-1");
  elsewhere.write("precious/step-1/trainer.json", "{}");
  SECTION("the run's folder") {
    std::filesystem::rename(folder, elsewhere / "run");
    std::filesystem::create_directory_symlink(target, folder);
  }
  SECTION("the experiment's folder") {
    std::filesystem::rename(folder.parent_path(), elsewhere / "lab");
    std::filesystem::create_directory_symlink(elsewhere.path(), folder.parent_path());
    std::filesystem::rename(target, elsewhere / "a-01234567");
    std::filesystem::create_directory_symlink(elsewhere / "a-01234567", target);
  }
  SECTION("all checkpoints") {
    wish.checkpoints = true;
    std::filesystem::remove_all(folder / "checkpoints");
    std::filesystem::create_directory_symlink(target, folder / "checkpoints");
  }
  SECTION("one checkpoint") {
    wish.checkpoints = true;
    std::filesystem::create_directory_symlink(target / "step-1", folder / "checkpoints/step-2");
  }
  SECTION("what an earlier call left") {
    std::filesystem::create_directory_symlink(target, results / "runs/lab/.left.pruned");
  }
  SECTION("the rest in an experiment's folder") {
    std::filesystem::rename(target, elsewhere / ".left.pruned");
    target = elsewhere / ".left.pruned";
    std::filesystem::create_directory_symlink(elsewhere.path(), results / "runs/linked");
  }
  prune_all(store, results, wish);
  CHECK(std::filesystem::exists(target / "step-1/trainer.json"));
}

// Makes the rest of a run's folder that a killed prune leaves.
path left_by_a_killed_prune(const ResultsFolder& results) {
  path rest = results.path() / "runs/lab/.a-01234567.pruned";
  std::filesystem::create_directories(rest / "checkpoints/step-1");
  return rest;
}

TEST_CASE_METHOD(StoreTest,
                 "the rest of a pruned run is removed, also once a run of its folder is planned") {
  const path rest = left_by_a_killed_prune(results);
  const bool is_planned_first = GENERATE(true, false);
  if (is_planned_first) run_with_files(store, results, "lab");
  const std::vector<PruneItem> items = find_prunable(store, results.path(), wish_for({}));
  REQUIRE(items.size() == 1);
  CHECK(items.front().folder == rest);
  if (!is_planned_first) run_with_files(store, results, "lab");
  CHECK(prune(store, results.path(), wish_for({}), items).empty());
  CHECK_FALSE(std::filesystem::exists(rest));
  CHECK(std::filesystem::exists(results / "runs/lab/a-01234567/checkpoints/step-1/trainer.json"));
}

TEST_CASE_METHOD(StoreTest, "a folder that a new run has got while prune asked stays") {
  const RunRecord run = run_with_files(store, results, "lab");
  const std::vector<PruneItem> items = find_prunable(store, results.path(), wish_for({run.id}));
  Store other(results.path());
  std::filesystem::remove_all(results.path() / run.folder);
  other.sync();
  run_with_files(other, results, "elsewhere");
  run_with_files(other, results, "lab");
  CHECK(prune(store, results.path(), wish_for({run.id}), items).size() == 1);
  CHECK(std::filesystem::exists(results.path() / run.folder / "checkpoints/step-1/trainer.json"));
  CHECK(store.runs().size() == 2);
}

TEST_CASE_METHOD(StoreTest, "two prunes may find the same rest: the second has nothing to do") {
  const path rest = left_by_a_killed_prune(results);
  const std::vector<PruneItem> items = find_prunable(store, results.path(), wish_for({}));
  REQUIRE(items.size() == 1);
  for (int time = 0; time < 2; ++time) {
    CHECK(prune(store, results.path(), wish_for({}), items).empty());
    CHECK_FALSE(std::filesystem::exists(rest.parent_path()));
  }
}

TEST_CASE_METHOD(StoreTest, "the rest of an earlier prune of the same folder is not in the way") {
  left_by_a_killed_prune(results);
  const RunRecord run = run_with_files(store, results, "lab");
  std::vector<PruneItem> items = find_prunable(store, results.path(), wish_for({run.id}));
  std::erase_if(items, [](const PruneItem& item) { return !item.run; });
  CHECK(prune(store, results.path(), wish_for({run.id}), items).empty());
  CHECK_FALSE(std::filesystem::exists(results / "runs/lab"));
}

TEST_CASE_METHOD(StoreTest,
                 "the folder of an experiment in which a run is planned stays when a rest goes") {
  const path folder = left_by_a_killed_prune(results);
  RunRecord planned = planned_run("b", 1);
  planned.folder = "runs/lab/b-01234567";
  store.plan(experiment("lab"), std::vector{planned});
  prune_all(store, results, wish_for({}));
  CHECK_FALSE(std::filesystem::exists(folder));
  CHECK(std::filesystem::exists(folder.parent_path()));
}

path& resume_of(RunSpec& spec) { return spec.resume.path; }

// A run of the experiment that reads `place`, as a member of its specification.
RunRecord run_that_reads(Store& store, const ResultsFolder& results, const std::string& name,
                         const path& place, path& (*member)(RunSpec&)) {
  const RunRecord record = run_with_files(store, results, name);
  RunRecord planned = planned_run("a", 1);
  planned.folder = record.folder;
  member(planned.spec) = place;
  return store.plan(experiment(name), std::vector{planned}).front();
}

RunRecord run_that_resumes(Store& store, const ResultsFolder& results, const std::string& name,
                           const RunRecord& run) {
  return run_that_reads(store, results, name, results.path() / run.folder / "checkpoints/step-1",
                        resume_of);
}

TEST_CASE_METHOD(
    StoreTest, "what another run resumes from stays, also when that is planned while prune asks") {
  const RunRecord first = run_with_files(store, results, "first");
  const path checkpoint = results.path() / first.folder / "checkpoints/step-1";
  const bool checkpoints = GENERATE(true, false);
  PruneWish wish = wish_for({first.id}, checkpoints);
  std::vector<PruneItem> items = find_prunable(store, results.path(), wish);
  REQUIRE(items.size() == 1);
  CHECK_FALSE(items.front().kept_for);
  const RunRecord second = run_that_resumes(store, results, "second", first);
  REQUIRE(prune(store, results.path(), wish, items).size() == 1);
  CHECK(std::filesystem::exists(checkpoint / "trainer.json"));
  CHECK(store.run(first.id));

  items = find_prunable(store, results.path(), wish);
  REQUIRE(items.size() == 1);
  REQUIRE(items.front().kept_for);
  CHECK(items.front().kept_for->run.id == second.id);
  CHECK(items.front().kept_for->place == checkpoint);
  prune(store, results.path(), wish, items);
  CHECK(std::filesystem::exists(checkpoint / "trainer.json"));

  SECTION("also what stays for such a run keeps what it resumes from") {
    const RunRecord third = run_that_resumes(store, results, "third", second);
    prune_all(store, results, wish_for({first.id, second.id}));
    CHECK(store.runs().size() == 3);
    CHECK(std::filesystem::exists(checkpoint / "trainer.json"));
  }
  SECTION("it goes with the run that resumes from it") {
    prune_all(store, results, wish_for({first.id, second.id}));
    CHECK(store.runs().empty());
    CHECK_FALSE(std::filesystem::exists(checkpoint));
  }
}

struct Reading {
  std::string key;
  path& (*member)(RunSpec&);
  path place;
  bool is_in_checkpoint = true;
};

TEST_CASE_METHOD(StoreTest, "what another run reads in any way is not pruned") {
  const auto source = [](RunSpec& spec) -> path& { return spec.model.source; };
  const auto adapter = [](RunSpec& spec) -> path& { return spec.lora.adapter; };
  const auto train = [](RunSpec& spec) -> path& { return spec.data.train; };
  const auto tokenizer = [](RunSpec& spec) -> path& { return spec.data.tokenizer; };
  const auto validation = [](RunSpec& spec) -> path& { return spec.evaluation.data; };
  const ResultsFolder elsewhere;
  const RunRecord first = run_with_files(store, results, "first");
  const path run = results.path() / first.folder;
  const path checkpoint = run / "checkpoints/step-1";
  std::filesystem::create_directories(elsewhere / "folder");
  std::filesystem::create_directory_symlink(checkpoint, elsewhere / "link");
  std::filesystem::create_symlink(checkpoint / "trainer.json", elsewhere / "folder/link");
  std::filesystem::create_directories(elsewhere / "model");
  std::filesystem::create_directory_symlink(elsewhere / "model", run / "link");
  std::filesystem::create_directory_symlink(run / "link", elsewhere / "indirect");
  const std::vector<Reading> readings = {{"resume", resume_of, checkpoint},
                                         {"lora.adapter", adapter, checkpoint},
                                         {"model.source", source, checkpoint},
                                         {"model.source", source, checkpoint / "merged"},
                                         {"data.train", train, checkpoint / "data.csv"},
                                         {"data.tokenizer", tokenizer, checkpoint},
                                         {"evaluation.data", validation, checkpoint / "data.csv"},
                                         {"model.source", source, elsewhere / "link/merged"},
                                         {"model.source", source, elsewhere / "folder"},
                                         {"model.source", source, run / "link", false},
                                         {"model.source", source, elsewhere / "indirect", false}};
  const Reading& reading = readings[static_cast<size_t>(GENERATE(range(0, 11)))];
  INFO(reading.key << ": " << reading.place);
  run_that_reads(store, results, "second", reading.place, reading.member);
  const bool checkpoints = GENERATE(false, true) && reading.is_in_checkpoint;
  const PruneWish wish = wish_for({first.id}, checkpoints);
  const auto items = find_prunable(store, results.path(), wish);
  REQUIRE(items.size() == 1);
  REQUIRE(items.front().kept_for);
  CHECK(items.front().kept_for->key == reading.key);
  CHECK(prune(store, results.path(), wish, items).size() == 1);
  CHECK(std::filesystem::exists(checkpoint / "trainer.json"));
}

}  // namespace
}  // namespace fsdp
