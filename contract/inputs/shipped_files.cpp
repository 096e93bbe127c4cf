#include <string>

#include "contract/inputs/inputs.h"
#include "contract/text/config_error.h"

namespace fsdp {
namespace {

using std::filesystem::path;

// A shipped chess file: of the bundle that this executable belongs to, else of the source folder it
// was built from.
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

}  // namespace

// Looked for once: a sweep asks for every one of its runs.
path training_file(const DataSpec& data) {
  if (!data.train.empty()) return data.train;
  static const path kShipped = find_shipped("games.csv", "data.train");
  return kShipped;
}

path tokenizer_file(const DataSpec& data) {
  if (!data.tokenizer.empty()) return data.tokenizer;
  static const path kShipped = find_shipped("tokenizer.model", "data.tokenizer");
  return kShipped;
}

}  // namespace fsdp
