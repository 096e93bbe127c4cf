#include "trainer/engine/units.h"

#include <catch2/catch.hpp>

#include "trainer/model/families.h"

namespace fsdp::units_test {

// Embedding and head have 80 + 8 parameters. A block has 8 + 192 + 64 + 8 + 256 + 128 = 656.
Model six_blocks(bool is_tied = false) {
  return make_model({.num_hidden_layers = 6,
                     .hidden_size = 8,
                     .intermediate_size = 16,
                     .num_attention_heads = 2,
                     .num_key_value_heads = 2,
                     .vocab_size = 10,
                     .tie_word_embeddings = is_tied,
                     .max_position_embeddings = 16});
}

using Units = std::vector<std::pair<int, int>>;

Units wrapped(const Model& model, const WrapSpec& wrap) {
  Units units;
  for (const Unit& unit : wrap_modules(model, wrap)) units.emplace_back(unit.first, unit.last);
  return units;
}

WrapSpec wrap_of(std::optional<int64_t> blocks, std::optional<int64_t> min_parameters = {}) {
  return {WrapPolicy::kTransformerBlock, blocks, min_parameters};
}

TEST_CASE("wrap policies join modules to units") {
  const Model model = six_blocks();
  WrapSpec wrap;
  CHECK(wrapped(model, wrap) ==
        Units{{0, 0}, {1, 1}, {2, 2}, {3, 3}, {4, 4}, {5, 5}, {6, 6}, {7, 7}});
  wrap.policy = WrapPolicy::kNone;
  CHECK(wrapped(model, wrap) == Units{{0, 7}});
  CHECK(wrapped(model, wrap_of(2)) == Units{{0, 0}, {1, 2}, {3, 4}, {5, 6}, {7, 7}});
  CHECK(wrapped(model, wrap_of(4)) == Units{{0, 0}, {1, 4}, {5, 6}, {7, 7}});
}

TEST_CASE("units by size have as many parameters at least, the rest joins the last") {
  const Model model = six_blocks();
  CHECK(wrapped(model, wrap_of({}, 1)).size() == 8);
  CHECK(wrapped(model, wrap_of({}, 81)) ==
        Units{{0, 1}, {2, 2}, {3, 3}, {4, 4}, {5, 5}, {6, 6}, {7, 7}});
  CHECK(wrapped(model, wrap_of({}, 700)) == Units{{0, 1}, {2, 3}, {4, 5}, {6, 7}});
  CHECK(wrapped(model, wrap_of({}, 1400)) == Units{{0, 3}, {4, 7}});
  CHECK(wrapped(model, wrap_of({}, 1'000'000)) == Units{{0, 7}});
}

TEST_CASE("a unit is shared when one of its modules is") {
  const Model model = six_blocks(true);
  CHECK(is_shared(model, {0, 3}));
  CHECK_FALSE(is_shared(model, {1, 7}));
  CHECK(parameters_of(model, {0, 1}).size() == 7);
}

}  // namespace fsdp::units_test
