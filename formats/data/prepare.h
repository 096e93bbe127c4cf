#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "contract/spec/data_spec.h"
#include "formats/data/prepared_file.h"
#include "formats/tokenizers/tokenizer.h"

// Makes prepared files.
namespace fsdp {

using FileDigestOf = std::function<std::string(const std::filesystem::path&)>;

struct DataSource {
  std::filesystem::path file;
  std::filesystem::path tokenizer;
  DataSpec data;
};

// The tokenizer's files that decide the source's tokens. They are part of a run's identity.
std::vector<std::filesystem::path> tokenizer_files(const DataSource& source);

// The template that writes the source's chats. nullopt if the data is not chats, if data.format is
// given, or if the tokenizer has no template.
std::optional<ChatTemplate> chat_template_of(const DataSource& source);

// "<16 digits>.tokens", from the contents of the source's files and the settings that decide its
// tokens.
std::string prepared_name(const DataSource& source, const FileDigestOf& digest_of);

struct PrepareOptions {
  int threads = 0;  // 0: as many as available_cores()
  // Called repeatedly on the calling thread, with the bytes read of the data file and its size.
  // Both are 0 while another process makes the file.
  std::function<void(int64_t read_bytes, int64_t all_bytes)> on_progress = [](int64_t, int64_t) {};
};

// The prepared file; nullopt if it is missing or damaged.
std::optional<PreparedFile> whole_prepared_file(const std::filesystem::path& file);

// Opens the prepared file `name` in `folder`, and makes it first if it is missing or damaged.
// `name` is the source's prepared_name(). If several processes ask, only one makes the file. Sets
// `was_made` to true if this call made it. Throws ConfigError if the source is wrong or no longer
// matches `name`. Throws std::runtime_error if the folder cannot be written to.
PreparedFile prepared_file(const DataSource& source, const std::filesystem::path& folder,
                           const std::string& name, const PrepareOptions& options = {},
                           bool* was_made = nullptr);

// Reads every record and returns their number. Throws ConfigError as prepared_file does.
int64_t count_documents(const DataSource& source);

}  // namespace fsdp
