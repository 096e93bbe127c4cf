#include <initializer_list>
#include <string>
#include <string_view>
#include <system_error>

#include "contract/files/input_file.h"
#include "contract/inputs/inputs.h"
#include "contract/text/config_error.h"

namespace fsdp {
namespace {

using std::filesystem::path;

// A shipped chess file: in the bundle of this executable, else in the source folder of its build.
path find_shipped(const std::string& name, const std::string& key) {
  const path executable = std::filesystem::read_symlink("/proc/self/exe");
  const path bundled = executable.parent_path() / "chess" / name;
  if (std::filesystem::exists(bundled)) return bundled;
  const path source = path(FSDP_CHESS_FOLDER) / name;
  if (std::filesystem::exists(source)) return source;
  throw ConfigError("", key,
                    "is absent, and the shipped " + name + " is neither " + bundled.string() +
                        " nor " + source.string() + "; name a file");
}

// The first of these files that `folder` has.
path file_in(const path& folder, std::initializer_list<std::string_view> names) {
  std::string allowed;
  for (const std::string_view name : names) {
    if (input_exists(folder / name)) return folder / name;
    allowed += (allowed.empty() ? "" : ", ") + std::string(name);
  }
  refuse_file(folder, "is a folder without one of the files " + allowed);
}

bool is_folder(const path& data) {
  std::error_code ignored;
  return std::filesystem::is_directory(data, ignored);
}

}  // namespace

bool needs_tokenizer(DataKind kind) { return kind != DataKind::kTokens; }

// Finds the shipped file only once, because a sweep asks in each of its runs.
path training_file(const DataSpec& data) {
  if (is_folder(data.train)) return file_in(data.train, {"train.npy", "train.bin"});
  if (!data.train.empty()) return data.train;
  static const path kShipped = find_shipped("games.csv", "data.train");
  return kShipped;
}

path validation_file(const path& data) {
  if (!is_folder(data)) return data;
  return file_in(data, {"val.npy", "val.bin", "validation.npy", "validation.bin"});
}

path tokenizer_of(const RunSpec& spec) {
  if (!spec.data.tokenizer.empty()) return spec.data.tokenizer;
  if (spec.data.kind != DataKind::kChess) return spec.model.source;
  static const path kShipped = find_shipped("tokenizer.model", "data.tokenizer");
  return kShipped;
}

DataSource data_source(const RunSpec& spec, const path& file) {
  return {.file = file, .tokenizer = tokenizer_of(spec), .data = spec.data};
}

}  // namespace fsdp
