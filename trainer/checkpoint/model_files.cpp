#include <array>
#include <nlohmann/json.hpp>

#include "base/files/input_file.h"
#include "base/text/foreign_json.h"
#include "contract/families/family.h"
#include "trainer/checkpoint/full_weights_writer.h"

namespace fsdp {
namespace {

using nlohmann::ordered_json;
using std::filesystem::path;

// Copied if the source has them.
constexpr std::array kOtherFiles{
    "generation_config.json", "tokenizer.json",     "tokenizer_config.json",
    "tokenizer.model",        "vocab.json",         "merges.txt",
    "added_tokens.json",      "chat_template.json", "special_tokens_map.json",
    "chat_template.jinja"};

std::string dtype_in_config(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return "float32";
    case at::kBFloat16:
      return "bfloat16";
    case at::kHalf:
      return "float16";
    default:
      TORCH_CHECK(false, "weights of dtype ", dtype, " have no place in config.json");
  }
}

ordered_json read_config(const path& file) {
  const std::string text = read_input_file(file);
  parse_json_object(file, text);
  return parse_foreign_json<ordered_json>(text);
}

}  // namespace

std::string config_text(const ModelSpec& model, at::ScalarType dtype) {
  ordered_json config = model.source.empty() ? family_of(model.config).write_config(model.config)
                                             : read_config(model.source / "config.json");
  const bool has_old_key = config.contains("torch_dtype") && !config.contains("dtype");
  config[has_old_key ? "torch_dtype" : "dtype"] = dtype_in_config(dtype);
  return config.dump(2) + '\n';
}

std::vector<path> copied_files(const ModelSpec& model) {
  std::vector<path> files;
  if (model.source.empty()) return files;
  for (const char* name : kOtherFiles) {
    std::error_code error;
    if (std::filesystem::exists(model.source / name, error)) files.push_back(model.source / name);
  }
  return files;
}

}  // namespace fsdp
