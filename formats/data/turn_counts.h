#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

namespace fsdp {

// Returns the role that chat formats know: "assistant" for gpt, chatgpt, model, bot and ai, "user"
// for human. Returns `role` itself if it is not known.
std::string_view known_role(std::string_view role);

// Counts the turns of chats by their role in the file.
class TurnCounts {
 public:
  // Returns known_role(role).
  std::string_view add_turn(std::string_view role);
  // Counts a key of a turn that no format writes.
  void add_unread_key(std::string_view key) { unread_keys_.add(key, 1); }
  // Counts an answer with no special token behind it, which a model needs to learn to stop.
  void add_answer_without_end() { ++answers_without_end_; }
  void add(const TurnCounts& other);

  bool empty() const { return answers_.counts.empty() && others_.counts.empty(); }
  bool has_answers() const { return !answers_.counts.empty(); }
  // "2 gpt (trained on), 3 user, 1 critic; no token ends 1 of the answers; not read: 2 name"; empty
  // without turns.
  std::string text() const;

 private:
  // Counts by name. Keeps the first names in alphabetical order, so that adding in any order gives
  // the same.
  struct Names {
    void add(std::string_view name, int64_t count);
    void add(const Names& other);
    // Appends "2 gpt, 1 bot" to `text`, the most frequent first. Each begins with `separator`, then
    // ", ", and ends with `ending`.
    void append_to(std::string& text, std::string separator, const char* ending = "") const;

    std::map<std::string, int64_t> counts{};
    int64_t dropped = 0;  // of other names
  };

  Names answers_;
  Names others_;
  Names unread_keys_;
  int64_t answers_without_end_ = 0;
};

// Throws ConfigError (place: the file) if it has turns, and none of them is trained on.
void require_answers(const std::filesystem::path& file, const TurnCounts& turns);

}  // namespace fsdp
