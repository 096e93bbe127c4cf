#include "trainer/calibrate/calibrate.h"

#include <catch2/catch.hpp>

#include "tests/trainer/small_decoder.h"
#include "trainer/comm/mirror_group.h"

namespace fsdp::calibrate_test {

// Counts the timings that ranks agree on. Its other ranks are so slow that nothing is repeated
// often.
class SlowGroup : public MirrorGroup {
 public:
  SlowGroup() : MirrorGroup(1) {}
  Pending all_reduce(at::Tensor tensor, int) override {
    ++timings;
    tensor.fill_(1e9);
    return {};
  }
  int timings = 0;
};

int timings_of(int rounds) {
  RunSpec spec;
  spec.data.sequence_length = 4;
  const ModelConfig config = tiny_decoder(1);
  SlowGroup world;
  calibrate(spec, config, *make_backend(at::kCPU), world, rounds);
  return world.timings;
}

TEST_CASE("a calibration times each piece once a round") {
  const int of_one_round = timings_of(1);
  CHECK(of_one_round > 0);
  CHECK(timings_of(2) == 2 * of_one_round);
}

}  // namespace fsdp::calibrate_test
