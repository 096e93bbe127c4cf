// Joins modules to units by the wrap policy, in the model's order.
#include "trainer/engine/units.h"

#include <algorithm>

namespace fsdp {
namespace {

std::vector<Unit> one_per_module(int modules) {
  std::vector<Unit> units;
  for (int i = 0; i < modules; ++i) units.push_back({i, i});
  return units;
}

// Joins up to `count` consecutive blocks into a unit. Every other module is its own unit.
std::vector<Unit> join_blocks(const Model& model, int64_t count) {
  std::vector<Unit> units;
  int64_t blocks = 0;  // in the last unit
  for (int i = 0; i < std::ssize(model.modules); ++i) {
    if (model.modules[i]->is_block() && blocks > 0 && blocks < count) {
      units.back().last = i;
      ++blocks;
    } else {
      units.push_back({i, i});
      blocks = model.modules[i]->is_block() ? 1 : 0;
    }
  }
  return units;
}

// Joins modules until a unit has enough parameters. The rest at the end joins the unit before it.
std::vector<Unit> join_until(const Model& model, int64_t min_parameters) {
  std::vector<Unit> units;
  int64_t parameters = min_parameters;  // in the last unit
  for (int i = 0; i < std::ssize(model.modules); ++i) {
    if (parameters >= min_parameters) {
      units.push_back({i, i});
      parameters = 0;
    }
    units.back().last = i;
    for (const ParameterPtr& parameter : model.modules[i]->parameters()) {
      parameters += parameter->numel();
    }
  }
  if (parameters < min_parameters && units.size() > 1) {
    const int last = units.back().last;
    units.pop_back();
    units.back().last = last;
  }
  return units;
}

}  // namespace

std::vector<Unit> wrap_modules(const Model& model, const WrapSpec& wrap) {
  if (wrap.blocks) return join_blocks(model, *wrap.blocks);
  if (wrap.min_parameters) return join_until(model, *wrap.min_parameters);
  const int modules = static_cast<int>(model.modules.size());
  switch (wrap.policy) {
    case WrapPolicy::kNone:
      return {{0, modules - 1}};
    case WrapPolicy::kTransformerBlock:
      return one_per_module(modules);
  }
  TORCH_CHECK(false, "strategy.wrap has no units");
}

bool is_shared(const Model& model, const Unit& unit) {
  return std::any_of(model.modules.begin() + unit.first, model.modules.begin() + unit.last + 1,
                     [](const auto& module) { return module->is_shared(); });
}

std::vector<ParameterPtr> parameters_of(const Model& model, const Unit& unit) {
  std::vector<ParameterPtr> parameters;
  for (int i = unit.first; i <= unit.last; ++i) {
    const auto& own = model.modules[i]->parameters();
    parameters.insert(parameters.end(), own.begin(), own.end());
  }
  return parameters;
}

bool is_trained(const Model& model, const Unit& unit) {
  return std::ranges::any_of(parameters_of(model, unit),
                             [](const ParameterPtr& parameter) { return parameter->is_trained(); });
}

}  // namespace fsdp
