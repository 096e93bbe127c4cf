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
    for (ComparisonRow& row : report.rows) {
      const auto peak = store_.memory_peak(row.run, static_cast<int>(row.attempt.value_or(0)));
      if (peak) row.memory_by_use = peak->by_use;
    }
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

using Names = std::vector<std::string>;

TEST_CASE("a normal sweep, and one with repeats, failures and warnings, in every format") {
  using enum Format;
  for (const std::string name : {"lab", "repeated"}) {
    Report report = FixedDatabase(name).report();
    check_golden_formats(name, report, {kTable, kMarkdown, kCsv, kJson, kLatex});
    report.view.wide = true;
    check_golden_formats(name + "_wide", report, {kTable});
  }
}

TEST_CASE("the table comes first, then at most six answers, on one screen") {
  for (const std::string name : {"lab", "batch_doubling", "offload_13b", "chess"}) {
    INFO(name);
    Report report = FixedDatabase(name).report();
    report.width = 80;
    const std::string text = table_of(report);
    check_golden(name + "_80.txt", text);
    CHECK(text.find("\n---") < std::min({text.find("\nMemory:"), text.find("\nSpeed:")}));
    CHECK(std::ranges::count(text, '\n') <= 40);
  }
}

TEST_CASE("what is warned of in the fixed sweeps") {
  // The second change is found by the digests that the runner records.
  const auto [name, change, warnings] = GENERATE(table<const char*, const char*, Names>(
      {{"lab", "", {}},
       {"lab",
        "update summaries set loss_last = loss_last * 1.001 where run = 3",
        {"losses_disagree"}},
       {"lab",
        "update experiments set compare = 'loss'",
        {"different_total_batch", "different_steps"}},
       {"repeated", "", {"different_commit", "other_processes", "repeats_differ"}}}));
  FixedDatabase database(name);
  database.change(change);
  CHECK(database.warnings() == warnings);
}

}  // namespace
}  // namespace fsdp
