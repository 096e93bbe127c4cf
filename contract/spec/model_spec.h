#pragma once

#include <filesystem>

#include "base/text/fields.h"
#include "contract/families/model_config.h"

// The section `model` of a run.
namespace fsdp {

struct ModelSpec {
  std::filesystem::path source;
  ModelConfig config;

  bool operator==(const ModelSpec&) const = default;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("source", self.source,
          "Hugging Face folder (config.json and weights), or a model's name on a hub, "
          "organization/name; excludes config.",
          path_or(HubNames::kModel));
    visit("config", self.config, model_config_documentation(), any_value());
  }
};

}  // namespace fsdp
