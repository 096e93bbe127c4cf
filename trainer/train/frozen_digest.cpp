// Sums a digest of frozen weights that does not depend on how ranks divide them.
// A sum modulo the prime 2^61 - 1: each word of 8 bytes times a random number of its place. Because
// the sum is linear in the bytes, parts of a word may be added one by one.
#include "trainer/train/frozen_digest.h"

#include <algorithm>
#include <cstring>

#include "base/system/start_up.h"
#include "trainer/comm/verdict.h"
#include "trainer/model/splitmix64.h"
#include "trainer/step/stochastic_rounding.h"

namespace fsdp {
namespace {

constexpr int kBits = 61;
constexpr uint64_t kPrime = (uint64_t{1} << kBits) - 1;
constexpr uint64_t kWord = sizeof(uint64_t);

}  // namespace

void FrozenDigest::add(const Parameter& parameter, int64_t offset, const at::Tensor& values) {
  const uint64_t key = random_key(0, parameter.tensors().front().name);
  const auto* bytes = static_cast<const std::byte*>(values.const_data_ptr());
  const uint64_t begin = static_cast<uint64_t>(offset) * values.element_size();
  const uint64_t end = begin + values.nbytes();
  for (uint64_t place = begin; place < end;) {
    const uint64_t in_word = place % kWord;
    const uint64_t count = std::min(kWord - in_word, end - place);
    std::byte word_bytes[kWord] = {};
    std::memcpy(word_bytes + in_word, bytes + (place - begin), count);
    uint64_t word = 0;
    std::memcpy(&word, word_bytes, kWord);
    const Wide product = Wide(word) * (splitmix64(key, place / kWord) >> (64 - kBits));
    sum_ += (product & kPrime) + (product >> kBits);
    place += count;
  }
}

FillParameter with_digest(FillParameter fill, FrozenDigest& digest) {
  return [fill = std::move(fill), &digest](const Parameter& parameter, int64_t offset,
                                           const at::Tensor& out) {
    fill(parameter, offset, out);
    if (!parameter.is_trained()) digest.add(parameter, offset, out);
  };
}

std::string FrozenDigest::of_all(ProcessGroup& world, bool is_counted) const {
  pause_start_up();
  const auto own = static_cast<uint64_t>(is_counted ? sum_ % kPrime : 0);
  return verdict_on("frozen weights", std::to_string(own), world,
                    [](const std::vector<std::string>& said) {
                      Wide sum = 0;
                      for (const std::string& text : said) sum += std::stoull(text);
                      return std::to_string(static_cast<uint64_t>(sum % kPrime));
                    });
}

}  // namespace fsdp
