#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

namespace fsdp {

// The role that a chat format knows `role` by: "assistant" for the names that others give a model
// (gpt, model, bot), "user" for human, and `role` itself for one that is not known.
std::string_view known_role(std::string_view role);

// The turns of chats, by what the file calls them.
class TurnCounts {
 public:
  void add_turn(std::string_view role) { add_to(roles_, role, 1); }
  // Counts a key of a turn that no format writes.
  void add_unread_key(std::string_view key) { add_to(unread_keys_, key, 1); }
  void add(const TurnCounts& other);

  bool empty() const { return roles_.empty(); }
  bool has_answers() const;
  // "3 user, 2 gpt (trained on), 1 critic; not read: name of 2"; empty without turns.
  std::string text() const;

 private:
  using Counts = std::map<std::string, int64_t, std::less<>>;

  static void add_to(Counts& counts, std::string_view name, int64_t count);

  Counts roles_;
  Counts unread_keys_;
};

// Throws ConfigError (place: the file) if it has turns, and none of them is trained on.
void require_answers(const std::filesystem::path& file, const TurnCounts& turns);

}  // namespace fsdp
