#include <catch2/catch.hpp>
#include <fstream>
#include <map>

#include "tests/end_to_end/stub_runs.h"

namespace fsdp {
namespace {

using Catch::Contains;
using Catch::StartsWith;

std::vector<std::string> report(const Workplace& workplace, std::vector<std::string> options) {
  options.insert(options.begin(), "report");
  options.insert(options.end(), {"--results", workplace.results().string()});
  return options;
}

// fsdp-run report in the workplace's folder.
Ended run_report(const Workplace& workplace, std::vector<std::string> options) {
  std::vector<std::string> command{FSDP_RUN_PROGRAM};
  for (const std::string& word : report(workplace, std::move(options))) command.push_back(word);
  return Program(workplace / "", command).wait();
}

// Returns what the page tells to call, behind "./fsdp-run ". The page is of one list of runs.
std::string arguments_on(const std::string& page) {
  const std::string begin = R"("commands":["./fsdp-run )";
  REQUIRE_THAT(page, Contains(begin));
  const size_t place = page.find(begin) + begin.size();
  return page.substr(place, page.find('"', place) - place);
}

// Calls fsdp-run in `folder` with the results in "again" there.
int status_again(const std::filesystem::path& folder, const std::string& arguments) {
  const std::string command =
      FSDP_RUN_PROGRAM + (' ' + arguments) + " --results again --trainer " + STUB_TRAINER_PROGRAM;
  return Program(folder, {"/bin/sh", "-c", command}).wait().status;
}

TEST_CASE("report takes experiments by file and by name, and says what there is") {
  const Workplace workplace(kTwoPoints);
  REQUIRE(workplace.run().status == 0);
  const std::string table = run_report(workplace, {}).output;
  CHECK_THAT(table, Contains("first") && Contains("second"));
  CHECK_THAT(run_report(workplace, {"trial"}).output, Contains("second"));
  CHECK_THAT(run_report(workplace, {"experiment.yaml"}).output, Contains("second"));
  const Ended wrong = run_report(workplace, {"trail"});
  CHECK(wrong.status == 2);
  CHECK_THAT(wrong.errors, Contains("neither a file nor an experiment") &&
                               Contains("which hold: trial; did you mean 'trial'?"));
}

TEST_CASE("neither report nor export takes the place of the results") {
  const Workplace workplace(kTwoPoints);
  REQUIRE(workplace.run().status == 0);
  const Ended written = run_report(workplace, {"--format", "table", "--output",
                                               (workplace.results() / "results.sqlite").string()});
  CHECK(written.status == 2);
  CHECK_THAT(written.errors, Contains("is a database and is not replaced"));
  run_report(workplace,
             {"--format", "csv", "--output", (workplace.results() / "runs.csv").string()});
  const Ended exported =
      workplace.call({"export", "--to", workplace.results().string(), "--force"});
  CHECK(exported.status == 2);
  CHECK_THAT(exported.errors, Contains("holds other things than an export"));
  CHECK(rows(workplace).size() == 2);
}

TEST_CASE("report's options choose rows, columns and times") {
  const Workplace workplace(kTwoPoints);
  REQUIRE(workplace.run().status == 0);
  const auto csv = [&](std::vector<std::string> options) {
    options.insert(options.end(), {"--format", "csv", "--columns", "point,ranks"});
    return run_report(workplace, options).output;
  };
  CHECK(csv({}) == "point,ranks\r\nfirst,3\r\nsecond,2\r\n");
  CHECK(csv({"--sort", "-ranks"}) == "point,ranks\r\nfirst,3\r\nsecond,2\r\n");
  CHECK(csv({"--sort", "ranks"}) == "point,ranks\r\nsecond,2\r\nfirst,3\r\n");
  CHECK(csv({"--where", "ranks > 2", "--where", "point ~ FIRST"}) == "point,ranks\r\nfirst,3\r\n");
  CHECK(csv({"--since", "1h"}) == "point,ranks\r\nfirst,3\r\nsecond,2\r\n");
  CHECK(csv({"--since", "2999-01-01"}) == "point,ranks\r\n");
  CHECK_THAT(run_report(workplace, {"--columns", "help"}).output,
             StartsWith("All columns, in the order") && Contains("\n* point\n"));
}

TEST_CASE("a sweep over methods has a row for each, with the parameters that are trained") {
  const Workplace workplace(
      "  - {name: a, strategy: {kind: ddp, ranks: 2}}\n"
      "sweep: {product: {method: [full, lora]}}\n");
  REQUIRE(workplace.run().status == 0);
  CHECK(run_report(workplace, {"--format", "csv", "--columns",
                               "point,method,parameter_count,trained_parameter_count"})
            .output ==
        "point,method,parameter_count,trained_parameter_count\r\n"
        "a method=full,full,1000,1000\r\na method=lora,lora,1000,10\r\n");
  const std::string table = run_report(workplace, {}).output;
  CHECK_THAT(table,
             Contains("cannot be compared with method=full: method=lora has another method"));
}

TEST_CASE("runs that left the list are told of, are rows on request, and are compared by name") {
  const Workplace workplace(kTwoPoints);
  REQUIRE(workplace.run().status == 0);
  std::ofstream(workplace / "experiment.yaml")
      << "experiment: trial\nbase: {train.steps: 7, device: cpu, data.train: " << few_games()
      << "}\npoints:\n"
      << kTwoPoints;
  REQUIRE(workplace.run({"experiment.yaml", "--only", "second"}).status == 0);
  CHECK_THAT(run_report(workplace, {}).output,
             Contains("Not shown: 2 runs outside") && Contains("`fsdp-run report --all`"));
  const std::string first = "first [train.steps=5]", second = "second [train.steps=5]";
  for (const char* option : {"--all", "--variants"}) {
    const Ended all =
        run_report(workplace, {option, "--format", "csv", "--columns", "point,current,steps"});
    CHECK(all.output == "point,current,steps\r\nfirst,1,\r\n" + first + ",0,5\r\nsecond,1,7\r\n" +
                            second + ",0,5\r\n");
  }
  const std::string per_rank =
      run_report(workplace, {"--all", "--per-rank", "--format", "csv", "--columns", "point,rank"})
          .output;
  CHECK_THAT(per_rank, Contains("second,1\r\n" + second + ",0\r\n"));
  CHECK_THAT(
      run_report(workplace, {"--all", "--where", "point = " + second, "--format", "html"}).output,
      Contains("\"ranks\":[{"));
  CHECK_THAT(workplace.call({"diff", "second", second}).output,
             Contains("train.steps ") && Contains("  5\n"));
}

TEST_CASE("runs with --set are a list of their own, and leave the file's list as it was") {
  const Workplace workplace(
      "  - {name: first, strategy: {kind: ddp, ranks: 3}}\n"
      "  - {name: second, strategy: {kind: fsdp, ranks: 2}, train.steps: 6}\n"
      "profiles: {usual: {set: {}}, other: {set: {train.seed: 3}}}\n");
  const std::vector<std::string> plain{"experiment.yaml", "--profile", "other"};
  const auto with = [&](const std::string& override) {
    std::vector<std::string> arguments = plain;
    arguments.push_back(override);
    return workplace.run(arguments);
  };
  const auto csv = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"--format", "csv", "--columns", "point,steps"});
    return run_report(workplace, words).output;
  };
  REQUIRE(with("train.steps=7").status == 0);
  const std::string list = "trial [train.steps=7]";
  const std::string of_list = "point,steps\r\nfirst,7\r\nsecond [train.steps=7],7\r\n";
  CHECK(csv({"trial"}) == of_list);  // there is no other list yet
  REQUIRE(workplace.run(plain).status == 0);
  const std::string of_file = "point,steps\r\nfirst,5\r\nsecond,6\r\n";
  const Ended again = with("train.steps=7");
  CHECK_THAT(again.errors, Contains("warning: --set train.steps=7 outranks train.steps: 6 of "
                                    "'second' (") &&
                               Contains("2 runs with a result already"));
  CHECK_THAT(again.output, Contains("second [train.steps=7]"));
  CHECK(csv({list}) == of_list);
  CHECK(csv({"trial"}) == of_file);
  CHECK_THAT(
      run_report(workplace, {"trial"}).output,
      Contains("Not shown: " + list + ", made with --set. `fsdp-run report '" + list + "'`"));
  CHECK_THAT(csv({"trial", "--all"}), Contains("second,6") && Contains("second [train.steps=7],7"));
  CHECK(workplace.call({"prune", "--not-current", "--yes"}).output == "nothing to remove\n");
  for (const char* harmless : {"slurm.max_restarts=1", "device=cpu", "train.seed=3"}) {
    CAPTURE(harmless);
    CHECK_THAT(with(harmless).errors, Contains("2 runs with a result already"));
  }
  CHECK(Store(workplace.results()).experiments().size() == 2);

  run_report(workplace, {list, "--output", "page.html"});
  const std::string arguments = arguments_on(text_of(workplace / "page.html"));
  CHECK(arguments == "experiment.yaml --profile other --set train.steps=7");
  REQUIRE(status_again(workplace / "", arguments) == 0);
  const auto hashes = [&](const std::string& results) {
    std::vector<std::string> hashes;
    for (const auto& row : Store(workplace / results).comparison(list)) hashes.push_back(row.hash8);
    return hashes;
  };
  CHECK(hashes("again") == hashes("results"));
}

TEST_CASE("a page's command names the file by a path from where the page was made") {
  const Workplace workplace(kTwoPoints);
  std::filesystem::create_directories(workplace / "course/labs");
  std::filesystem::rename(workplace / "experiment.yaml", workplace / "course/labs/one lab.yaml");
  REQUIRE(workplace.run({"course/labs/one lab.yaml", "--only", "second"}).status == 0);
  for (const auto& [folder, path] :
       std::map<std::string, std::string>{{"", "course/labs/one lab.yaml"},
                                          {"course", "labs/one lab.yaml"},
                                          {"results", workplace / "course/labs/one lab.yaml"}}) {
    CAPTURE(folder);
    std::vector<std::string> command = report(workplace, {"--format", "html"});
    command.insert(command.begin(), FSDP_RUN_PROGRAM);
    const std::string arguments = arguments_on(Program(workplace / folder, command).wait().output);
    CHECK(arguments == '\'' + path + '\'');
    CHECK(status_again(workplace / folder, arguments + " --only second") == 0);
  }
}

TEST_CASE("--repeats runs each point several times, in a list of its own") {
  const Workplace workplace(kTwoPoints);
  REQUIRE(workplace.run({"experiment.yaml", "--only", "second"}).status == 0);
  const Ended ended = workplace.run({"experiment.yaml", "--only", "second", "--repeats", "3"});
  REQUIRE(ended.status == 0);
  CHECK_THAT(ended.errors, Contains("second #3: finished"));
  const std::string csv =
      run_report(workplace, {"trial [repeats=3]", "--format", "csv", "--columns", "point,status"})
          .output;
  CHECK_THAT(csv, Contains("second #1,finished\r\nsecond #2,finished\r\nsecond #3,finished\r\n"));
  CHECK(rows(workplace).size() == 2);
  CHECK_THAT(run_report(workplace, {"trial [repeats=3]", "--format", "html"}).output,
             Contains(R"("commands":["./fsdp-run experiment.yaml --repeats=3"])"));
  CHECK(workplace.run({"experiment.yaml", "--repeats", "0"}).status == 2);
}

TEST_CASE("report --output leaves the earlier file alone when something is wrong") {
  const Workplace workplace(kTwoPoints);
  REQUIRE(workplace.run().status == 0);
  const std::filesystem::path file = workplace / "table.tex";
  std::ofstream(file) << "earlier";
  CHECK(run_report(workplace, {"--output", file.string(), "--where", "ranks = x"}).status == 2);
  CHECK(text_of(file) == "earlier");
  const std::string missing = (workplace / "no/folder/table.tex").string();
  CHECK_THAT(run_report(workplace, {"--output", missing}).errors, Contains("cannot be written"));
  const Ended ended = run_report(workplace, {"--output", file.string()});
  CHECK(ended.status == 0);
  CHECK(ended.output.empty());
  CHECK_THAT(text_of(file), Contains("\\begin{tabular}"));
}

TEST_CASE("an output's name says its format, where none is asked for") {
  const Workplace workplace(kTwoPoints);
  REQUIRE(workplace.run().status == 0);
  const auto written = [&](const std::string& name, std::vector<std::string> options) {
    options.insert(options.end(), {"--output", (workplace / name).string()});
    REQUIRE(run_report(workplace, options).status == 0);
    return text_of(workplace / name);
  };
  CHECK_THAT(written("table.html", {}), StartsWith("<!doctype html>"));
  CHECK_THAT(written("table.md", {}), Contains("| point |"));
  CHECK_THAT(written("table.csv", {}), StartsWith("experiment,"));
  CHECK_THAT(written("table.json", {}), StartsWith("{\"title\""));
  CHECK_THAT(written("table.txt", {}), Contains("\nMemory:"));
  CHECK_THAT(written("table", {}), Contains("\nMemory:"));
  CHECK_THAT(written("other.md", {"--format", "csv"}), StartsWith("experiment,"));
  CHECK_THAT(written("other.pdf", {"--format", "html"}), StartsWith("<!doctype html>"));
  const Ended pdf = run_report(workplace, {"--output", "lab.pdf"});
  CHECK(pdf.status == 2);
  CHECK_THAT(pdf.errors,
             Contains("--output: lab.pdf is named like a file of pdf; allowed are table, "));
  CHECK_FALSE(std::filesystem::exists(workplace / "lab.pdf"));
  const Ended plan = workplace.call({"plan", "experiment.yaml", "--output", "plan.csv"});
  CHECK(plan.status == 2);
  CHECK_THAT(plan.errors, Contains("--output: plan.csv is named like a file of csv") &&
                              Contains("allowed are table, markdown, json, html"));
}

TEST_CASE("notes that are not UTF-8 are refused") {
  const Workplace workplace(kTwoPoints);
  std::ofstream(workplace / "notes.txt") << "caf\xe9";
  const Ended ended = run_report(workplace, {"--format", "html", "--notes", "notes.txt"});
  CHECK(ended.status == 2);
  CHECK_THAT(ended.errors, Contains("notes.txt: is not UTF-8; save the text as UTF-8"));
}

TEST_CASE("report --reference exits 1 when a figure is outside its tolerance") {
  const Workplace workplace(kTwoPoints);
  REQUIRE(workplace.run().status == 0);
  const auto status_with = [&](const std::string& steps) {
    std::ofstream(workplace / "reference.yaml")
        << "experiment: trial\ntolerance: 0\npoints: [{point: first, figures: {steps: " << steps
        << "}}]\n";
    return run_report(workplace, {"--reference", "reference.yaml"}).status;
  };
  CHECK(status_with("5") == 0);
  CHECK(status_with("6") == 1);
  CHECK(status_with("many") == 2);
}

TEST_CASE("a report that met damage in its second query had every row twice") {
  const Workplace workplace(kTwoPoints);
  CHECK(workplace.run().status == 0);
  const std::string before = workplace.call({"report", "trial"}).output;
  const std::filesystem::path file = workplace.results() / "results.sqlite";
  Database database(file);
  const auto page = Statement(database, "select rootpage from sqlite_master where name = ?")
                        .value<int64_t>("memory_peaks")
                        .value();
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp((page - 1) * 4096);
  stream << std::string(4096, '\x55');
  stream.close();
  CHECK(workplace.call({"report", "trial"}).output == before);
}

}  // namespace
}  // namespace fsdp
