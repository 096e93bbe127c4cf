#include <catch2/catch.hpp>
#include <sstream>

#include "base/text/utf8.h"
#include "runner/store/database.h"
#include "runner/store/store.h"
#include "tests/end_to_end/program.h"

namespace fsdp {
namespace {

// A line feed and a forged row, "clear the screen", a carriage return and a C1 sequence. Then a
// right-to-left override, a byte that is no UTF-8, </script> and |.
constexpr const char* kHostile =
    "cast(x'610a464f524745441b5b324a0dc29b33316de280aeff3c2f7363726970743e7c' as text)";

struct TextColumns {
  std::string table;
  std::vector<std::string> columns;
};

const std::vector<TextColumns> kColumns = {
    {"experiments", {"name", "title", "file", "profile", "source"}},
    {"runs", {"experiment", "point", "series", "reason", "data_digest", "family_key"}},
    {"attempts",
     {"reason", "host", "git_commit", "trainer_digest", "runner_version", "cpu_name", "slurm_job",
      "node_list"}},
    {"ranks",
     {"host", "device", "device_name", "torch_version", "reason", "warning", "cuda_version",
      "driver_version", "compute_capability", "gpu", "allocator_settings", "bound_cpus"}},
    {"checkpoints", {"path"}},
    {"device_samples", {"host", "device", "device_name"}},
    {"jobs", {"experiment", "slurm_job", "cluster"}},
    {"job_tasks", {"state", "reason", "node_list"}}};

// Results whose texts all begin with kHostile.
class HostileResults {
 public:
  HostileResults() {
    std::filesystem::create_directory(folder_ / "results");
    { const Store store(folder_ / "results"); }
    Database database(folder_ / "results/results.sqlite");
    database.execute("pragma foreign_keys = off");
    database.execute(text_of(std::filesystem::path(FSDP_GOLDEN_FOLDER) / "results.sql"));
    // Texts in a specification are UTF-8.
    database.execute(
        "update runs set spec = json_set(spec, '$.data.prefix', "
        "cast(x'610a464f524745441b5b324a0dc29b33316de280ae3c2f7363726970743e7c' as text)) "
        "where id = 8");
    for (const auto& [table, columns] : kColumns) {
      for (const std::string& column : columns) {
        database.execute("update " + table + " set " + column + " = " + kHostile + " || " + column);
      }
    }
  }

  void change(const std::string& sql) const {
    Database(folder_ / "results/results.sqlite").execute("pragma foreign_keys = off; " + sql);
  }

  Ended call(std::vector<std::string> words) const {
    words.insert(words.begin(), FSDP_RUN_PROGRAM);
    return Program(folder_.path(), words).wait();
  }

 private:
  TemporaryFolder folder_;
};

// Returns the first harmful line, or "". A cell of CSV may hold line feeds.
std::string harm_in(const std::string& text, bool is_csv = false) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("FORGED") && !is_csv) return line;
    if (line.ends_with('\r')) line.pop_back();
    for (std::string_view rest = line; !rest.empty();) {
      const size_t length = utf8_length(rest);
      const bool is_tab = rest.front() == '\t';
      if (length == 0 || (begins_with_control_character(rest) && !is_tab))
        return visible_line(line);
      rest.remove_prefix(length);
    }
  }
  return "";
}

TEST_CASE("text of a stranger's database reaches no terminal raw, and forges no line") {
  const HostileResults results;
  const std::vector<std::vector<std::string>> commands = {
      {"report"},
      {"report", "--per-run"},
      {"report", "--per-rank"},
      {"report", "--group", "device_name", "--columns", "+reason,host,source,node_list"},
      {"report", "--format", "markdown"},
      {"report", "--format", "latex"},
      {"report", "--format", "json"},
      {"report", "--format", "html"},
      {"report", "--format", "csv"},
      {"report", "nobody"},
      {"status", "--all"},
      {"explain", "1", "--trainer", STUB_TRAINER_PROGRAM},
      {"explain", "3", "--trainer", STUB_TRAINER_PROGRAM},
      {"diff", "1", "2"},
      {"why", "1", "2", "--trainer", STUB_TRAINER_PROGRAM},
      {"logs", "1"},
      {"prune", "--dry-run"},
      {"cancel"},
      {"merge", "a=results", "--results", "merged"},
      {"report", "--columns", "+data.prefix"},
      {"export", "--to", "csv"},
      {"export", "--to", "wandb", "--format", "wandb"},
      {"complete", "explain", ""},
  };
  for (const std::vector<std::string>& command : commands) {
    CAPTURE(command);
    const Ended ended = results.call(command);
    CHECK(ended.status <= 2);
    CHECK(harm_in(ended.output, command.back() == "csv") == "");
    CHECK(harm_in(ended.errors) == "");
  }
  CHECK(results.call({"report"}).status == 0);
  CHECK(results.call({"status"}).status == 0);
  CHECK(results.call({"diff", "1", "2"}).status == 0);
}

}  // namespace
}  // namespace fsdp
