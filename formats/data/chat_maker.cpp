// Makes tokens of chats as transformers does. A template runs in a process of its own.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>

#include "base/files/input_file.h"
#include "base/system/program.h"
#include "base/text/config_error.h"
#include "base/text/foreign_json.h"
#include "base/text/json.h"
#include "base/text/white_space.h"
#include "formats/data/document_maker.h"

namespace fsdp {

// The text of render_chats.py, which documents its input and output lines.
extern const std::string_view kRenderChats;

namespace {

// A chat that a template or format cannot write.
struct MalformedChat : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct TextRange {
  size_t begin = 0, end = 0;  // bytes
};

// A chat as a template or a format writes it.
struct RenderedChat {
  std::string text{};
  std::vector<TextRange> trained{};  // in order, without overlap
  bool is_exact = false;             // `trained` is final; else take_ends() extends it
};

constexpr std::chrono::minutes kPatience{5};  // the script has a limit of its own, in CPU time
constexpr size_t kLargestAnswerBytes = 4 * kMostRecordBytes;

// The only variables that Python gets: those that it needs to start.
std::vector<std::string> environment_of_python() {
  std::vector<std::string> variables;
  for (const char* const name : {"PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL"}) {
    if (const char* const value = std::getenv(name)) {
      variables.push_back(std::string(name) + '=' + value);
    }
  }
  return variables;
}

[[noreturn]] void refuse_python(const ChatTemplate& chat_template, const std::string& problem) {
  throw ConfigError("", "data.format",
                    "is absent, so the chat template of " + chat_template.file.string() +
                        " writes the chats; this needs Python with jinja2 3.1.6 or later, and " +
                        problem +
                        ". Install them (python3 -m pip install jinja2), let FSDP_PYTHON name a "
                        "Python that has it, or give a format: llama2, llama3, chatml, mistral");
}

// Parses an answer of render_chats.py. Throws std::exception if it is an error or malformed.
RenderedChat chat_of(const std::string& line) {
  const nlohmann::json answer = parse_foreign_json(line, kLargestAnswerBytes);
  if (answer.contains("error")) throw std::runtime_error(answer.at("error").get<std::string>());
  RenderedChat chat{.text = answer.at("text").get<std::string>(),
                    .trained = {},
                    .is_exact = answer.at("is_exact").get<bool>()};
  size_t after = 0;
  for (const nlohmann::json& pair : answer.at("trained")) {
    const TextRange range{pair.at(0).get<size_t>(), pair.at(1).get<size_t>()};
    if (range.begin < after || range.end < range.begin || range.end > chat.text.size()) {
      throw std::runtime_error("what it trains on overlaps");
    }
    chat.trained.push_back(range);
    after = range.end;
  }
  return chat;
}

// Writes chats by a template, in a Python process with jinja2 (render_chats.py). The process starts
// with the first chat and ends with this object. Not thread-safe.
class ChatRenderer {
 public:
  explicit ChatRenderer(ChatTemplate chat_template) : template_(std::move(chat_template)) {}

  // Turns of the role assistant are trained on. Throws MalformedChat if the template refuses the
  // chat, or takes too much time or memory. Throws ConfigError if the template cannot be read, and
  // (key: data.format) if there is no Python with jinja2.
  RenderedChat render(std::span<const Turn> turns);

 private:
  void start();

  ChatTemplate template_;
  std::unique_ptr<Conversation> python_;
};

void ChatRenderer::start() {
  nlohmann::json answer;
  try {
    python_ = std::make_unique<Conversation>(
        std::vector<std::string>{python_program(), "-I", "-c", std::string(kRenderChats)},
        environment_of_python());
    JsonObject variables;
    for (const auto& [name, text] : template_.variables) variables.add(name, text);
    const JsonObject question =
        JsonObject().add("template", template_.text).add("variables", variables);
    answer = parse_foreign_json(python_->ask(question.text(), kPatience));
    if (!answer.is_object()) throw std::runtime_error(python_program() + " answers something else");
  } catch (const std::exception& error) {
    refuse_python(template_, error.what());
  }
  if (answer.contains("missing")) refuse_python(template_, answer.at("missing").get<std::string>());
  if (!answer.contains("error")) return;
  refuse_file(template_.file,
              "has a chat template that cannot be read: " + answer.at("error").get<std::string>());
}

RenderedChat ChatRenderer::render(std::span<const Turn> turns) {
  if (!python_) start();
  std::vector<JsonObject> messages;
  for (const Turn& turn : turns) {
    messages.push_back(JsonObject()
                           .add("role", turn.role)
                           .add("content", turn.content)
                           .add("is_trained_on", turn.role == "assistant"));
  }
  try {
    return chat_of(python_->ask(JsonObject().add("messages", messages).text(), kPatience));
  } catch (const std::exception& error) {
    throw MalformedChat("cannot be written by the chat template of " + template_.file.string() +
                        ": " + error.what());
  }
}

// Writes [INST] ... [/INST] (llama2). A system turn becomes a part of the first user turn.
RenderedChat write_instructions(std::span<const Turn> turns) {
  RenderedChat chat{.is_exact = true};
  std::string system;
  if (turns.front().role == "system") {
    system = "<<SYS>>\n" + std::string(turns.front().content) + "\n<</SYS>>\n\n";
    turns = turns.subspan(1);
  }
  for (size_t i = 0; i < turns.size(); ++i) {
    const Turn& turn = turns[i];
    const std::string_view expected = i % 2 == 0 ? "user" : "assistant";
    if (turn.role != expected) {
      throw MalformedChat("has the role '" + std::string(turn.role) + "' in turn " +
                          std::to_string(i + 1) + "; needed: " + std::string(expected) +
                          ", as user and assistant take turns");
    }
    if (i % 2 == 0) {
      const std::string content = (i == 0 ? system : "") + std::string(turn.content);
      chat.text.append("<s>[INST] ").append(stripped(content)).append(" [/INST]");
    } else {
      const size_t begin = chat.text.size();
      chat.text.append(" ").append(stripped(turn.content)).append(" </s>");
      chat.trained.push_back({begin, chat.text.size()});
    }
  }
  return chat;
}

// Writes a header with the role before each turn, and a token after the turn (llama3, chatml).
RenderedChat write_headers(std::span<const Turn> turns, bool is_llama) {
  RenderedChat chat{.text = is_llama ? "<|begin_of_text|>" : "", .is_exact = true};
  for (const Turn& turn : turns) {
    chat.text.append(is_llama ? "<|start_header_id|>" : "<|im_start|>").append(turn.role);
    chat.text += is_llama ? "<|end_header_id|>\n\n" : "\n";
    const size_t begin = chat.text.size();
    chat.text += is_llama ? stripped(turn.content) : turn.content;
    chat.text += is_llama ? "<|eot_id|>" : "<|im_end|>";
    if (turn.role == "assistant") chat.trained.push_back({begin, chat.text.size()});
    if (!is_llama) chat.text += '\n';
  }
  return chat;
}

// A way to write chats, and the special tokens that it needs.
struct ChatWriter {
  std::function<RenderedChat(std::span<const Turn>)> write;
  std::vector<std::string> tokens{};
};

ChatWriter writer_of(const DocumentParts& parts) {
  if (!parts.data.format) {
    if (!parts.chat_template) {
      throw ConfigError("", "data.format",
                        "is missing; data.kind messages needs the format of the model's chats: "
                        "llama2, llama3, chatml, mistral, or a tokenizer's folder that has a "
                        "chat template");
    }
    const auto renderer = std::make_shared<ChatRenderer>(*parts.chat_template);
    return {[renderer](std::span<const Turn> turns) { return renderer->render(turns); }};
  }
  const auto headers = [](bool is_llama) {
    return [is_llama](std::span<const Turn> turns) { return write_headers(turns, is_llama); };
  };
  switch (*parts.data.format) {
    case ChatFormat::kLlama2:
      return {write_instructions, {"<s>", "</s>"}};
    case ChatFormat::kLlama3:
      return {headers(true),
              {"<|start_header_id|>", "<|eot_id|>", "<|begin_of_text|>", "<|end_header_id|>"}};
    case ChatFormat::kChatml:
      return {headers(false), {"<|im_start|>", "<|im_end|>"}};
    case ChatFormat::kMistral:
      break;
  }
  throw std::logic_error("data.format");
}

// Writes chats as the models' templates do, equal to transformers' apply_chat_template. Text
// between two added tokens is tokenized as a whole. If only a part of the text is trained on, each
// token that overlaps this part is trained on.
class ChatMaker : public DocumentMaker {
 public:
  explicit ChatMaker(const DocumentParts& parts)
      : columns_(parts.data.columns), tokenizer_(parts.tokenizer), writer_(writer_of(parts)) {
    for (const std::string& token : writer_.tokens) {
      ids_.clear();
      tokenizer_.encode_with_special(token, ids_);
      if (ids_.size() != 1) needed_token(std::nullopt, token, parts.data);
    }
  }

  void append(const Record& record, Document& out) override {
    const std::vector<Turn> turns = record.turns(columns_, counts_);
    for (const Turn& turn : turns) count_special_tokens_in(turn.content, tokenizer_, counts_);
    try {
      chat_ = writer_.write(turns);
    } catch (const MalformedChat& error) {
      record.refuse(error.what());
    }
    const std::vector<PlacedToken> tokens = tokenizer_.added_tokens_in(chat_.text);
    if (!chat_.is_exact) take_ends(tokens);
    TextRange before;
    for (const PlacedToken& token : tokens) {
      const TextRange place = place_of(token);
      append_part({before.begin, before.end, place.begin, place.end}, out);
      out.push_back(static_cast<uint32_t>(token.id) | (trained_in(place).empty() ? 0 : kTrainedOn));
      before = place;
    }
    append_part({before.begin, before.end, chat_.text.size(), chat_.text.size()}, out);
  }

 private:
  // The text from `begin` to `end`. The added tokens at its sides are encoded with it, because they
  // may take white space from it.
  struct Part {
    size_t outer_begin, begin, end, outer_end;
  };

  TextRange place_of(const PlacedToken& token) const {
    const auto begin = static_cast<size_t>(token.text.data() - chat_.text.data());
    return {begin, begin + token.text.size()};
  }

  std::string_view text_in(size_t begin, size_t end) const {
    return std::string_view(chat_.text).substr(begin, end - begin);
  }

  // Extends each answer to the special token after it, if only white space is between.
  void take_ends(const std::vector<PlacedToken>& tokens) {
    for (TextRange& answer : chat_.trained) {
      const auto next = std::ranges::find_if(
          tokens, [&](const PlacedToken& token) { return place_of(token).end > answer.end; });
      const bool ends =
          next != tokens.end() && (next->is_special || next->id == tokenizer_.ends().end) &&
          stripped(text_in(answer.end, std::max(answer.end, place_of(*next).begin))).empty();
      if (ends) {
        answer.end = place_of(*next).end;
      } else {
        counts_.add_answer_without_end();
      }
    }
  }

  // The ranges within `part` that are trained on.
  std::vector<TextRange> trained_in(const TextRange& part) const {
    std::vector<TextRange> found;
    for (const TextRange& range : chat_.trained) {
      const TextRange both{std::max(range.begin, part.begin), std::min(range.end, part.end)};
      if (both.begin < both.end) found.push_back(both);
    }
    return found;
  }

  void append_part(const Part& part, Document& out) {
    if (part.begin == part.end) return;
    encode(part, ids_);
    const size_t first = out.size();
    append_tokens(ids_, 0, out);
    for (const TextRange& range : trained_in({part.begin, part.end})) {
      const size_t end = first + token_at(part, range.end, /*is_end=*/true);
      for (size_t i = first + token_at(part, range.begin, /*is_end=*/false); i < end; ++i) {
        out[i] |= kTrainedOn;
      }
    }
  }

  // The ids of the part, without those of the tokens at its sides.
  void encode(const Part& part, std::vector<int32_t>& ids) const {
    ids.clear();
    tokenizer_.encode_with_special(text_in(part.outer_begin, part.outer_end), ids);
    if (part.outer_end > part.end && !ids.empty()) ids.pop_back();
    if (part.outer_begin < part.begin && !ids.empty()) ids.erase(ids.begin());
  }

  // Returns the index in ids_ of the first token with any text after `place`. If `is_end`, returns
  // the index of the first token without any text before `place`.
  size_t token_at(const Part& part, size_t place, bool is_end) {
    if (place == part.end) return ids_.size();
    encode({part.outer_begin, part.begin, place, place}, before_);
    const auto common =
        static_cast<size_t>(std::ranges::mismatch(before_, ids_).in1 - before_.begin());
    if (common == before_.size()) return common;
    // The text before `place` has other tokens alone. If the text after `place` has the same tokens
    // alone, no token crosses `place`.
    encode({place, place, part.end, part.outer_end}, alone_);
    const bool is_whole =
        std::ranges::equal(alone_, std::span(ids_).last(std::min(alone_.size(), ids_.size())));
    if (is_whole) return ids_.size() - alone_.size();
    return std::min(common + (is_end ? 1 : 0), ids_.size());
  }

  const ColumnsSpec& columns_;
  const Tokenizer& tokenizer_;
  ChatWriter writer_;
  RenderedChat chat_;
  std::vector<int32_t> ids_;
  std::vector<int32_t> before_;
  std::vector<int32_t> alone_;
};

}  // namespace

std::unique_ptr<DocumentMaker> make_chat_maker(const DocumentParts& parts) {
  return std::make_unique<ChatMaker>(parts);
}

}  // namespace fsdp
