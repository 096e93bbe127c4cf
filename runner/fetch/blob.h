#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>

#include "runner/fetch/content_hash.h"
#include "runner/fetch/http.h"

namespace fsdp {

// A file of a repository and where its contents belong in the cache.
struct RemoteFile {
  std::string url;
  std::string name;  // "organization/name: model.safetensors", for messages
  int64_t size_bytes = 0;
  ContentHash hash;
  std::filesystem::path blob;
  std::filesystem::path lock;
};

// True if the blob exists with the right size.
bool is_whole(const RemoteFile& file);

// The number of bytes of the blob that an earlier fetch left.
int64_t partial_bytes(const RemoteFile& file);

// Completes the blob. Continues <blob>.incomplete of an earlier fetch, retries if that may help,
// and renames the file only if its size and hash are right. Waits for another fetch of the same
// blob, in any process. `done_bytes` counts the blob's bytes and falls if bytes were wrong. Throws
// std::runtime_error, and Interrupted; bytes that have arrived stay for the next fetch.
void fetch_blob(const RemoteFile& file, HttpClient& http, double first_wait_s,
                std::atomic<int64_t>& done_bytes);

}  // namespace fsdp
