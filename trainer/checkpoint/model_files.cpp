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

constexpr const char* kConfigName = "config.json";
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

void for_each_model_file(
    const ModelSpec& model, at::ScalarType dtype,
    const std::function<void(const std::string& name, const std::string& text)>& visit) {
  const path& source = model.source;
  ordered_json config = source.empty() ? family_of(model.config).write_config(model.config)
                                       : read_config(source / kConfigName);
  const bool has_old_key = config.contains("torch_dtype") && !config.contains("dtype");
  config[has_old_key ? "torch_dtype" : "dtype"] = dtype_in_config(dtype);
  visit(kConfigName, config.dump(2) + '\n');
  if (source.empty()) return;
  for (const char* name : kOtherFiles) {
    std::error_code error;
    if (!std::filesystem::exists(source / name, error)) continue;
    visit(name, read_input_file(source / name));
  }
}

}  // namespace fsdp
