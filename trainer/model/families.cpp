// Makes the model of a family, with adapters where the method has them.
#include "trainer/model/families.h"

#include <stdexcept>

#include "contract/families/adapters.h"
#include "contract/families/family.h"
#include "trainer/model/decoder.h"
#include "trainer/model/t5.h"

namespace fsdp {

Model make_model(const ModelConfig& config, at::ScalarType buffer_type, Method method,
                 const LoraSpec& lora) {
  std::vector<ModuleSpec> modules;
  for_each_module(config, method, lora,
                  [&](const ModuleSpec& module) { modules.push_back(module); });
  switch (family_of(config).structure) {
    case ModelStructure::kDecoder:
      return make_decoder(config, modules, buffer_type);
    case ModelStructure::kEncoderDecoder:
      return make_t5(config, modules);
  }
  throw std::logic_error("a family's structure");
}

}  // namespace fsdp
