#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "trainer/comm/process_group.h"

namespace fsdp {

// Digests of files that every rank asks for. Rank 0 reads each file once for all ranks.
class SharedDigests {
 public:
  explicit SharedDigests(ProcessGroup& world) : world_(world) {}

  // Every rank asks for the same files in the same order. If a file cannot be read, throws
  // ConfigError (place: the file) on rank 0 and CommunicationError on the others.
  const std::string& digest_of(const std::filesystem::path& file);

 private:
  ProcessGroup& world_;
  std::map<std::filesystem::path, std::string> known_;
};

}  // namespace fsdp
