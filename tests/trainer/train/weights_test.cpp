#include "trainer/train/weights.h"

#include <ATen/Parallel.h>

#include <cmath>

#include "tests/contract/input_fixtures.h"

namespace fsdp::weights_test {

using Catch::Contains;

Parameter stacked(const std::string& prefix, std::vector<int64_t> first,
                  std::vector<int64_t> second) {
  return Parameter({.tensors = {{prefix + "first", first}, {prefix + "second", second}}});
}

at::Tensor slice(const FillParameter& fill, const Parameter& parameter, int64_t offset,
                 int64_t numel, at::ScalarType dtype = at::kFloat) {
  const at::Tensor out = at::empty({numel}, dtype);
  fill(parameter, offset, out);
  return out;
}

// Checks that every way to cut `parameter` gives the same values.
void check_slices(const FillParameter& fill, const Parameter& parameter, at::ScalarType dtype) {
  const int64_t numel = parameter.numel();
  const at::Tensor whole = slice(fill, parameter, 0, numel, dtype);
  for (const int64_t parts : {2, 3, 7}) {
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t begin = numel * part / parts;
      const int64_t end = numel * (part + 1) / parts;
      CHECK(slice(fill, parameter, begin, end - begin, dtype).equal(whole.slice(0, begin, end)));
    }
  }
}

RunSpec checkpoint(const TemporaryFolder& folder, const std::string& bytes) {
  folder.write("model.safetensors", bytes);
  RunSpec spec;
  spec.model.source = folder.path();
  return spec;
}

// Returns a safetensors file with one tensor `w` of two items. `pad` bytes shift the data.
std::string two_items(const std::string& dtype, const std::string& data, size_t pad) {
  const std::string end = std::to_string(data.size());
  return safetensors_bytes(R"({"w":{"dtype":")" + dtype + R"(","shape":[2],"data_offsets":[0,)" +
                               end + "]}}" + std::string(pad, ' '),
                           data);
}

TEST_CASE("slices of checkpoint weights equal the whole, across stacked tensors") {
  const TemporaryFolder folder;
  const FillParameter fill = make_weight_source(
      checkpoint(folder, counting_safetensors({{"a.first", {3, 5}}, {"a.second", {2, 5}}})));
  const Parameter parameter = stacked("a.", {3, 5}, {2, 5});
  CHECK(slice(fill, parameter, 0, 25).equal(at::arange(25, at::kFloat)));
  check_slices(fill, parameter, at::kFloat);
  check_slices(fill, parameter, at::kBFloat16);
}

TEST_CASE("checkpoint weights of every dtype are converted, aligned or not") {
  const std::string f32 = bytes_of<float>({1.5f, -2.25f});
  const std::string bf16 = bytes_of<uint16_t>({0x3FC0, 0xC010});
  const std::string f16 = bytes_of<uint16_t>({0x3E00, 0xC080});
  const Parameter parameter({.tensors = {{"w", {2}}}, .initialization = Initialization::kOnes});
  for (size_t pad = 0; pad < 4; ++pad) {
    for (const auto& [dtype, data] :
         std::map<std::string, std::string>{{"F32", f32}, {"BF16", bf16}, {"F16", f16}}) {
      const TemporaryFolder folder;
      const FillParameter fill =
          make_weight_source(checkpoint(folder, two_items(dtype, data, pad)));
      CHECK(slice(fill, parameter, 0, 2).equal(at::tensor({1.5f, -2.25f})));
      CHECK(slice(fill, parameter, 1, 1, at::kBFloat16).item<float>() == -2.25f);
    }
  }
}

TEST_CASE("a checkpoint that does not hold the model's tensors is refused") {
  const TemporaryFolder folder;
  const FillParameter fill =
      make_weight_source(checkpoint(folder, counting_safetensors({{"a.first", {3, 5}}})));
  const auto message = [&](const Parameter& parameter) {
    return refusal([&] { slice(fill, parameter, 0, parameter.numel()); });
  };
  CHECK_THAT(message(stacked("a.", {3, 5}, {1, 5})), Contains("'a.second' is missing"));
  CHECK_THAT(message(stacked("a.", {5, 3}, {1, 3})),
             Contains("has shape [3, 5]; the model's is [5, 3]"));
}

TEST_CASE("a weight that is not finite is refused with its tensor and place, by who reads it") {
  constexpr size_t kRows = 1000;
  constexpr size_t kColumns = 400;  // more than is copied at a time
  std::vector<float> values(kRows * kColumns, 3e38f);
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    const size_t place = 900 * kColumns + 7;
    values[place] = bad;
    const TemporaryFolder folder;
    const FillParameter fill = make_weight_source(
        checkpoint(folder, safetensors_bytes(R"({"w":{"dtype":"F32","shape":[1000,400],)"
                                             R"("data_offsets":[0,1600000]}})",
                                             bytes_of(values))));
    const Parameter parameter({.tensors = {{"w", {kRows, kColumns}}}});
    CHECK_NOTHROW(slice(fill, parameter, 0, place));
    CHECK_NOTHROW(slice(fill, parameter, place + 1, values.size() - place - 1));
    const std::string message = refusal([&] { slice(fill, parameter, 5, values.size() - 5); });
    CHECK_THAT(message, Contains("tensor 'w' is " + std::string(std::isnan(bad) ? "nan"
                                                                : bad < 0       ? "-inf"
                                                                                : "inf")));
    CHECK_THAT(message, Contains(" at [900, 7]; the file is damaged"));
  }
}

TEST_CASE("slices of random weights equal the whole, across blocks and stacked tensors") {
  const FillParameter fill = make_weight_source({});
  const Parameter parameter = stacked("b.", {400, 300}, {250, 300});
  check_slices(fill, parameter, at::kFloat);
  check_slices(fill, parameter, at::kBFloat16);
  const Parameter second({.tensors = {{"b.second", {250, 300}}}});
  CHECK(slice(fill, second, 0, 75'000).equal(slice(fill, parameter, 120'000, 75'000)));
}

TEST_CASE("random weights do not depend on the number of threads") {
  const FillParameter fill = make_weight_source({});
  const Parameter parameter({.tensors = {{"w", {300'000}}}});
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor alone = slice(fill, parameter, 0, 300'000);
  at::set_num_threads(3);
  CHECK(slice(fill, parameter, 0, 300'000).equal(alone));
  at::set_num_threads(threads);
}

TEST_CASE("random weights are normal, and differ by tensor, block and seed") {
  const FillParameter fill = make_weight_source({});
  const Parameter parameter({.tensors = {{"w", {262'144}}}});
  const at::Tensor values = slice(fill, parameter, 0, 262'144).to(at::kDouble);
  const double count = 262'144;
  CHECK(std::abs(values.mean().item<double>()) < 5 * 0.02 / std::sqrt(count));
  CHECK(values.std().item<double>() == Approx(0.02).epsilon(5 / std::sqrt(2 * count)));
  // A normal variable is beyond 2 standard deviations with probability 0.0455.
  const double beyond = values.abs().gt(0.04).to(at::kDouble).mean().item<double>();
  CHECK(beyond == Approx(0.0455).epsilon(0.05));

  const at::Tensor block = values.narrow(0, 0, 65'536);
  CHECK(!block.equal(values.narrow(0, 65'536, 65'536)));
  const Parameter other({.tensors = {{"v", {65'536}}}});
  CHECK(!slice(fill, other, 0, 65'536).to(at::kDouble).equal(block));
  RunSpec reseeded;
  reseeded.train.seed = 2;
  CHECK(!slice(make_weight_source(reseeded), parameter, 0, 65'536).to(at::kDouble).equal(block));
}

TEST_CASE("random weights have the standard deviation of their parameter") {
  const FillParameter fill = make_weight_source({});
  const Parameter narrow({.tensors = {{"w", {1000}}}});
  const Parameter wide({.tensors = {{"w", {1000}}}, .standard_deviation = 0.08});
  CHECK(slice(fill, wide, 0, 1000).equal(slice(fill, narrow, 0, 1000) * 4));
}

// This makes runs of two versions comparable.
TEST_CASE("random weights are the same in every version") {
  const at::Tensor values =
      slice(make_weight_source({}), Parameter({.tensors = {{"w", {4}}}}), 0, 4);
  CHECK(values.allclose(
      at::tensor({-0.0341780111f, 0.0307357535f, -0.000437026756f, -0.0386078581f}), 1e-6, 0));
}

TEST_CASE("weights that start at zero or one do") {
  for (const bool is_one : {false, true}) {
    const Parameter parameter(
        {.tensors = {{"norm", {5}}},
         .initialization = is_one ? Initialization::kOnes : Initialization::kZeros});
    CHECK(slice(make_weight_source({}), parameter, 2, 3, at::kBFloat16)
              .equal(at::full({3}, is_one ? 1 : 0, at::kBFloat16)));
  }
}

}  // namespace fsdp::weights_test
