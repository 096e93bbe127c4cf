#include "runner/experiment/doubling_series.h"

#include <algorithm>
#include <utility>

#include "contract/record/digest.h"
#include "contract/spec/run_spec_keys.h"
#include "contract/text/config_error.h"

namespace fsdp {
namespace {

// How far the next valid value is looked for where nothing says where they end.
constexpr int64_t kWidestGap = 4096;

constexpr size_t kValuesInOutlook = 10;

}  // namespace

DoublingSeries::DoublingSeries(DoubledKey key, std::optional<int64_t> last,
                               std::function<Run(int64_t value)> run_of)
    : key_(std::move(key)),
      last_(last),
      run_of_(std::move(run_of)),
      family_(run_of_(key_.range.from).spec) {
  // What is derived from the key differs, too.
  if (const auto other = next_valid(2 * key_.range.from)) {
    reset_differences(family_, run_of_(*other).spec);
  }
}

Doubling DoublingSeries::search() const {
  return Doubling(key_.range, [this](int64_t value) { return next_valid(value); });
}

std::string DoublingSeries::family(const FileDigest& digest) const {
  return text_digest(run_hash(family_, digest) + ' ' + key_.key);
}

std::optional<int64_t> DoublingSeries::next_valid(int64_t value) const {
  const auto maximum = static_cast<int64_t>(range_of_key(key_.key).maximum);
  const int64_t last = std::min(last_.value_or(value + kWidestGap), maximum);
  for (; value <= last; ++value) {
    try {
      run_of_(value);
      return value;
    } catch (const ConfigError&) {  // not this one
    }
  }
  return std::nullopt;
}

std::string DoublingSeries::outlook() const {
  Doubling search = this->search();
  search.fits(key_.range.from);
  const std::vector<int64_t> values = search.while_all_fit(kValuesInOutlook + 1);
  if (values.empty()) return "no other value of " + key_.key + " follows";
  std::string text = "then " + key_.key + " ";
  for (size_t i = 0; i < std::min(values.size(), kValuesInOutlook); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(values[i]);
  }
  if (values.size() > kValuesInOutlook) text += ", ...";
  text += ", until one does not fit";
  if (key_.range.refine) text += "; then values between the last two";
  return text;
}

Run doubled_run(std::shared_ptr<const DoublingSeries> series, int64_t value) {
  Run run = series->run_of_(value);
  run.doubled_value = value;
  run.doubling = std::move(series);
  return run;
}

}  // namespace fsdp
