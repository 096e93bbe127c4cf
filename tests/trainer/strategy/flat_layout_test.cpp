#include "trainer/strategy/flat_layout.h"

#include <catch2/catch.hpp>
#include <map>

namespace fsdp::flat_layout_test {

std::vector<ParameterPtr> parameters_of_sizes(const std::vector<std::vector<int64_t>>& shapes) {
  std::vector<ParameterPtr> parameters;
  for (const auto& shape : shapes) {
    parameters.push_back(c10::make_intrusive<Parameter>(ParameterSpec{
        .tensors = {{std::string(1, static_cast<char>('a' + parameters.size())), shape}}}));
  }
  return parameters;
}

TEST_CASE("a layout aligns parameters and divides evenly over the ranks") {
  const auto parameters = parameters_of_sizes({{3, 5}, {7}, {2, 2}});
  for (const int64_t ranks : {1, 2, 3, 4, 7}) {
    const FlatLayout layout(parameters, 4, ranks);
    CHECK(layout.numel() == layout.shard_numel() * ranks);
    CHECK(layout.numel() >= 15 + 7 + 4);
    const at::Tensor flat = at::arange(layout.numel(), at::kFloat);
    layout.bind_values(flat);
    for (const auto& parameter : parameters) {
      CHECK(parameter->value.sizes() == at::IntArrayRef(parameter->shape()));
      CHECK(parameter->value.storage_offset() * 4 % 64 == 0);
      CHECK(parameter->value.is_alias_of(flat));
    }
    layout.bind_values({});
    CHECK_FALSE(parameters[0]->value.defined());
  }
}

TEST_CASE("the shards' parts cover every element of every parameter once") {
  const auto parameters = parameters_of_sizes({{3, 5}, {40}, {2, 2}});
  for (const int64_t ranks : {1, 2, 3, 4, 7}) {
    const FlatLayout layout(parameters, 4, ranks);
    std::map<std::string, std::vector<int>> seen;
    for (const auto& parameter : parameters) {
      seen[parameter->tensors()[0].name].resize(parameter->numel());
    }
    std::vector<at::Tensor> shards;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const at::Tensor shard = at::zeros({layout.shard_numel()}, at::kFloat);
      layout.for_each_part(shard, rank,
                           [&](const Parameter& parameter, int64_t offset, const at::Tensor& part) {
                             for (int64_t i = 0; i < part.numel(); ++i) {
                               ++seen[parameter.tensors()[0].name][offset + i];
                               part[i] = static_cast<float>(offset + i + 1);
                             }
                           });
      shards.push_back(shard);
    }
    for (const auto& [name, counts] : seen) {
      CHECK(counts == std::vector<int>(counts.size(), 1));
    }
    layout.bind_values(at::cat(shards));
    for (const auto& parameter : parameters) {
      CHECK(at::equal(parameter->value.reshape({-1}),
                      at::arange(1, parameter->numel() + 1, at::kFloat)));
    }
  }
}

TEST_CASE("zero_gaps clears what no parameter covers and nothing else") {
  const auto parameters = parameters_of_sizes({{3, 5}, {7}});
  const FlatLayout layout(parameters, 4, 3);
  const at::Tensor flat = at::ones({layout.numel()});
  layout.zero_gaps(flat);
  CHECK(flat.sum().item<float>() == 15 + 7);
  layout.bind_gradients(flat);
  for (const auto& parameter : parameters)
    CHECK(at::all(parameter->gradient.tensor == 1).item<bool>());
  CHECK_FALSE(layout.is_gradient_complete());
  for (const auto& parameter : parameters) parameter->gradient.is_written = true;
  CHECK(layout.is_gradient_complete());
}

}  // namespace fsdp::flat_layout_test
