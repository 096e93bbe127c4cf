#include <algorithm>
#include <map>

#include "tests/trainer/step/stepped_optimizer.h"

namespace fsdp::optimizer_rounding_test {

struct ParameterSize {
  std::string name;
  int64_t size;
  ParameterRole role;
};

class FlatModule : public Module {
 public:
  explicit FlatModule(const std::vector<ParameterSize>& sizes) : Module({.name = "flat"}) {
    for (const auto& [name, size, role] : sizes) {
      parameters_.push_back(
          c10::make_intrusive<Parameter>(ParameterSpec{.tensors = {{name, {size}}}, .role = role}));
    }
  }
  void forward(Pass&) override {}
};

// Returns a model of one module.
Model model_of(const std::vector<ParameterSize>& sizes) {
  Model model;
  model.modules.push_back(std::make_unique<FlatModule>(sizes));
  return model;
}

std::vector<ParameterSize> model_sizes(const Model& model) {
  std::vector<ParameterSize> sizes;
  for (const ParameterPtr& parameter : model.modules.front()->parameters()) {
    sizes.push_back({parameter->tensors().front().name, parameter->numel(), parameter->role()});
  }
  return sizes;
}

// Elements [offset, offset + size) of a parameter's values, or of gradient `number`.
at::Tensor values_of(const Parameter& parameter, int64_t offset, int64_t size, int number) {
  const auto name_length = static_cast<double>(parameter.tensors().front().name.size());
  return (at::arange(offset, offset + size, at::kDouble) * 0.37 + name_length + number).sin();
}

// The shard of one of several ranks. The model is one unit.
struct Shard {
  Shard(const Model& model, at::ScalarType dtype, int64_t shard_count, int64_t shard_index)
      : backend(make_backend(at::kCPU)),
        store(model, wrap_modules(model, WrapSpec{}),
              {.dtype = dtype,
               .item_bytes = static_cast<int64_t>(c10::elementSize(dtype)),
               .shard_count = shard_count,
               .shard_index = shard_index},
              *backend,
              [](const Parameter& parameter, int64_t offset, const at::Tensor& out) {
                out.copy_(values_of(parameter, offset, out.numel(), 0));
              }),
        units(flat_units(store)) {}

  std::unique_ptr<Backend> backend;
  ShardStore store;
  std::vector<FlatUnit> units;
};

// By "<parameter>/<state>".
struct Elements : std::map<std::string, at::Tensor> {
  bool operator==(const Elements& other) const {
    return std::ranges::equal(*this, other, [](const auto& one, const auto& another) {
      return one.first == another.first && one.second.equal(another.second);
    });
  }
};

// Trains a shard for three steps. Appends its elements to the elements of earlier ranks.
void train(const Shard& shard, const OptimizerSpec& spec, Elements& elements) {
  Optimizer optimizer(spec, shard.units, kSeed, at::kCPU);
  const at::Tensor& parameters = shard.units[0].parameters;
  const int64_t index = shard.store.options().shard_index;
  const FlatLayout& layout = shard.store.layout(0);
  for (int number = 1; number <= 3; ++number) {
    const at::Tensor gradient = at::zeros_like(parameters);
    layout.for_each_part(gradient, index,
                         [&](const Parameter& parameter, int64_t offset, const at::Tensor& part) {
                           part.copy_(values_of(parameter, offset, part.numel(), number));
                         });
    optimizer.step(0, number, parameters, gradient, rate_of_step(number));
  }
  const auto keep = [&](const std::string& state, const at::Tensor& flat) {
    layout.for_each_part(
        flat, index, [&](const Parameter& parameter, int64_t, const at::Tensor& part) {
          at::Tensor& found = elements[parameter.tensors().front().name + '/' + state];
          found = found.defined() ? at::cat({found, part}) : part.clone();
        });
  };
  keep("parameters", parameters);
  for (const auto& [name, tensor] : optimizer.state(0)) keep(name, tensor);
}

// Checks that each of `rounded` is the bfloat16 number next below or above its value, and that both
// kinds occur.
void check_neighbours(const at::Tensor& value, const at::Tensor& rounded) {
  REQUIRE(rounded.scalar_type() == at::kBFloat16);
  const at::Tensor below = value.view(at::kInt).bitwise_and(~0xffff);  // in magnitude
  const at::Tensor above = below + 0x10000;
  const at::Tensor is_below = rounded.to(at::kFloat).eq(below.view(at::kFloat));
  const at::Tensor is_above = rounded.to(at::kFloat).eq(above.view(at::kFloat));
  CHECK(is_below.logical_or(is_above).all().item<bool>());
  const at::Tensor is_rounded = value.ne(below.view(at::kFloat));
  CHECK(is_below.logical_and(is_rounded).any().item<bool>());
  CHECK(is_above.any().item<bool>());
}

TEST_CASE("a shard's parts are those of its layout, wherever it is cut") {
  const Model model = model_of({{"norm", 10, ParameterRole::kNorm},
                                {"weight", 100, ParameterRole::kWeight},
                                {"bias", 20, ParameterRole::kBias}});
  const auto parts = [&](int64_t shard_count, int64_t shard_index) {
    return Shard(model, at::kFloat, shard_count, shard_index).units.at(0).parts;
  };
  using Parts = std::vector<FlatPart>;
  // 16, 112 and 32 elements with their gaps.
  CHECK((parts(1, 0) == Parts{{"norm", ParameterRole::kNorm, 0, 0, 10},
                              {"weight", ParameterRole::kWeight, 16, 0, 100},
                              {"bias", ParameterRole::kBias, 128, 0, 20}}));
  CHECK((parts(2, 0) == Parts{{"norm", ParameterRole::kNorm, 0, 0, 10},
                              {"weight", ParameterRole::kWeight, 16, 0, 100}}));
  CHECK((parts(2, 1) == Parts{{"weight", ParameterRole::kWeight, 0, 64, 100},
                              {"bias", ParameterRole::kBias, 48, 0, 20}}));
}

TEST_CASE("rounding at random gives the neighbours of what fp32 steps to") {
  OptimizerSpec spec = any_spec();
  CAPTURE(name_of(spec.kind));
  Stepped in_fp32(spec, at::kFloat);
  round_to(in_fp32.parameters, at::kBFloat16);
  spec.rounding = Rounding::kStochastic;
  Stepped rounded(spec, at::kBFloat16);
  const at::Tensor gradient = values(kSize, 1, at::kBFloat16);
  in_fp32.optimizer.step(0, 1, in_fp32.parameters, gradient.to(at::kFloat), 0.02);
  rounded.optimizer.step(0, 1, rounded.parameters, gradient, 0.02);
  check_neighbours(in_fp32.parameters, rounded.parameters);
  for (size_t i = 0; i < rounded.optimizer.state(0).size(); ++i) {
    check_neighbours(in_fp32.state(i), rounded.state(i));
  }
}

TEST_CASE("rounding at random depends on the seed, the step and the parameter's name") {
  OptimizerSpec spec = any_spec();
  spec.rounding = Rounding::kStochastic;
  CAPTURE(name_of(spec.kind));
  const auto stepped = [&](int64_t seed, int64_t number, const std::string& name) {
    const at::Tensor parameters = values(1000, 0.5, at::kBFloat16);
    FlatUnit unit{parameters, {FlatPart{.parameter = name}}};
    Optimizer optimizer(spec, {unit}, seed, at::kCPU);
    optimizer.step(0, number, parameters, values(1000, 1, at::kBFloat16), 0.02);
    return parameters;
  };
  const at::Tensor one = stepped(1, 1, "a");
  CHECK(one.equal(stepped(1, 1, "a")));
  CHECK_FALSE(one.equal(stepped(2, 1, "a")));
  CHECK_FALSE(one.equal(stepped(1, 2, "a")));
  CHECK_FALSE(one.equal(stepped(1, 1, "b")));
}

TEST_CASE("rounding at random is the same however the parameters are sharded and wrapped") {
  OptimizerSpec spec = any_spec();
  spec.rounding = Rounding::kStochastic;
  const auto dtype = GENERATE(at::kBFloat16, at::kFloat);
  if (dtype == at::kFloat) spec.state_dtype = StateDtype::kBf16;
  spec.no_decay = GENERATE(TextList{}, TextList{"norm"});
  CAPTURE(name_of(spec.kind), dtype, spec.no_decay);
  const Model model = model_of({{"norm", 50, ParameterRole::kNorm},
                                {"weight", 300'007, ParameterRole::kWeight},
                                {"bias", 33, ParameterRole::kBias}});
  const auto trained = [&](int64_t shard_count) {
    Elements elements;
    for (int64_t rank = 0; rank < shard_count; ++rank) {
      train(Shard(model, dtype, shard_count, rank), spec, elements);
    }
    return elements;
  };
  const Elements whole = trained(1);
  CHECK(whole.at("weight/parameters").numel() == 300'007);
  CHECK(trained(2) == whole);
  CHECK(trained(4) == whole);

  Elements alone;
  for (const auto& [name, size, role] : model_sizes(model)) {
    train(Shard(model_of({{name, size, role}}), dtype, 1, 0), spec, alone);
  }
  CHECK(alone == whole);
}

}  // namespace fsdp::optimizer_rounding_test
