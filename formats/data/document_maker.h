#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "contract/spec/data_spec.h"
#include "formats/data/document.h"
#include "formats/data/records.h"
#include "formats/tokenizers/tokenizer.h"

// Makes documents of records, for each kind of data.
namespace fsdp {

// Counts the turns of chats by their role in the file.
class TurnCounts {
 public:
  // Counts a turn. Returns the role's usual name, such as "assistant" for "gpt".
  std::string_view add_turn(std::string_view role);
  // Counts a turn's key that is not read, because no format writes it.
  void add_unread_key(std::string_view key) { unread_keys_.add(key, 1); }
  // Counts an answer without a special token after it. A model learns to stop from that token.
  void add_answer_without_end() { ++answers_without_end_; }
  void add(const TurnCounts& other);

  bool empty() const { return answers_.counts.empty() && others_.counts.empty(); }
  bool has_answers() const { return !answers_.counts.empty(); }
  // "2 gpt (trained on), 3 user, 1 critic; no token ends 1 of the answers; not read: 2 name"; empty
  // without turns.
  std::string text() const;

 private:
  // Counts by name. Keeps only the alphabetically first names, so the order of adding does not
  // matter.
  struct Names {
    void add(std::string_view name, int64_t count);
    void add(const Names& other);
    // Appends "2 gpt, 1 bot" to `text`, the most frequent first. `separator` stands before the
    // first name, ", " before each other one, and `ending` after each.
    void append_to(std::string& text, std::string separator, const char* ending = "") const;

    std::map<std::string, int64_t> counts{};
    int64_t dropped = 0;  // the counts of names that were not kept
  };

  Names answers_;
  Names others_;
  Names unread_keys_;
  int64_t answers_without_end_ = 0;
};

// Throws ConfigError (place: the file) if `turns` holds turns, but no answer to train on.
void require_answers(const std::filesystem::path& file, const TurnCounts& turns);

class DocumentMaker {
 public:
  virtual ~DocumentMaker() = default;
  // Appends the document of `record` to `out`. Throws ConfigError (place: file:line) if the record
  // lacks a column or is a malformed chat.
  virtual void append(const Record& record, Document& out) = 0;
  // The turns of all records so far; empty unless the records are chats.
  virtual TurnCounts turns() const { return {}; }
};

// The settings that turn records into documents. `chat_template` writes chats if data.format is
// absent.
struct DocumentParts {
  const DataSpec& data;
  const Tokenizer& tokenizer;
  const std::optional<ChatTemplate>& chat_template;
};

// Makes a maker for one thread; `parts` must outlive it. Throws ConfigError (place: empty, key:
// data.tokenizer) if the tokenizer lacks a token that the kind needs. Throws ConfigError (key:
// data.format) for chats with neither a format nor a template.
std::unique_ptr<DocumentMaker> make_document_maker(const DocumentParts& parts);

// The same for data.kind messages.
std::unique_ptr<DocumentMaker> make_chat_maker(const DocumentParts& parts);

// Returns `id`. Throws ConfigError (key: data.tokenizer), which names `what`, if `id` is nullopt.
int32_t needed_token(const std::optional<int32_t>& id, const std::string& what,
                     const DataSpec& data);

inline void append_tokens(std::span<const int32_t> ids, uint32_t flag, Document& out) {
  for (const int32_t id : ids) out.push_back(static_cast<uint32_t>(id) | flag);
}

}  // namespace fsdp
