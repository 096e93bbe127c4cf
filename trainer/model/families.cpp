#include "trainer/model/families.h"

#include <stdexcept>

#include "contract/families/family.h"
#include "trainer/model/decoder.h"
#include "trainer/model/t5.h"

namespace fsdp {

Model make_model(const ModelConfig& config, at::ScalarType buffer_type) {
  switch (family_of(config).structure) {
    case ModelStructure::kDecoder:
      return make_decoder(config, buffer_type);
    case ModelStructure::kEncoderDecoder:
      return make_t5(config);
  }
  throw std::logic_error("a family's structure");
}

}  // namespace fsdp
