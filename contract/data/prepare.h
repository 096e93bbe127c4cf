#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "contract/data/prepared_file.h"
#include "contract/spec/data_spec.h"
#include "contract/tokenizers/chat_template.h"

// Makes prepared files.
namespace fsdp {

using FileDigestOf = std::function<std::string(const std::filesystem::path&)>;

// What a prepared file is made of.
struct DataSource {
  std::filesystem::path file;
  std::filesystem::path tokenizer;
  DataSpec data;
};

// The files of its tokenizer that decide the source's tokens, which are part of a run's identity.
std::vector<std::filesystem::path> tokenizer_files(const DataSource& source);

// The template that writes the source's chats; nullopt if they have a format, or are none.
std::optional<ChatTemplate> chat_template_of(const DataSource& source);

// "<16 digits>.tokens", from the contents of the source's files and the settings that decide its
// tokens.
std::string prepared_name(const DataSource& source, const FileDigestOf& digest_of);

struct PrepareOptions {
  int threads = 0;  // 0: as many as there are processors
  // Called now and then while this takes long, on the calling thread: bytes of the data file that
  // are read, and all of them; 0 of 0 while another process makes the file.
  std::function<void(int64_t read_bytes, int64_t all_bytes)> on_progress = [](int64_t, int64_t) {};
};

// The prepared file, nullopt when it is not there or damaged.
std::optional<PreparedFile> whole_prepared_file(const std::filesystem::path& file);

// Opens the file `name` of `source` in `folder`, or makes it there, where it is missing or damaged.
// `name` is its prepared_name(). Of any number of processes that ask, one makes it. Throws
// ConfigError for what is wrong with the source, and when what was read is not what the name says;
// std::runtime_error when the folder cannot be written to. Says in `was_made` whether this
// call made it.
PreparedFile prepared_file(const DataSource& source, const std::filesystem::path& folder,
                           const std::string& name, const PrepareOptions& options = {},
                           bool* was_made = nullptr);

// How many documents the file has, of which it reads every record. Throws ConfigError as
// prepared_file.
int64_t count_documents(const DataSource& source);

}  // namespace fsdp
