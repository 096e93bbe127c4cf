#include <nlohmann/json.hpp>

#include "runner/store/database.h"
#include "runner/store/store.h"
#include "tests/runner/report/report_fixture.h"
#include "tests/temporary_folder.h"

// Tests every format with fixed databases, tests/golden/*.sql. After an intended change, write the
// expected files with UPDATE_GOLDEN=1 build/release/report_test, and look at the diff.
namespace fsdp {
namespace {

// A database of the current schema with the rows of tests/golden/<name>.sql.
class FixedDatabase {
 public:
  explicit FixedDatabase(const std::string& name) : store_(folder_.path()) {
    std::ifstream file(std::string(FSDP_GOLDEN_FOLDER) + "/" + name + ".sql");
    std::stringstream sql;
    sql << file.rdbuf();
    change(sql.str());
  }

  void change(const std::string& sql) { Database(folder_ / "results.sqlite").execute(sql); }

  Report report() {
    Report report;
    report.rows = store_.comparison("");
    report.title = store_.experiments().at(0).title;
    report.results = "results";
    return report;
  }

  std::vector<std::string> warnings() {
    const auto json = nlohmann::json::parse(render(Format::kJson, report()));
    std::vector<std::string> names;
    for (const auto& warning : json["warnings"]) names.push_back(warning["name"]);
    return names;
  }

 private:
  TemporaryFolder folder_;
  Store store_;
};

void check_all_formats(const std::string& name) {
  Report report = FixedDatabase(name).report();
  check_golden(name + ".txt", render(Format::kTable, report));
  report.view.wide = true;
  check_golden(name + "_wide.txt", render(Format::kTable, report));
  report.view.wide = false;
  check_golden(name + ".md", render(Format::kMarkdown, report));
  check_golden(name + ".csv", render(Format::kCsv, report));
  check_golden(name + ".json", render(Format::kJson, report));
  check_golden(name + ".tex", render(Format::kLatex, report));
}

using Names = std::vector<std::string>;

TEST_CASE("the lab's normal sweep in every format") { check_all_formats("lab"); }

TEST_CASE("a sweep with repeats, failures and warnings in every format") {
  check_all_formats("repeated");
}

TEST_CASE(
    "the first five lines say what fits, how fast, in what memory, and whether losses agree") {
  for (const std::string name : {"lab", "batch_doubling", "offload_13b", "chess"}) {
    INFO(name);
    Report report = FixedDatabase(name).report();
    std::istringstream lines(render(Format::kTable, report));
    std::string first_lines;
    std::string line;
    for (int i = 0; i < 5 && std::getline(lines, line); ++i) first_lines += line + '\n';
    for (const char* answer : {"\nFits: ", "\nSpeed: ", "\nLoss: ", "tokens/s"}) {
      CHECK_THAT(first_lines, Catch::Contains(answer));
    }
    report.width = 80;
    check_golden(name + "_80.txt", render(Format::kTable, report));
  }
}

TEST_CASE("nothing is warned of in the lab's normal sweep") {
  CHECK(FixedDatabase("lab").warnings().empty());
}

TEST_CASE("FSDP whose loss is not DDP's is found by the digests that the runner records") {
  FixedDatabase lab("lab");
  lab.change("update summaries set loss_last = loss_last * 1.001 where run = 3");
  CHECK(lab.warnings() == Names{"losses_disagree"});
}

TEST_CASE("the lab would be warned of if it compared losses") {
  FixedDatabase lab("lab");
  lab.change("update experiments set compare = 'loss'");
  CHECK(lab.warnings() == Names{"different_total_batch", "different_steps"});
}

TEST_CASE("warnings of the repeated sweep") {
  CHECK(FixedDatabase("repeated").warnings() ==
        Names{"different_commit", "other_processes", "repeats_differ"});
}

}  // namespace
}  // namespace fsdp
