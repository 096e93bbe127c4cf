#pragma once

#include <functional>

#include "trainer/strategy/make_strategy.h"

namespace fsdp {

// Calls visit(layout, parameters [numel]) for each unit in turn, with the parameters that the
// optimizer works on. They are gathered over the shard group, if there is one. Every rank of the
// group calls it, between two steps.
void for_each_whole_unit(
    ShardStore& store, const Mesh& mesh,
    const std::function<void(const FlatLayout& layout, const at::Tensor& whole)>& visit);

}  // namespace fsdp
