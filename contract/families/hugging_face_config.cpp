// Reads a config.json of transformers, and lists the keys that nothing reads.
#include "contract/families/hugging_face_config.h"

#include "base/text/config_error.h"
#include "base/text/utf8.h"
#include "contract/families/family.h"

namespace fsdp {

using nlohmann::json;

json HuggingFaceConfig::find(const std::string& key) const {
  const std::string name = name_in_file(key);
  read_->insert(name);
  return object_.value(name, json());
}

void HuggingFaceConfig::refuse(const std::string& key, const std::string& problem) const {
  throw ConfigError(file_.string(), name_in_file(key), shortened(problem, kMostOfMessage));
}

void HuggingFaceConfig::require(std::initializer_list<const char*> keys) const {
  for (const char* key : keys) {
    if (find(key).is_null()) refuse(key, "is missing");
  }
}

void HuggingFaceConfig::require_value(const char* key, const json& allowed) const {
  if (const json value = find(key); !value.is_null() && value != allowed) {
    refuse(key, value.dump() + " is not supported; allowed: " + allowed.dump());
  }
}

HuggingFaceConfig HuggingFaceConfig::with(const std::string& key, json value) const {
  HuggingFaceConfig same = *this;
  same.object_[name_in_file(key)] = std::move(value);
  return same;
}

HuggingFaceConfig HuggingFaceConfig::renamed(std::map<std::string, std::string> names) const {
  HuggingFaceConfig same = *this;
  same.names_ = std::move(names);
  return same;
}

std::string HuggingFaceConfig::name_in_file(const std::string& key) const {
  const auto found = names_.find(key);
  return found == names_.end() ? key : found->second;
}

template <typename T>
void HuggingFaceConfig::read_value(const std::string& key, const json& value, const Range& range,
                                   T& member) const {
  if constexpr (is_optional<T>) {
    read_value(key, value, range, member.emplace());
  } else if constexpr (NamedEnum<T>) {
    const auto known =
        value.is_string() ? enum_from_name<T>(value.get<std::string>()) : std::nullopt;
    if (!known) {
      refuse(key, value.dump() + " is not supported; allowed: " + json(enum_names(T{})).dump());
    }
    member = *known;
  } else {
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
}

void HuggingFaceConfig::read_keys(ModelConfig& config) const {
  const ModelFamily& family = family_of(config);
  ModelConfig::visit_fields(
      config, [&]<typename T>(const char* key, T& member, const char*, const auto&... about) {
        // The file has the architecture in a list, and read_rope() reads the rotary embedding.
        if constexpr (!std::same_as<T, std::string> && !Fields<T>) {
          if (!takes_key(family, key)) return;
          const Range range = part_of<Range>(about...).value_or(Range{});
          if (const json value = find(key); !value.is_null()) read_value(key, value, range, member);
        }
      });
}

json HuggingFaceConfig::original_positions(const json& rope) const {
  constexpr const char* kKey = "original_max_position_embeddings";
  if (const json beside = find(kKey); !beside.is_null()) return beside;
  const json within = rope.value(kKey, json());
  return within.is_null() ? find("max_position_embeddings") : within;
}

void HuggingFaceConfig::read_rope_scaling(const std::string& key, const json& rope,
                                          RopeScaling& scaling) const {
  const json type = rope.value("rope_type", rope.value("type", json("default")));
  read_value(key + ".rope_type", type, any_value(), scaling.type);
  RopeScaling::visit_fields(
      scaling, [&]<typename T>(const char* name, T& member, const char*, const auto&... range) {
        if constexpr (std::is_arithmetic_v<T>) {
          const bool is_used =
              scaling.type == RopeType::kLlama3 ||
              (scaling.type == RopeType::kLinear && name == std::string_view("factor"));
          if (!is_used) return;
          const json value =
              std::same_as<T, int64_t> ? original_positions(rope) : rope.value(name, json());
          if (value.is_null()) refuse(key + '.' + name, "is missing");
          read_value(key + '.' + name, value, Range{range...}, member);
        }
      });
}

void HuggingFaceConfig::read_rope(ModelConfig& config) const {
  // In transformers, rope_scaling replaces rope_parameters.
  const json scaling = find("rope_scaling");
  const json parameters = find("rope_parameters");
  const std::string key = scaling.empty() ? "rope_parameters" : "rope_scaling";
  const json& rope = scaling.empty() ? parameters : scaling;
  if (rope.is_null()) return;
  if (!rope.is_object()) refuse(key, rope.dump() + " is not an object");
  for (const auto& [name, value] : rope.items()) {
    if (value.is_object())
      refuse(key + '.' + name,
             "is an object for some of the layers; allowed: the same values for all layers");
  }
  read_rope_scaling(key, rope, config.rope_scaling);
  if (const json factor = rope.value("partial_rotary_factor", json(1.0)); factor != 1.0) {
    refuse(key + ".partial_rotary_factor", factor.dump() + " is not supported; allowed: 1.0");
  }
  if (const json theta = rope.value("rope_theta", json()); !theta.is_null()) {
    read_value(key + ".rope_theta", theta, greater_than(0), config.rope_theta);
  }
}

namespace {

// The keys of transformers that cannot change what training computes. They name the writer, set
// generation and classification, or choose outputs of a forward.
constexpr std::string_view kHarmless =
    " _attn_implementation _attn_implementation_autoset _commit_hash _name_or_path "
    "add_cross_attention architectures bad_words_ids begin_suppress_tokens bos_token_id "
    "chunk_size_feed_forward classifier_dropout cross_attention_hidden_size "
    "decoder_start_token_id diversity_penalty do_sample dtype early_stopping "
    "encoder_no_repeat_ngram_size eos_token_id exponential_decay_length_penalty "
    "finetuning_task forced_bos_token_id forced_eos_token_id id2label initializer_factor "
    "is_decoder is_encoder_decoder label2id length_penalty max_length max_new_tokens "
    "min_length model_type n_positions name_or_path no_repeat_ngram_size num_beam_groups "
    "num_beams num_labels num_return_sequences output_attentions output_hidden_states "
    "output_past output_scores prefix pretraining_tp problem_type remove_invalid_values "
    "repetition_penalty return_dict return_dict_in_generate sep_token_id suppress_tokens "
    "task_specific_params temperature tf_legacy_loss tokenizer_class top_k top_p torch_dtype "
    "torchscript transformers_version typical_p unsloth_fixed unsloth_version use_bfloat16 "
    "use_cache ";

constexpr std::string_view kRotary = " rope_parameters rope_scaling ";
constexpr std::string_view kKeysOfRotary =
    " factor high_freq_factor low_freq_factor original_max_position_embeddings "
    "partial_rotary_factor rope_theta rope_type type ";

}  // namespace

std::vector<std::string> HuggingFaceConfig::unread_keys() const {
  std::vector<std::string> keys;
  const auto is_one_of = [](std::string_view names, const std::string& key) {
    return names.find(' ' + key + ' ') != std::string_view::npos;
  };
  for (const auto& [key, value] : object_.items()) {
    const bool asks_for_nothing = value.empty() || value == false;
    if (asks_for_nothing || is_one_of(kHarmless, key)) continue;
    if (!read_->contains(key)) keys.push_back(key);
    if (!is_one_of(kRotary, key) || !value.is_object()) continue;
    for (const auto& [name, part] : value.items()) {
      if (!is_one_of(kKeysOfRotary, name)) keys.push_back(key + '.' + name);
    }
  }
  return keys;
}

}  // namespace fsdp
