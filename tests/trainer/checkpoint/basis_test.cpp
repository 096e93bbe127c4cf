#include "trainer/checkpoint/basis.h"

#include <algorithm>
#include <catch2/catch.hpp>

namespace fsdp::basis_test {

RunSpec small_spec() {
  RunSpec spec;
  spec.batch.total = 8;
  return spec;
}

TEST_CASE("a base saved again, or a value spelled out, is no other basis") {
  const RunSpec spec = small_spec();
  const Basis was = basis_of(spec, spec.model.config, 10);
  RunSpec now = spec;
  now.model.config.head_dim = now.model.config.head_width();
  now.model.config.num_decoder_layers = now.model.config.num_hidden_layers;
  now.model.config.initializer_range = 0.5;
  now.kernels = KernelSet::kAten;
  now.batch.size_per_rank = 3;
  CHECK(difference(was, basis_of(now, now.model.config, 10)).empty());
  now.model.config.head_dim = 7;
  CHECK(difference(was, basis_of(now, now.model.config, 10)) ==
        "model.config.head_dim 48; the run's is 7");
}

TEST_CASE("a key whose default changes is compared, because a basis has all keys that decide") {
  const RunSpec spec = small_spec();
  Basis was = basis_of(spec, spec.model.config, 10);
  const auto named = [&](const std::string& key) {
    return std::ranges::find_if(was.keys, [&](auto& line) { return line.starts_with(key + '='); });
  };
  CHECK(named("batch.size_per_rank") == was.keys.end());
  REQUIRE(named("optimizer.beta2") != was.keys.end());
  *named("optimizer.beta2") = "optimizer.beta2=0.5";
  CHECK(difference(was, basis_of(spec, spec.model.config, 10)) ==
        "optimizer.beta2 0.5; the run's is 0.95");
}

}  // namespace fsdp::basis_test
