#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "trainer/comm/process_group.h"

namespace fsdp {

// Digests of files that every rank asks for, each of which rank 0 reads once for all.
class SharedDigests {
 public:
  explicit SharedDigests(ProcessGroup& world) : world_(world) {}

  // Every rank asks for the same files in the same order. Throws ConfigError (place: the file) on
  // rank 0 when it cannot be read, CommunicationError on the others.
  const std::string& digest_of(const std::filesystem::path& file);

 private:
  ProcessGroup& world_;
  std::map<std::filesystem::path, std::string> known_;
};

}  // namespace fsdp
