// Writes the experiment. The point `as given` does what the sources say; the others are what this
// program is for.
#include "runner/import/import.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/text/config_error.h"
#include "base/text/json.h"
#include "base/text/utf8.h"
#include "contract/spec/run_spec_yaml.h"
#include "runner/import/translation.h"
#include "runner/table/terminal_text.h"

namespace fsdp {
namespace {

constexpr size_t kWidth = 100;
constexpr size_t kMostFiles = 16;

// Returns the file of this name in `folder`, or in the next folder above that has it. Paths in
// configurations are often relative to the top of a repository. Empty: there is none.
std::filesystem::path file_named(const std::filesystem::path& named, std::filesystem::path folder) {
  std::error_code unknown;
  for (folder = std::filesystem::absolute(folder);; folder = folder.parent_path()) {
    if (std::filesystem::is_regular_file(folder / named, unknown)) return folder / named;
    if (folder == folder.parent_path()) return {};
  }
}

// Reads files and those that they name, each after the one that names it.
class SourceReader {
 public:
  // A file that is among the `given` is not read when another one names it.
  explicit SourceReader(const std::vector<std::filesystem::path>& given) : known_(given) {}

  // Throws ConfigError.
  void read(const std::filesystem::path& path) {
    ForeignFile& file = files_.emplace_back(read_foreign_file(path));
    read_named(file, std::filesystem::absolute(path).parent_path());
  }

  void read_launch(const std::string& line) {
    ForeignFile launch = read_launch_line(line);
    read_named(launch, std::filesystem::current_path());
    files_.push_back(std::move(launch));
  }

  std::deque<ForeignFile> take() { return std::move(files_); }

 private:
  void read_named(ForeignFile& file, const std::filesystem::path& folder) {
    for (ForeignWord& word : file.words) {
      const OtherKey* key = file.trainer->find(word.name);
      if (key == nullptr || word.fate == Fate::kEmpty) continue;
      if (!key->names_file && key->list.empty()) continue;
      word.note = key->names_file ? problem_of_named(file_named(word.value, folder))
                                  : problem_of_entry(file, *key, word.value, folder);
      if (word.note.empty()) word.fate = Fate::kTranslated;
    }
  }

  // Reads an entry of the list of the key, which the file `by` has. Returns why it cannot be read;
  // empty: it is.
  std::string problem_of_entry(const ForeignFile& by, const OtherKey& key, const std::string& entry,
                               const std::filesystem::path& folder) {
    std::filesystem::path named = key.list[1];
    for (const ForeignWord& word : by.words) {
      if (word.name == key.list[0]) named = word.value;
    }
    const std::filesystem::path file = file_named(named / key.list[2], folder);
    const std::string advice = "; write the name of the data's file in place of FILE";
    if (file.empty()) return "there is no " + (named / key.list[2]).string() + advice;
    try {
      files_.push_back(read_foreign_entry(file, entry, named));
      return "";
    } catch (const ConfigError& error) {
      return error.what() + advice;
    }
  }

  // Reads the file, unless it is known. Returns why it cannot be read; empty: it is.
  std::string problem_of_named(const std::filesystem::path& named) {
    const auto is_same = [&](const std::filesystem::path& path) {
      std::error_code unknown;
      return std::filesystem::equivalent(path, named, unknown);
    };
    if (named.empty() || known_.size() >= kMostFiles) {
      return "there is no such file; give it as another FILE";
    }
    if (std::ranges::any_of(known_, is_same)) return "";
    try {
      known_.push_back(named);
      read(named);
      return "";
    } catch (const ConfigError& error) {
      known_.pop_back();
      return error.what();
    }
  }

  std::vector<std::filesystem::path> known_;
  std::deque<ForeignFile> files_;  // they stay where they are when others are read
};

std::deque<ForeignFile> read_sources(const ImportSources& sources) {
  SourceReader reader(sources.files);
  for (const std::filesystem::path& file : sources.files) reader.read(file);
  if (!sources.launch.empty()) reader.read_launch(sources.launch);
  std::deque<ForeignFile> files = reader.take();
  if (files.size() == 1) {
    for (ForeignWord& word : files.front().words) {
      word.place.replace(0, files.front().name.size() + 1, "line ");
    }
  }
  return files;
}

// --- points ---

struct Point {
  std::string name;
  std::vector<std::string> keys;  // "method: qlora"
};

std::string fsdp_of(int64_t ranks, const char* more = "") {
  return fmt::format("strategy: {{kind: fsdp, ranks: {}{}}}", ranks, more);
}

// Returns the points. `given` is the strategy of the sources. Totals of sequences stay equal where
// the accumulation allows it.
std::vector<Point> points_of(const Translation& translation, const std::string& given,
                             int64_t ranks) {
  const ImportedKey* kind = translation.find("strategy.kind");
  const bool is_sharded = kind != nullptr && kind->value == "fsdp";
  std::vector<Point> points{{"as given", {given}}};
  if (ranks > 1 && is_sharded) {
    points.push_back({"DDP", {fmt::format("strategy: {{kind: ddp, ranks: {}}}", ranks)}});
  } else if (ranks > 1) {
    points.push_back({"FSDP", {fsdp_of(ranks)}});
  }
  const int64_t size = translation.integer("batch.size_per_rank", 0);
  const int64_t accumulation = translation.integer("batch.gradient_accumulation_steps", 1);
  if (size > 0 && translation.find("batch.total") == nullptr) {
    Point larger{
        fmt::format("{}batch {}", ranks > 1 ? "FSDP " : "", 2 * size),
        {ranks > 1 ? fsdp_of(ranks) : given, fmt::format("batch.size_per_rank: {}", 2 * size)}};
    if (accumulation % 2 == 0) {
      larger.keys.push_back(fmt::format("batch.gradient_accumulation_steps: {}", accumulation / 2));
    }
    points.push_back(std::move(larger));
  }
  points.push_back({"offload", {fsdp_of(ranks, ", offload: optimizer")}});
  const ImportedKey* method = translation.find("method");
  if (method == nullptr || method->value != "qlora") {
    points.push_back({"QLoRA", {given, "method: qlora"}});
  }
  return points;
}

// --- the text ---

// Returns lines of comments.
std::string comment(const std::string& text) {
  constexpr std::string_view kMark = "#   ";
  std::string lines = wrapped(std::string(kMark), text, kMark.size(), kWidth);
  for (size_t at = lines.find('\n'); at + 1 < lines.size(); at = lines.find('\n', at + 1)) {
    lines.replace(at + 1, kMark.size(), kMark);
  }
  return lines;
}

// Returns a line with the names of the words of one fate; empty: there are none.
std::string list_of(const std::deque<ForeignFile>& files, Fate fate, const char* title) {
  std::vector<std::string> names;
  for (const ForeignFile& file : files) {
    for (const ForeignWord& word : file.words) {
      if (word.fate == fate) names.push_back(fmt::format("{} ({})", word.name, word.place));
    }
  }
  if (names.empty()) return "";
  return comment(visible_line(fmt::format("{}: {}", title, fmt::join(names, ", "))));
}

// Returns comments that say what came of every key that the experiment does not have as it was.
std::string fates_of(const std::deque<ForeignFile>& files) {
  constexpr size_t kMostOfValue = 60;
  std::string lost, different;
  for (const ForeignFile& file : files) {
    for (const ForeignWord& word : file.words) {
      const bool is_lost = word.fate == Fate::kUntranslated;
      const bool is_different = word.fate == Fate::kTranslated && !word.note.empty();
      if (!is_lost && !is_different) continue;
      const std::string line =
          fmt::format("{}: {}: {}", word.place, word.name, shortened(word.value, kMostOfValue));
      (is_lost ? lost : different) +=
          comment(visible_line(line + (word.note.empty() ? "" : "; " + word.note)));
    }
  }
  std::string text;
  if (!lost.empty()) text += "# Not translated:\n" + lost;
  if (!different.empty()) text += "# Translated, with a difference:\n" + different;
  text += "# Of the other keys:\n";
  text += list_of(files, Fate::kSoAlready, "so already");
  text += list_of(files, Fate::kIrrelevant, "irrelevant here");
  return text + list_of(files, Fate::kEmpty, "empty");
}

std::string line_of(const ImportedKey& key) {
  const std::string setting = fmt::format("  {}: {}", key.name, key.value);
  if (key.origin.empty()) return setting + '\n';
  return fmt::format("{:<56}  # {}\n", setting, visible_line(key.origin));
}

// Launchers count ranks in all, or on each node.
int64_t ranks_of(const Translation& translation) {
  const ImportedKey* ranks = translation.find("strategy.ranks");
  const bool is_of_node = ranks != nullptr && ranks->value.find("slurm.nodes") != std::string::npos;
  return translation.integer("strategy.ranks", 1) *
         (is_of_node ? translation.integer("slurm.nodes", 1) : 1);
}

std::string experiment_text(const std::string& name, const std::deque<ForeignFile>& files,
                            const Translation& translation) {
  std::vector<std::string> sources, base, strategy, origins;
  for (const ForeignFile& file : files) {
    sources.push_back(fmt::format("{} ({})", file.name, file.trainer->name));
  }
  for (const ImportedKey& key : translation.keys()) {
    const std::string below = key.name.substr(key.name.find('.') + 1);
    if (!is_at_or_below(key.name, "strategy")) {
      base.push_back(line_of(key));
      continue;
    }
    origins.push_back(fmt::format("{} from {}", below, key.origin));
    if (below != "ranks") strategy.push_back(fmt::format("{}: {}", below, key.value));
  }
  const int64_t ranks = ranks_of(translation);
  if (translation.find("strategy.kind") == nullptr) {
    strategy.insert(strategy.begin(), ranks > 1 ? "kind: ddp" : "kind: single");
  }
  strategy.push_back(fmt::format("ranks: {}", ranks));
  const std::string given = fmt::format("strategy: {{{}}}", fmt::join(strategy, ", "));
  std::string text = fmt::format("# Made by fsdp-run import of {}.\n",
                                 visible_line(fmt::format("{}", fmt::join(sources, ", "))));
  text += fates_of(files);
  if (!origins.empty()) {
    text += comment(visible_line(fmt::format("strategy: {}", fmt::join(origins, ", "))));
  }
  constexpr std::pair<const char*, const char*> kRemarks[] = {
      {"model.source", "No model is named: give model.source."},
      {"data.train",
       "No data is named: the shipped games of chess stand for it. Give data.kind and data.train."},
      {"data.sequence_length", "No length of rows is named: give data.sequence_length."},
      {"strategy.ranks",
       "No number of GPUs is named: 1. Give another with --ranks N or --launch LINE."}};
  for (const auto& [missing, remark] : kRemarks) {
    if (translation.find(missing) == nullptr) text += fmt::format("# {}\n", remark);
  }
  text += "\nexperiment: ";
  append_json_string(text, name);
  text += fmt::format("\ncompare: throughput\nbase:\n{}points:\n", fmt::join(base, ""));
  for (const Point& point : points_of(translation, given, ranks)) {
    text += fmt::format("  - name: {}\n    {}\n", point.name, fmt::join(point.keys, "\n    "));
  }
  return text;
}

// Returns the name of an experiment: a file's name, if that is one.
std::string experiment_name(const ImportSources& sources) {
  if (!sources.name.empty()) return sources.name;
  std::string name;
  for (const char c : sources.files.front().stem().string()) {
    name += std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' ? c : '-';
  }
  return name;
}

}  // namespace

Imported import_experiment(const ImportSources& sources) {
  std::deque<ForeignFile> files = read_sources(sources);
  Translation translation;
  for (ForeignFile& file : files) {
    translation.translate(file, file.is_launch_line() ? *files.front().trainer : *file.trainer);
  }
  if (sources.ranks) {
    translation.set({"strategy.ranks", std::to_string(*sources.ranks), "--ranks"});
  }
  for (const ForeignFile& file : files) {
    if (!file.is_launch_line()) translation.add_defaults(*file.trainer);
  }
  for (const ForeignFile& file : files) translation.apply_consequences(*file.trainer);
  const std::string text = experiment_text(experiment_name(sources), files, translation);
  return {.files = std::move(files), .experiment = text};
}

}  // namespace fsdp
