#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "runner/experiment/doubled_key.h"
#include "runner/experiment/doubling.h"
#include "runner/experiment/experiment.h"

namespace fsdp {

// The runs of one point and combination whose sweep doubles a key: one for each value, made when it
// is known that it is wanted. All have the same position.
class DoublingSeries {
 public:
  // `run_of` makes the run of a value, and throws ConfigError when there is none; no value above
  // `last` has one.
  DoublingSeries(DoubledKey key, std::optional<int64_t> last,
                 std::function<Run(int64_t value)> run_of);

  const std::string& key() const { return key_.key; }
  // A search that knows nothing yet.
  Doubling search() const;
  // What the runs have in common, 32 hex digits: all but the key and what is derived from it.
  std::string family(const FileDigest& digest) const;
  // "then batch.size_per_rank 2, 4, 8, until one does not fit; then values between the last two"
  std::string outlook() const;

 private:
  friend Run doubled_run(std::shared_ptr<const DoublingSeries> series, int64_t value);

  std::optional<int64_t> next_valid(int64_t value) const;

  DoubledKey key_;
  std::optional<int64_t> last_;
  std::function<Run(int64_t)> run_of_;
  RunSpec family_;
};

// Throws ConfigError when the key cannot have this value.
Run doubled_run(std::shared_ptr<const DoublingSeries> series, int64_t value);

}  // namespace fsdp
