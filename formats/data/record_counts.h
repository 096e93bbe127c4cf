#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace fsdp {

// Counts the parts of records that documents took, and those that they left out.
class RecordCounts {
 public:
  // Counts a turn of a chat by its role in the file. Returns the role's usual name, such as
  // "assistant" for "gpt".
  std::string_view add_turn(std::string_view role);
  // Counts a turn's key that is not read, because no format writes it.
  void add_unread_key(std::string_view key) { unread_keys_.add(key); }
  // Counts an answer without a special token after it. A model learns to stop from that token.
  void add_answer_without_end() { ++answers_without_end_; }
  // Counts a record's column that is not empty and is not read.
  void add_unread_column(std::string_view column) { unread_columns_.add(column); }
  // Counts a special token in the text of a record.
  void add_special_token(std::string_view token) { special_tokens_.add(token); }
  void add(const RecordCounts& other);

  // Throws ConfigError (place: the file) if there are turns, but no answer to train on.
  void require_answers(const std::filesystem::path& file) const;
  // "turns: 2 gpt (trained on), 3 user, 1 critic; no token ends 1 of the answers; not read: 2 name;
  // columns not read: 5 id; special tokens in texts: 4 <|im_end|>". Empty if nothing was counted.
  std::string text() const;

 private:
  // Counts by name. Keeps only the alphabetically first names, so the order of adding does not
  // matter.
  struct Names {
    void add(std::string_view name);
    void add(const std::string& name, int64_t count);
    void add(const Names& other);
    // Returns "2 gpt, 1 bot", the most frequent first. ending(name) stands behind each.
    std::string text(const std::function<std::string(const std::string&)>& ending = {}) const;

    std::map<std::string, int64_t> counts{};
    int64_t dropped = 0;  // the counts of names that were not kept
  };

  std::string turns() const;

  Names answers_;
  Names others_;
  Names unread_keys_;
  Names unread_columns_;
  Names special_tokens_;
  int64_t answers_without_end_ = 0;
};

}  // namespace fsdp
