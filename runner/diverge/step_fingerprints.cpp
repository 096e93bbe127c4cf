// Joins the ranks' files of a step. A part that several ranks have counts once.
#include "runner/diverge/step_fingerprints.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <system_error>
#include <tuple>

#include "base/files/input_file.h"
#include "base/text/foreign_json.h"
#include "base/text/json.h"
#include "base/text/json_fields.h"
#include "base/text/utf8.h"
#include "contract/record/run_paths.h"

namespace fsdp {
namespace {

constexpr size_t kLargestFileBytes = 256 << 20;
constexpr int64_t kMostRanks = 100'000;
constexpr size_t kLongestLineBytes = 1 << 20;

// A file's lines, read in order.
class Lines {
 public:
  explicit Lines(std::filesystem::path file)
      : file_(std::move(file)), text_(read_input_file(file_, kLargestFileBytes)) {}

  bool is_at_last() const { return text_.find('\n', at_) == text_.size() - 1; }

  // Throws std::runtime_error if no line is left, or if it is no Record.
  template <typename Record>
  Record next() {
    const size_t end = text_.find('\n', at_);
    ++line_;
    if (end == text_.npos) refuse("the file is cut short; record the step again");
    const std::string_view line = std::string_view(text_).substr(at_, end - at_);
    at_ = end + 1;
    try {
      Record record;
      // The vector of a Fingerprint has a size already.
      if constexpr (std::same_as<Record, Fingerprint>) record.projections.clear();
      JsonFields("").read("", parse_foreign_json(line, kLongestLineBytes), record);
      return record;
    } catch (const std::exception& error) {
      refuse(std::string("not what fsdp-train writes there: ") + error.what());
    }
  }

  [[noreturn]] void refuse(const std::string& problem) const {
    throw std::runtime_error(
        fmt::format("{}:{}: {}", file_.string(), line_, shortened(problem, kMostOfMessage)));
  }

 private:
  std::filesystem::path file_;
  std::string text_;
  size_t at_ = 0;
  int64_t line_ = 0;
};

struct RankFile {
  FingerprintsBegin begin;
  std::vector<Fingerprint> fingerprints;
};

RankFile read_rank(const std::filesystem::path& file, int64_t step, int64_t rank) {
  Lines lines(file);
  RankFile read{.begin = lines.next<FingerprintsBegin>(), .fingerprints = {}};
  const FingerprintsBegin& begin = read.begin;
  if (begin.format != FingerprintsBegin::kFormat) lines.refuse("it has no fingerprints");
  if (begin.version != FingerprintsBegin::kVersion) {
    lines.refuse(fmt::format("version {} of fingerprints; this fsdp-run reads version {}",
                             begin.version, FingerprintsBegin::kVersion));
  }
  if (begin.step != step || begin.rank != rank || begin.ranks <= rank || begin.ranks > kMostRanks) {
    lines.refuse(
        fmt::format("it says step {}, rank {} of {}", begin.step, begin.rank, begin.ranks));
  }
  while (!lines.is_at_last()) {
    read.fingerprints.push_back(lines.next<Fingerprint>());
    if (read.fingerprints.back().projections.size() != kProjections) {
      lines.refuse("not 8 projections");
    }
  }
  const int64_t written = lines.next<FingerprintsEnd>().fingerprints;
  if (written != std::ssize(read.fingerprints)) {
    lines.refuse(
        fmt::format("it ends after {} of {} fingerprints", read.fingerprints.size(), written));
  }
  return read;
}

std::vector<RankFile> read_ranks(const std::filesystem::path& folder, int64_t step) {
  std::vector<RankFile> files;
  int64_t ranks = 1;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const std::filesystem::path file = folder / fingerprint_file_name(step, rank);
    std::error_code not_there;
    if (!std::filesystem::exists(file, not_there)) {
      throw std::runtime_error(file.string() + " is missing; record step " + std::to_string(step) +
                               " again, on every rank");
    }
    files.push_back(read_rank(file, step, rank));
    if (rank == 0) ranks = files.front().begin.ranks;
    FingerprintsBegin begin = files.back().begin;
    begin.rank = 0;
    if (json_text(begin) != json_text(files.front().begin)) {
      throw std::runtime_error(file.string() + ": its first line differs from that of rank 0");
    }
  }
  return files;
}

Sums sums_of(const Fingerprint& fingerprint) {
  Sums sums{.numel = fingerprint.numel,
            .is_finite = fingerprint.is_finite,
            .square_sum = fingerprint.square_sum};
  std::ranges::copy(fingerprint.projections, sums.projections.begin());
  return sums;
}

// Ranks' own gradients and losses add up to the step's. Other quantities are the same on all ranks
// that have them.
bool adds_up(Quantity of) { return of == Quantity::kLocalGradient || of == Quantity::kLoss; }

bool is_row(Quantity of) {
  return of == Quantity::kInputIds || of == Quantity::kLabels || of == Quantity::kActivation ||
         of == Quantity::kRepeatedInput || of == Quantity::kActivationGradient;
}

struct Part {
  int64_t rank;
  Sums sums;
};

// Adds what a rank has of a tensor, row or number to it. `parts` has what was added, by its begin.
void add(const Fingerprint& fingerprint, int64_t rank, std::map<int64_t, Part>& parts,
         Computed& whole) {
  const Sums sums = sums_of(fingerprint);
  if (adds_up(fingerprint.of)) {
    const int64_t numel = std::max(whole.sums.numel, sums.numel);
    whole.sums += sums;
    whole.sums.numel = numel;
    return;
  }
  const auto [part, is_new] = parts.try_emplace(fingerprint.begin, Part{rank, sums});
  const Sums& known = part->second.sums;
  if (is_new) {
    whole.sums += sums;
  } else if (!whole.disagreement &&
             (known.numel != sums.numel || distance(known, sums) > kSameSums * known.norm())) {
    whole.disagreement = {part->second.rank, rank, known, sums};
  }
}

// Throws std::runtime_error if parts of a tensor are missing, or overlap. `parts` has its parts by
// their begin.
void require_whole(const Computed& whole, const std::map<int64_t, Part>& parts,
                   const std::filesystem::path& folder) {
  int64_t end = 0;
  for (const auto& [begin, part] : parts) {
    if (begin != end) {
      throw std::runtime_error(
          fmt::format("{}: the {} of '{}' has elements up to {}, and then from {} on; record the "
                      "step again, on every rank",
                      folder.string(), name_of(whole.of), whole.name, end, begin));
    }
    end += part.sums.numel;
  }
}

// Returns the keys of a rank's rows, from their tokens. `seen` counts equal rows of earlier ranks.
std::map<int64_t, std::string> row_keys(const RankFile& file, std::map<std::string, int>& seen) {
  std::map<int64_t, std::string> keys;
  for (const Fingerprint& fingerprint : file.fingerprints) {
    if (fingerprint.of != Quantity::kInputIds || !fingerprint.row) continue;
    const std::string tokens = fmt::format("{}:{}:{}", fingerprint.numel, fingerprint.sum,
                                           fmt::join(fingerprint.projections, ","));
    keys[*fingerprint.row] = fmt::format("{}#{}", tokens, seen[tokens]++);
  }
  return keys;
}

}  // namespace

Sums& Sums::operator+=(const Sums& other) {
  numel += other.numel;
  is_finite = is_finite && other.is_finite;
  square_sum += other.square_sum;
  for (size_t i = 0; i < kProjections; ++i) projections[i] += other.projections[i];
  return *this;
}

Sums Sums::operator-(const Sums& other) const {
  Sums difference{.numel = numel, .is_finite = is_finite && other.is_finite};
  for (size_t i = 0; i < kProjections; ++i) {
    difference.projections[i] = projections[i] - other.projections[i];
  }
  difference.square_sum = inner_product(difference, difference);
  return difference;
}

double Sums::norm() const { return std::sqrt(square_sum); }

double Sums::projected_norm() const { return std::sqrt(inner_product(*this, *this)); }

double distance(const Sums& one, const Sums& other) {
  if (!one.is_finite && !other.is_finite) return 0;
  if (one.is_finite != other.is_finite) return std::numeric_limits<double>::infinity();
  return (one - other).norm();
}

double inner_product(const Sums& one, const Sums& other) {
  double product = 0;
  for (size_t i = 0; i < kProjections; ++i) product += one.projections[i] * other.projections[i];
  return product;
}

const Computed* StepFingerprints::find(Quantity of, const std::string& name,
                                       const std::string& state, const std::string& row) const {
  const auto found = places.find({of, name, state, row});
  return found == places.end() ? nullptr : &computed[found->second];
}

std::vector<int64_t> fingerprinted_steps(const std::filesystem::path& folder) {
  std::vector<int64_t> steps;
  std::error_code not_there;
  for (const auto& entry : std::filesystem::directory_iterator(folder, not_there)) {
    const std::string name = entry.path().filename();
    constexpr std::string_view kPrefix = "step-";
    int64_t step = 0;
    if (!name.starts_with(kPrefix)) continue;
    std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
    if (name == fingerprint_file_name(step, 0)) steps.push_back(step);
  }
  std::ranges::sort(steps);
  return steps;
}

StepFingerprints read_step_fingerprints(const std::filesystem::path& folder, int64_t step) {
  const std::vector<RankFile> files = read_ranks(folder, step);
  StepFingerprints result{.begin = files.front().begin, .rows = {}, .computed = {}, .places = {}};
  std::vector<std::map<int64_t, Part>> parts;  // of result.computed
  std::map<std::pair<Quantity, std::string>, size_t> first;
  std::map<std::string, int> seen;
  int64_t rows = 0;
  for (int64_t rank = 0; rank < std::ssize(files); ++rank) {
    const std::map<int64_t, std::string> keys = row_keys(files[rank], seen);
    for (const auto& [number, key] : keys) result.rows[key] = {rank, rows + number};
    rows += std::ssize(keys);
    for (const Fingerprint& fingerprint : files[rank].fingerprints) {
      const auto& [of, name, state] = std::tie(fingerprint.of, fingerprint.name, fingerprint.state);
      std::string row;
      if (is_row(of)) {
        const auto key = keys.find(fingerprint.row.value_or(-1));
        if (key == keys.end()) continue;  // of a row without a token that counts
        row = key->second;
      }
      const auto [place, is_new] = result.places.try_emplace({of, name, state, row}, parts.size());
      if (is_new) {
        first.try_emplace({of, name}, parts.size());
        result.computed.push_back({.of = of, .name = name, .state = state, .row = row});
        parts.emplace_back();
      }
      add(fingerprint, rank, parts[place->second], result.computed[place->second]);
    }
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    // Codes and scales of a quantized state begin where its elements do.
    if (result.computed[i].state.empty()) require_whole(result.computed[i], parts[i], folder);
  }
  // A module's rows are together, where the first of them was computed.
  std::ranges::stable_sort(result.computed, {}, [&](const Computed& one) {
    return std::pair(one.of, first.at({one.of, one.name}));
  });
  for (size_t i = 0; i < result.computed.size(); ++i) {
    const Computed& one = result.computed[i];
    result.places[{one.of, one.name, one.state, one.row}] = i;
  }
  return result;
}

}  // namespace fsdp
