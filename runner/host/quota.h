#pragma once

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

namespace fsdp {

// A user's use of bytes or files on a file system, and its limits. 0: no limit.
struct QuotaUse {
  double used = 0;
  double soft = 0;  // may be exceeded until the grace time is over
  double hard = 0;
  std::string grace{};  // seconds of Unix time, or as Lustre writes it: "6d23h"

  bool is_over_soft() const { return soft > 0 && used > soft; }
  bool is_at_hard() const { return hard > 0 && used >= hard; }
  // The amount left before the first limit; nullopt: there is no limit.
  std::optional<double> left() const {
    const double first = soft > 0 && (hard == 0 || soft < hard) ? soft : hard;
    return first > 0 ? std::optional(std::max(first - used, 0.0)) : std::nullopt;
  }
};

struct Quota {
  QuotaUse bytes;
  QuotaUse files;
};

// Returns this user's quota on the file system of `folder`, as `lfs` or else `quota` tells.
// nullopt: there is no quota, neither program is installed, or neither answers within `patience`.
std::optional<Quota> quota_of(const std::filesystem::path& folder,
                              std::chrono::milliseconds patience = std::chrono::seconds(3));

}  // namespace fsdp
