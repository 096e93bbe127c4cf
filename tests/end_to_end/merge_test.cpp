#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <set>

#include "tests/end_to_end/stub_runs.h"

// fsdp-run merge
using namespace fsdp;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

// Moves the results into the person's folder.
void move_results(const Workplace& workplace, const std::string& person) {
  std::filesystem::create_directories(workplace / person);
  std::filesystem::rename(workplace.results(), workplace / person / "results");
}

std::vector<ComparisonRow> rows_of(const Workplace& workplace, const std::string& experiment) {
  return Store(workplace.results()).comparison(experiment);
}

}  // namespace

TEST_CASE("the results of a class are one table, in which each run says whose it is") {
  const Workplace workplace(kTwoPoints);
  CHECK(workplace.run().status == 0);
  move_results(workplace, "class/alice");
  CHECK(workplace.run({"experiment.yaml"}, {{"STUB_RULES", "point=second,fail=a reason"}}).status ==
        1);
  move_results(workplace, "class/bob");

  const Ended merged = workplace.call({"merge", "class/alice", "class/bob/results"});
  CHECK(merged.errors == "");
  CHECK(merged.output ==
        "alice: 1 experiment, 2 runs, 2 of them new\nbob: 1 experiment, 2 runs, 2 of them new\n");
  const Ended report = workplace.call({"report", "experiment.yaml"});
  CHECK_THAT(report.output, Contains("alice/trial") && Contains("bob/trial"));
  // The report names the failed rank's log.
  CHECK_THAT(report.output, Contains("results/merged/bob/runs/trial/"));
  CHECK(workplace.call({"logs", "bob/trial/second"}).status == 0);
  const Ended table = workplace.call({"report", "trial", "--class", "steps"});
  INFO(table.output);
  CHECK(
      table.output.starts_with("trial: steps x batch\n\n"
                               "source   first  second\n"
                               "------  ------  ------\n"
                               "alice   5 x 12   5 x 8\n"
                               "bob     5 x 12  failed\n\n"));
  CHECK_THAT(table.output,
             Contains("first, second (alice); ") && Contains(": first (bob); ") &&
                 Contains("\nbob has no result for 1 of 2 points: second (failed).\n"));
  CHECK_THAT(
      workplace.call({"explain", "bob/trial/second", "--trainer", STUB_TRAINER_PROGRAM}).output,
      Contains(": a reason\nIt was merged from bob, and runs there only.\n"));
  std::ofstream(workplace / "names.txt") << "\xef\xbb\xbf"
                                            "alice\r\nbob\r\nhugo\r\n";
  CHECK_THAT(
      workplace.call({"report", "trial", "--class", "steps", "--roster", "names.txt"}).output,
      Contains("\nhugo is on the roster and has no results.\n") && !Contains("not on the roster"));
  // An experiment with a name like a merged one is of this folder.
  std::ofstream(workplace / "other.yaml")
      << "experiment: carol/trial\nbase: {device: cpu}\npoints:\n  - {name: one}\n";
  CHECK(workplace.run({"other.yaml"}).status == 0);
  CHECK_THAT(
      workplace.call({"report", "carol/trial", "--class", "steps"}).output,
      StartsWith("carol/trial: steps x batch\n\nsource ") && Contains("\nhere    100 x 4\n"));
  const Ended again = workplace.call({"merge", "class/alice", "class/bob"});
  CHECK_THAT(again.output, Contains("bob: 1 experiment, 2 runs, 0 of them new"));
}

TEST_CASE("a copied folder, another experiment and a person without results are told") {
  const Workplace workplace(kTwoPoints);
  CHECK(workplace.run().status == 0);
  move_results(workplace, "class/alice");
  std::filesystem::copy(workplace / "class/alice", workplace / "class/gina",
                        std::filesystem::copy_options::recursive);
  std::ofstream(workplace / "other.yaml")
      << "experiment: my lab\nbase: {device: cpu}\npoints:\n  - {name: one}\n";
  CHECK(workplace.run({"other.yaml"}).status == 0);
  move_results(workplace, "class/dave");
  CHECK(workplace.call({"merge", "class/alice", "class/dave", "class/gina"}).status == 0);
  std::ofstream(workplace / "roster.txt") << "alice\r\n\n \tdave\ngina\nhugo the second \n";
  const Ended table =
      workplace.call({"report", "trial", "--class", "steps", "--roster", "roster.txt"});
  INFO(table.output);
  CHECK(
      table.output.ends_with("dave has no runs in this table; other experiments: my lab.\n"
                             "hugo the second is on the roster and has no results.\n"
                             "gina's 2 runs are alice's: same attempts, hosts and times.\n"));
  CHECK_THAT(table.output, !Contains("not on the roster") && !Contains("alice has"));
}

TEST_CASE(
    "of a class's folders those that hold nothing are skipped, named, and tell in the status") {
  const Workplace workplace("  - {name: one}\n");
  CHECK(workplace.run().status == 0);
  move_results(workplace, "class/alice");
  std::filesystem::create_directories(workplace / "class/bob");
  std::filesystem::create_directories(workplace / "class/carol/results");
  std::ofstream(workplace / "class/carol/results/results.sqlite") << std::string(5'000, 'x');
  std::ofstream(workplace / "class/notes.txt") << "what is to be done\n";
  const std::vector<std::string> words{"merge", "class/alice", "class/bob", "class/carol",
                                       "class/notes.txt"};
  for (const char* count : {"1", "0"}) {
    const Ended merged = workplace.call(words);
    CHECK(merged.status == 1);
    CHECK(merged.output == "alice: 1 experiment, 1 run, " + std::string(count) + " of them new\n");
    CHECK(merged.errors ==
          "Skipped 3 of 4 folders:\n"
          "  bob: there is no results.sqlite in class/bob or its folder results\n"
          "  carol: class/carol/results/results.sqlite: file is not a database; it is not a "
          "database of this program; move it away\n"
          "  notes.txt: there is no results.sqlite in class/notes.txt or its folder results\n");
    CHECK(rows_of(workplace, "").size() == 1);
  }
}

TEST_CASE("merge refuses what it cannot tell apart or find, and creates nothing") {
  const Workplace workplace("  - {name: one}\n");
  CHECK(workplace.run().status == 0);
  move_results(workplace, "a/alice");
  std::filesystem::create_directories(workplace / "b");
  std::filesystem::copy(workplace / "a/alice", workplace / "b/alice",
                        std::filesystem::copy_options::recursive);
  const auto refusal = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "merge");
    const Ended ended = workplace.call(arguments);
    CHECK(ended.status == 2);
    return ended.errors;
  };
  CHECK_THAT(
      refusal({"a/alice", "b/alice"}),
      Contains(
          "'b/alice': would be named 'alice', like a/alice; give it another name: NAME=b/alice"));
  CHECK_THAT(refusal({"a/b=a/alice"}), Contains("without '/'"));
  CHECK_THAT(refusal({"..=a/alice"}), Contains("that does not begin with '.'"));
  CHECK_THAT(refusal({std::string(300, 'a') + "=nowhere"}),
             Contains("a NAME of at most 200 bytes"));
  CHECK_FALSE(std::filesystem::exists(workplace.results()));
  CHECK_THAT(workplace.call({"merge", "a/alice", "--results", "a/alice/results"}).errors,
             Contains("is the folder to merge into"));

  // A folder that was moved has two ways in: another name, and a prune of what was merged.
  CHECK(workplace.call({"merge", "a/alice"}).status == 0);
  CHECK_THAT(refusal({"b/alice"}), Contains("has runs of 'alice' from another place, /") &&
                                       Contains("/a/alice/results; ") &&
                                       Contains("NAME=b/alice/results") &&
                                       Contains("remove results/merged/alice first"));
  CHECK(workplace.call({"merge", "Bob B=b/alice"}).status == 0);
  CHECK(rows_of(workplace, "Bob B/trial").size() == 1);
  CHECK(workplace.call({"prune", "alice/trial", "--yes"}).status == 0);
  CHECK_THAT(refusal({"b/alice"}), Contains("remove results/merged/Bob B first"));
  CHECK(workplace.call({"prune", "Bob B/trial", "--yes"}).status == 0);
  CHECK(workplace.call({"merge", "b/alice"}).status == 0);
  CHECK_THAT(rows_of(workplace, "alice/trial").at(0).folder.string(), Contains("merged/alice/"));
}

// Kills merge at every call that changes the file system, one after the other.
TEST_CASE("a merge that is killed leaves the runs of the earlier one, or brings all of the new") {
  const Workplace workplace("  - {name: one}\n");
  CHECK(workplace.run().status == 0);
  move_results(workplace, "class/alice");
  CHECK(workplace.call({"merge", "class/alice"}).status == 0);
  const std::filesystem::path before = workplace / "before";
  std::filesystem::rename(workplace.results(), before);
  CHECK(workplace.run({"experiment.yaml", "--set", "train.steps=7"}).status == 0);
  const std::filesystem::path theirs = workplace / "class/alice/results";
  std::filesystem::remove_all(theirs);
  std::filesystem::rename(workplace.results(), theirs);

  int killed = 0;
  std::set<int64_t> steps;
  for (Ended ended; ended.status != 0; ++killed) {
    CAPTURE(killed);
    std::filesystem::remove_all(workplace.results());
    std::filesystem::copy(before, workplace.results(), std::filesystem::copy_options::recursive);
    ended =
        workplace.call({"merge", "class/alice"}, {{"LD_PRELOAD", KILL_AT_CALL_LIBRARY},
                                                  {"ASAN_OPTIONS", "verify_asan_link_order=0"},
                                                  {"KILL_AT_CALL", std::to_string(killed + 1)}});
    REQUIRE((ended.status == 0 || ended.status == 128 + SIGKILL));
    const Store store(workplace.results(), StoreUse::kExisting);
    const std::vector<ComparisonRow> rows = store.comparison("");
    REQUIRE(rows.size() == 1);
    CHECK(rows[0].status == RunStatus::kFinished);
    steps.insert(rows[0].steps.value_or(0));
    CHECK(store.runs().size() == (rows[0].steps == 7 ? 2U : 1U));
    CHECK(workplace.call({"merge", "class/alice"}).status == 0);
    CHECK(rows_of(workplace, "").size() == 1);
    CHECK(names_in(workplace.results() / "merged") == std::vector<std::string>{"alice"});
  }
  CHECK(killed > 10);
  CHECK(steps == std::set<int64_t>{5, 7});
}

TEST_CASE("report, status and diff show several results folders side by side") {
  const Workplace workplace(kTwoPoints);
  CHECK(workplace.run().status == 0);
  move_results(workplace, "class/alice");
  CHECK(workplace.run({"experiment.yaml"}, {{"STUB_RULES", "point=second,fail=a reason"}}).status ==
        1);
  const std::vector<std::string> both{"--results", "class/alice", "--results", "bob=results"};
  const auto shown = [&](std::vector<std::string> words) {
    words.insert(words.end(), both.begin(), both.end());
    const Ended ended = workplace.call(words);
    CHECK(ended.errors == "");
    CHECK(ended.status == 0);
    return ended.output;
  };
  CHECK_THAT(shown({"report", "trial"}),
             Contains("alice/trial") && Contains("bob/trial") && Contains("results/runs/trial/"));
  CHECK_THAT(shown({"report", "trial", "--class", "steps"}),
             Contains("\nalice   5 x 12   5 x 8\nbob     5 x 12  failed\n"));
  CHECK_THAT(shown({"status"}), Contains("alice/trial/first") && Contains("bob/trial/second"));
  CHECK_THAT(shown({"diff", "alice/trial/first", "bob/trial/second"}), Contains("strategy.kind"));
  CHECK_FALSE(std::filesystem::exists(workplace / "lists"));
  const Ended refused = workplace.call({"report", "--results", "nowhere", "--results", "results"});
  CHECK(refused.status == 2);
  CHECK_THAT(refused.errors, Contains("'nowhere'") && Contains("has no files of runs"));
}

TEST_CASE("two merges at once lost runs, and each now has the folder alone") {
  const Workplace workplace(kTwoPoints);
  CHECK(workplace.run().status == 0);
  move_results(workplace, "alice");
  std::filesystem::create_directories(workplace.results());
  const int folder = open(workplace.results().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  REQUIRE(flock(folder, LOCK_EX) == 0);
  const Ended refused = workplace.call({"merge", "alice"});
  CHECK(refused.status == 2);
  CHECK_THAT(refused.errors, Contains("another fsdp-run merges into this folder"));
  close(folder);
  CHECK(workplace.call({"merge", "alice"}).status == 0);
}

TEST_CASE("a merge replaced its source, and folders that it had not made") {
  const Workplace workplace(kTwoPoints);
  CHECK(workplace.run().status == 0);
  move_results(workplace, "alice");
  std::filesystem::create_directories(workplace / "bob");
  std::filesystem::copy(workplace / "alice/results", workplace / "bob/results",
                        std::filesystem::copy_options::recursive);
  std::filesystem::create_directories(workplace / "results/merged");
  const path merged = workplace / "results/merged";
  const auto refusal = [&](const std::string& word) {
    const Ended ended = workplace.call({"merge", word});
    CHECK(ended.status == 2);
    return ended.errors;
  };
  std::filesystem::copy(workplace / "bob/results", merged / "bob",
                        std::filesystem::copy_options::recursive);
  std::ofstream(merged / "bob/notes.txt") << "mine";
  CHECK_THAT(refusal("results/merged/bob"), Contains("are one within the other"));
  CHECK_THAT(refusal("bob=alice"), Contains("is not what merge makes; move it away"));
  CHECK(std::filesystem::exists(merged / "bob/notes.txt"));
  std::filesystem::remove_all(merged);
  std::filesystem::create_directory_symlink(workplace / "bob", merged);
  CHECK_THAT(refusal("alice"), Contains("merged: is no folder; move it away"));
  CHECK(std::filesystem::is_symlink(merged));
  std::filesystem::remove(merged);
  std::filesystem::rename(workplace / "bob/results/runs", workplace / "elsewhere");
  std::filesystem::create_directory_symlink(workplace / "elsewhere",
                                            workplace / "bob/results/runs");
  CHECK_THAT(refusal("bob"), Contains("runs: is a link, which is not followed"));
  CHECK(workplace.call({"merge", "alice", "--results", "bob"}).status == 0);
  CHECK(workplace.call({"merge", "bob", "--results", "carol"}).status == 0);
  const Ended mutual = workplace.call({"merge", "bob=bob", "--results", "alice/results"});
  CHECK_THAT(mutual.errors, Contains("itself, and they would be there twice"));
}

TEST_CASE("a folder with a '/' at its end was left out, and one that is given twice, too") {
  const Workplace workplace(kTwoPoints);
  CHECK(workplace.run().status == 0);
  std::filesystem::copy(workplace / "results", workplace / "bob",
                        std::filesystem::copy_options::recursive);
  const Ended both =
      workplace.call({"status", "--results", "./bob//", "--results", "mine=results/"});
  CHECK_THAT(both.output, Contains("bob/trial/first") && Contains("mine/trial/first"));
  CHECK_THAT(workplace.call({"status", "--results", "a=bob", "--results", "b=bob/."}).errors,
             Contains("'b=bob/.': is the same folder as a=bob"));
}

TEST_CASE("prune removed all of a results folder in a folder called merged") {
  const Workplace workplace(kTwoPoints);
  CHECK(workplace.run().status == 0);
  std::filesystem::create_directories(workplace / "merged");
  std::filesystem::rename(workplace.results(), workplace / "merged/mine");
  std::ofstream(workplace / "merged/mine/notes.txt") << "mine";
  const std::string results = (workplace / "merged/mine").string();
  CHECK_THAT(workplace.call({"prune", "trial", "--yes", "--results", results}).output,
             Contains("removed"));
  CHECK(std::filesystem::exists(workplace / "merged/mine/notes.txt"));
}
