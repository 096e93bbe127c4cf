#include "trainer/model/families.h"

#include <map>
#include <string>

#include "trainer/model/llama.h"

namespace fsdp {

Model make_model(const ModelConfig& config, at::ScalarType buffer_type) {
  using Make = Model (*)(const ModelConfig&, at::ScalarType);
  static const std::map<std::string, Make> kFamilies{
      {"LlamaForCausalLM", make_llama},
  };
  const auto family = kFamilies.find(config.architecture);
  TORCH_CHECK(family != kFamilies.end(), "no model is made of a ", config.architecture);
  return family->second(config, buffer_type);
}

}  // namespace fsdp
