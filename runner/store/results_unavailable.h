#pragma once

#include <chrono>
#include <exception>
#include <stdexcept>

namespace fsdp {

// The default time that a call to the database waits for another process's transaction.
inline constexpr std::chrono::seconds kLockWait{10};

// The results cannot be read or written now. Another program holds the database locked, its disk is
// full or read-only, or its folder has moved. The call recorded nothing and may be made again.
class ResultsUnavailable : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The results are unavailable because their disk or a quota is full.
class DiskFull : public ResultsUnavailable {
 public:
  using ResultsUnavailable::ResultsUnavailable;
};

// The index is damaged, or was deleted or replaced. The next Store::sync makes it anew from the
// files of the results.
class IndexDamaged : public ResultsUnavailable {
 public:
  using ResultsUnavailable::ResultsUnavailable;
};

// True if `error`, from the database or a file in the results folder, means a full disk or quota.
bool says_disk_full(const std::exception& error);

// True if `error`, from the database or a file in the results folder, may pass by itself or by the
// user's action elsewhere.
bool may_pass(const std::exception& error);

}  // namespace fsdp
