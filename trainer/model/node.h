#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <algorithm>
#include <memory>
#include <vector>

// What the layers' autograd nodes share.
//
// A layer is a function that computes under ComputeGuard, then asks `node_for` for a node, fills in
// what backward needs, and connects its output to it with torch::autograd::set_history.
namespace fsdp {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

// Below it operations are not recorded, as inside PyTorch's own operators.
using ComputeGuard = at::AutoDispatchBelowADInplaceOrView;

// A node whose backward returns one gradient per input, or null when no gradient is wanted.
template <typename NodeType>
std::shared_ptr<NodeType> node_for(const std::vector<at::Tensor>& inputs) {
  if (!at::GradMode::is_enabled()) return nullptr;
  const bool wanted = std::any_of(inputs.begin(), inputs.end(),
                                  [](const at::Tensor& input) { return input.requires_grad(); });
  if (!wanted) return nullptr;
  std::shared_ptr<NodeType> node(new NodeType(), torch::autograd::deleteNode);
  for (const at::Tensor& input : inputs) {
    node->add_next_edge(torch::autograd::impl::gradient_edge(input));
  }
  return node;
}

}  // namespace fsdp
