#include <nlohmann/json.hpp>

#include "contract/inputs/input_file.h"
#include "contract/inputs/inputs.h"
#include "contract/text/config_error.h"
#include "contract/text/utf8.h"

namespace fsdp {
namespace {

using nlohmann::json;

// Reads a LlamaConfig as transformers writes it (save_pretrained, versions 4 and 5).
class LlamaConfigReader {
 public:
  explicit LlamaConfigReader(const std::filesystem::path& file)
      : file_(file), object_(parse_json_object(file, map_input_file(file)->text())) {}

  ModelConfig read() const {
    check_architecture();
    for (const char* key : {"num_hidden_layers", "hidden_size", "intermediate_size",
                            "num_attention_heads", "vocab_size"}) {
      if (find(key).is_null()) refuse(key, "is missing");
    }
    ModelConfig config{.rms_norm_eps = 1e-6};  // LlamaConfig's default
    ModelConfig::visit_fields(config,
                              [&](const char* key, auto& member, const char*, const Range& range) {
                                if (const json value = find(key); !value.is_null())
                                  read_value(key, value, range, member);
                              });
    if (find("num_key_value_heads").is_null()) {
      config.num_key_value_heads = config.num_attention_heads;
    }
    read_rope(config);
    check_heads(config);
    check_size(config);
    check_variants();
    return config;
  }

 private:
  [[noreturn]] void refuse(const std::string& key, const std::string& problem) const {
    throw ConfigError(file_.string(), key, shortened(problem, kMostOfMessage));
  }

  // null when absent, which transformers means the same by.
  json find(const char* key) const { return object_.value(key, json()); }

  void check_architecture() const {
    const json architectures = find("architectures");
    if (architectures != json::array({"LlamaForCausalLM"})) {
      refuse("architectures", "is " + architectures.dump() + "; allowed: [\"LlamaForCausalLM\"]");
    }
  }

  template <typename T>
  void read_value(const std::string& key, const json& value, const Range& range, T& member) const {
    if constexpr (std::same_as<T, bool>) {
      if (!value.is_boolean()) refuse(key, value.dump() + " is not true or false");
    } else {
      const bool is_number =
          std::same_as<T, int64_t> ? value.is_number_integer() : value.is_number();
      if (!is_number || !range.contains(value.get<double>())) {
        refuse(key, value.dump() + " is not a " +
                        (std::same_as<T, int64_t> ? "whole number " : "number ") +
                        range.description());
      }
    }
    member = value.get<T>();
  }

  // Version 5 nests the base in rope_parameters, version 4 has scaling in rope_scaling.
  void read_rope(ModelConfig& config) const {
    for (const char* key : {"rope_parameters", "rope_scaling"}) {
      const json rope = find(key);
      if (rope.is_null()) continue;
      if (!rope.is_object()) refuse(key, rope.dump() + " is not an object");
      const json type = rope.value("rope_type", rope.value("type", json("default")));
      if (type != "default") {
        refuse(std::string(key) + ".rope_type",
               type.dump() + " is not supported; allowed: \"default\" (no scaling)");
      }
      if (const json theta = rope.value("rope_theta", json()); !theta.is_null()) {
        read_value(std::string(key) + ".rope_theta", theta, greater_than(0), config.rope_theta);
      }
    }
  }

  void check_heads(const ModelConfig& config) const {
    const int64_t heads = config.num_attention_heads;
    if (config.hidden_size % heads != 0 || config.hidden_size / heads % 2 != 0) {
      refuse("num_attention_heads", std::to_string(heads) + " does not divide hidden_size " +
                                        std::to_string(config.hidden_size) +
                                        " into heads of an even width");
    }
    if (heads % config.num_key_value_heads != 0) {
      refuse("num_key_value_heads", std::to_string(config.num_key_value_heads) +
                                        " does not divide num_attention_heads " +
                                        std::to_string(heads));
    }
    const int64_t width = config.hidden_size / heads;
    if (const json head_dim = find("head_dim"); !head_dim.is_null() && head_dim != width) {
      refuse("head_dim", head_dim.dump() +
                             " is not supported; allowed: hidden_size / "
                             "num_attention_heads = " +
                             std::to_string(width));
    }
  }

  void check_size(const ModelConfig& config) const {
    const int64_t count = parameter_count(config);
    if (count <= kMostParameters) return;
    refuse("", "asks for " + std::to_string(count) + " parameters; allowed: at most " +
                   std::to_string(kMostParameters));
  }

  void check_variants() const {
    const auto require = [&](const char* key, const json& allowed) {
      if (const json value = find(key); !value.is_null() && value != allowed) {
        refuse(key, value.dump() + " is not supported; allowed: " + allowed.dump());
      }
    };
    require("attention_bias", false);
    require("mlp_bias", false);
    require("attention_dropout", 0.0);
    require("partial_rotary_factor", 1.0);
    require("hidden_act", "silu");
  }

  std::filesystem::path file_;
  json object_;
};

}  // namespace

ModelConfig read_hugging_face_config(const std::filesystem::path& folder) {
  return LlamaConfigReader(folder / "config.json").read();
}

}  // namespace fsdp
