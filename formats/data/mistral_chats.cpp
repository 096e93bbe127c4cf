// Writes chats for Mistral's models, with the tokens of mistral-common, Mistral's library. It encodes
// the text of each turn alone, and finds no special tokens in it.
#include <algorithm>
#include <string>
#include <vector>

#include "base/text/white_space.h"
#include "formats/data/document_maker.h"

namespace fsdp {
namespace {

// The versions of Mistral's tokenizers that differ for chats without tools.
enum class Version {
  kV1,  // the roles are marked by text, and the first user's turn holds the system's
  kV2,  // [INST] and [/INST] are tokens, and the last user's turn holds the system's; also v3
  kV7,  // the system's turn stands between tokens of its own; also later versions
};

struct Message {
  std::string_view role;
  std::string content;
};

void append_paragraph(std::string& text, std::string_view more) {
  if (!text.empty() && !more.empty()) text += "\n\n";
  text += more;
}

class MistralMaker : public DocumentMaker {
 public:
  explicit MistralMaker(const DocumentParts& parts)
      : columns_(parts.data.columns), tokenizer_(parts.tokenizer) {
    const auto id_of = [&](const char* token) { return tokenizer_.id_of(token); };
    version_ = !id_of("[INST]")            ? Version::kV1
               : !id_of("[SYSTEM_PROMPT]") ? Version::kV2
                                           : Version::kV7;
    const auto needed = [&](const char* token) {
      return needed_token(id_of(token), token, parts.data);
    };
    begin_ = needed("<s>");
    end_ = needed("</s>");
    if (version_ == Version::kV1) return;
    user_ = {needed("[INST]"), needed("[/INST]")};
    if (version_ == Version::kV7) system_ = {needed("[SYSTEM_PROMPT]"), needed("[/SYSTEM_PROMPT]")};
  }

  void append(const Record& record, Document& out) override {
    const std::vector<Turn> turns = record.turns(columns_, counts_);
    check(turns, record);
    const std::vector<Message> messages = messages_of(turns);
    out.push_back(static_cast<uint32_t>(begin_));
    for (const Message& message : messages) append_message(message, out);
  }

 private:
  // The tokens around a turn.
  struct Marks {
    int32_t begin = 0, end = 0;
  };

  static void check(const std::vector<Turn>& turns, const Record& record) {
    std::string_view before;
    for (size_t i = 0; i < turns.size(); ++i) {
      const auto refuse = [&](const std::string& problem) {
        record.refuse("turn " + std::to_string(i + 1) + ' ' + problem);
      };
      const std::string_view role = turns[i].role;
      if (role != "user" && role != "assistant" && role != "system") {
        refuse("has the role '" + std::string(role) +
               "'; data.format mistral has: system, user, assistant");
      }
      if (role == "system" && before == "assistant") {
        refuse("has the role 'system' behind an answer; needed: user, or the system's turns first");
      }
      if (role == "assistant" && turns[i].content.empty()) {
        refuse("has an empty answer, which data.format mistral cannot write");
      }
      if (role == "assistant" && turns.size() == 1) refuse("is an answer without a question");
      before = role;
    }
  }

  // Joins neighbouring turns of one role, and puts the system's turns into the user's if the
  // version has them there.
  std::vector<Message> messages_of(const std::vector<Turn>& turns) const {
    std::vector<Message> messages;
    std::string system;
    std::string_view before;
    for (const Turn& turn : turns) {
      const bool is_system = turn.role == "system";
      if (is_system && version_ != Version::kV7) {
        append_paragraph(system, turn.content);
      } else if (!is_system && turn.role == before) {
        append_paragraph(messages.back().content, turn.content);
      } else {
        messages.push_back({turn.role, std::string(turn.content)});
      }
      before = turn.role;
    }
    if (version_ == Version::kV7) return messages;
    const auto is_user = [](const Message& message) { return message.role == "user"; };
    if (messages.empty() || !is_user(messages.front())) {
      messages.insert(messages.begin(), {"user", ""});
    }
    if (system.empty()) return messages;
    std::string& content =
        version_ == Version::kV1
            ? messages.front().content
            : std::ranges::find_if(messages.rbegin(), messages.rend(), is_user)->content;
    content = system + "\n\n" + content;
    return messages;
  }

  void append_message(const Message& message, Document& out) {
    ids_.clear();
    if (message.role == "assistant") {
      const auto is_space = [](char32_t c) { return c == U' '; };
      tokenizer_.encode(
          version_ == Version::kV1 ? message.content : right_stripped(message.content, is_space),
          ids_);
      ids_.push_back(end_);
      append_tokens(ids_, kTrainedOn, out);
      return;
    }
    if (version_ == Version::kV1) {
      tokenizer_.encode("[INST] " + message.content + " [/INST]", ids_);
    } else {
      const Marks& marks = message.role == "system" ? system_ : user_;
      ids_.push_back(marks.begin);
      tokenizer_.encode(message.content, ids_);
      ids_.push_back(marks.end);
    }
    append_tokens(ids_, 0, out);
  }

  const ColumnsSpec& columns_;
  const Tokenizer& tokenizer_;
  Version version_;
  int32_t begin_ = 0, end_ = 0;
  Marks user_, system_;
  std::vector<int32_t> ids_;
};

}  // namespace

std::unique_ptr<DocumentMaker> make_mistral_maker(const DocumentParts& parts) {
  return std::make_unique<MistralMaker>(parts);
}

}  // namespace fsdp
