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

// Whether the blob is there, of the right size.
bool is_whole(const RemoteFile& file);

// The bytes of the blob that an earlier fetch left.
int64_t partial_bytes(const RemoteFile& file);

// Makes the blob whole: takes up what an earlier fetch left in <blob>.incomplete, asks again when
// that may help, and gives the file its name only when its size and its hash are right. Another
// fetch of the same blob, in any process, is waited for. `done_bytes` counts what is there of it,
// and goes back when bytes turn out to be wrong. Throws std::runtime_error, and Interrupted; what
// has come by then stays for the next fetch.
void fetch_blob(const RemoteFile& file, HttpClient& http, double first_wait_s,
                std::atomic<int64_t>& done_bytes);

}  // namespace fsdp
