#pragma once

#include <chrono>
#include <exception>
#include <stdexcept>

namespace fsdp {

// How long a call to the database waits for another process's transaction, unless it is told
// otherwise.
inline constexpr std::chrono::seconds kLockWait{10};

// The results cannot be read or written for now: another program holds the database locked, its
// disk is full or read-only, its folder is not where it was. Nothing of the call was kept; it may
// be made again.
class ResultsUnavailable : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The same, because the results' disk or a quota of it is full.
class DiskFull : public ResultsUnavailable {
 public:
  using ResultsUnavailable::ResultsUnavailable;
};

// True if `error`, of the database or of a file in the results folder, says that the disk or a
// quota is full.
bool says_disk_full(const std::exception& error);

// Whether `error`, of the database or of a file in the results folder, may pass by itself or by
// what its user does elsewhere.
bool may_pass(const std::exception& error);

}  // namespace fsdp
