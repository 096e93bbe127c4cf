#include <algorithm>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>

#include "contract/data/chat_renderer.h"
#include "contract/data/chat_turns.h"
#include "contract/data/document_maker.h"
#include "contract/text/config_error.h"

namespace fsdp {
namespace {

std::string_view stripped(std::string_view text) {
  constexpr std::string_view kWhiteSpace = " \t\n\v\f\r";
  const size_t begin = text.find_first_not_of(kWhiteSpace);
  if (begin == std::string_view::npos) return "";
  return text.substr(begin, text.find_last_not_of(kWhiteSpace) + 1 - begin);
}

struct SpecialToken {
  std::string text;
  uint32_t id;
};

// Writes chats as the models' templates do, equal to transformers' apply_chat_template. Text
// between two special tokens is tokenized as a whole. If only a part of it is trained on, each
// token with any of the trained text is.
class ChatMaker : public DocumentMaker {
 public:
  ChatMaker(const DataSpec& data, const Tokenizer& tokenizer)
      : data_(data), tokenizer_(tokenizer) {}

  void append(const Record& record, Document& out) override {
    turns_ = record.turns(data_.columns, counts_);
    for (Turn& turn : turns_) turn.role = counts_.add_turn(turn.role);
    record_ = &record;
    out_ = &out;
    append_turns(turns_);
  }

  TurnCounts turns() const override { return counts_; }

 protected:
  virtual void append_turns(std::span<const Turn> turns) = 0;

  SpecialToken special_token(const std::string& text) const {
    std::vector<int32_t> ids;
    tokenizer_.encode_with_special(text, ids);
    if (ids.size() != 1) needed_token(std::nullopt, text, data_);
    return {text, static_cast<uint32_t>(ids.front())};
  }

  void add(const SpecialToken& token, bool is_trained_on = false) {
    out_->push_back(token.id | (is_trained_on ? kTrainedOn : 0));
  }

  // Adds the tokens of a text between two special tokens. They are encoded with the text, because
  // they may take white space from it.
  struct Between {
    const SpecialToken* after;  // null: the text begins the document
    std::string_view text;
    std::span<const TextRange> trained{};  // of the text
    const SpecialToken* before = nullptr;  // null: the text ends the document
  };
  void add_text(const Between& between) {
    encode(between.after, between.text, between.before, ids_);
    const size_t first = out_->size();
    append_tokens(ids_, 0, *out_);
    for (const TextRange& range : between.trained) {
      const size_t end = first + token_at(between, range.end, /*is_end=*/true);
      for (size_t i = first + token_at(between, range.begin, /*is_end=*/false); i < end; ++i) {
        (*out_)[i] |= kTrainedOn;
      }
    }
  }

  const Tokenizer& tokenizer() const { return tokenizer_; }

  void count_answer_without_end() { counts_.add_answer_without_end(); }

  [[noreturn]] void refuse(const std::string& problem) const { record_->refuse(problem); }

 private:
  // The ids of `text` between two special tokens, without theirs.
  void encode(const SpecialToken* after, std::string_view text, const SpecialToken* before,
              std::vector<int32_t>& ids) {
    text_ = after == nullptr ? "" : after->text;
    text_ += text;
    if (before != nullptr) text_ += before->text;
    ids.clear();
    tokenizer_.encode_with_special(text_, ids);
    if (before != nullptr && !ids.empty()) ids.pop_back();
    if (after != nullptr && !ids.empty()) ids.erase(ids.begin());
  }

  // Returns the index in ids_ of the first token with any text after `place`. If `is_end`, returns
  // that of the first token without any text before `place`.
  size_t token_at(const Between& between, size_t place, bool is_end) {
    if (place == between.text.size()) return ids_.size();
    encode(between.after, between.text.substr(0, place), nullptr, before_);
    const auto common =
        static_cast<size_t>(std::ranges::mismatch(before_, ids_).in1 - before_.begin());
    if (common == before_.size()) return common;
    // Tokens across `place` differ from those of the two sides alone.
    encode(nullptr, between.text.substr(place), between.before, alone_);
    const bool is_whole =
        std::ranges::equal(alone_, std::span(ids_).last(std::min(alone_.size(), ids_.size())));
    if (is_whole) return ids_.size() - alone_.size();
    return std::min(common + (is_end ? 1 : 0), ids_.size());
  }

  const DataSpec& data_;
  const Tokenizer& tokenizer_;
  std::vector<Turn> turns_;
  TurnCounts counts_;
  const Record* record_ = nullptr;
  Document* out_ = nullptr;
  std::vector<int32_t> ids_;
  std::vector<int32_t> before_;
  std::vector<int32_t> alone_;
  std::string text_;
};

// Writes [INST] ... [/INST]. The system's turn is inside the first user's (llama2) or not allowed
// (mistral).
class InstructionChatMaker : public ChatMaker {
 public:
  InstructionChatMaker(const DataSpec& data, const Tokenizer& tokenizer)
      : ChatMaker(data, tokenizer),
        is_llama_(*data.format == ChatFormat::kLlama2),
        begin_(special_token("<s>")),
        end_(special_token("</s>")) {}

 protected:
  void append_turns(std::span<const Turn> turns) override {
    std::string system;
    if (is_llama_ && turns.front().role == "system") {
      system = "<<SYS>>\n" + std::string(turns.front().content) + "\n<</SYS>>\n\n";
      turns = turns.subspan(1);
    }
    std::string prompt;
    SpecialToken before_prompt = begin_;
    for (size_t i = 0; i < turns.size(); ++i) {
      const Turn& turn = turns[i];
      const std::string_view expected = i % 2 == 0 ? "user" : "assistant";
      if (turn.role != expected) {
        refuse("has the role '" + std::string(turn.role) + "' in turn " + std::to_string(i + 1) +
               "; needed: " + std::string(expected) + ", as user and assistant take turns" +
               (is_llama_ ? "" : " and this format has no system's"));
      }
      if (i % 2 == 0) {
        prompt = prompt_of((i == 0 ? system : "") + std::string(turn.content));
        const bool begins = is_llama_ || i == 0;
        before_prompt = begins ? begin_ : end_;
        if (begins) add(begin_);
        if (i + 1 == turns.size()) add_text({.after = &before_prompt, .text = prompt});
      } else {
        const std::string answer =
            is_llama_ ? ' ' + std::string(stripped(turn.content)) + ' ' : std::string(turn.content);
        const std::string text = prompt + answer;
        const TextRange trained{prompt.size(), text.size()};
        add_text(
            {.after = &before_prompt, .text = text, .trained = {&trained, 1}, .before = &end_});
        add(end_, /*is_trained_on=*/true);
      }
    }
  }

 private:
  std::string prompt_of(const std::string& content) const {
    return "[INST] " + std::string(is_llama_ ? stripped(content) : content) + " [/INST]";
  }

  bool is_llama_;
  SpecialToken begin_;
  SpecialToken end_;
};

// Writes a header with the role before each turn, and a token after the turn.
class HeaderChatMaker : public ChatMaker {
 public:
  HeaderChatMaker(const DataSpec& data, const Tokenizer& tokenizer)
      : ChatMaker(data, tokenizer),
        is_llama_(*data.format == ChatFormat::kLlama3),
        header_(special_token(is_llama_ ? "<|start_header_id|>" : "<|im_start|>")),
        end_(special_token(is_llama_ ? "<|eot_id|>" : "<|im_end|>")) {
    if (!is_llama_) return;
    begin_ = special_token("<|begin_of_text|>");
    header_end_ = special_token("<|end_header_id|>");
  }

 protected:
  void append_turns(std::span<const Turn> turns) override {
    if (is_llama_) add(*begin_);
    for (size_t i = 0; i < turns.size(); ++i) {
      const Turn& turn = turns[i];
      const bool is_trained_on = turn.role == "assistant";
      const std::string role(turn.role);
      add(header_);
      if (is_llama_) {
        add_text({.after = &header_, .text = role, .before = &*header_end_});
        add(*header_end_);
      }
      const SpecialToken& after = is_llama_ ? *header_end_ : header_;
      const std::string head = is_llama_ ? "\n\n" : role + '\n';
      const std::string text =
          head + std::string(is_llama_ ? stripped(turn.content) : turn.content);
      const TextRange answer{head.size(), text.size()};
      add_text({.after = &after,
                .text = text,
                .trained = {&answer, is_trained_on ? size_t{1} : 0},
                .before = &end_});
      add(end_, is_trained_on);
      if (is_llama_) continue;
      const bool is_last = i + 1 == turns.size();
      add_text({.after = &end_, .text = "\n", .before = is_last ? nullptr : &header_});
    }
  }

 private:
  bool is_llama_;
  SpecialToken header_;
  SpecialToken end_;
  std::optional<SpecialToken> begin_;
  std::optional<SpecialToken> header_end_;
};

// Writes chats by the tokenizer's own template. Trains on the text that the template marks, or else
// on each answer and the special token after it.
class TemplateChatMaker : public ChatMaker {
 public:
  TemplateChatMaker(const DataSpec& data, const Tokenizer& tokenizer,
                    const ChatTemplate& chat_template)
      : ChatMaker(data, tokenizer), renderer_(chat_template) {}

 protected:
  void append_turns(std::span<const Turn> turns) override {
    try {
      chat_ = renderer_.render(turns);
    } catch (const MalformedChat& error) {
      refuse(error.what());
    }
    const std::vector<PlacedToken> tokens = tokenizer().added_tokens_in(chat_.text);
    if (!chat_.is_exact) take_ends(tokens);
    std::optional<SpecialToken> after;
    size_t done = 0;
    for (const PlacedToken& token : tokens) {
      const SpecialToken before{std::string(token.text), static_cast<uint32_t>(token.id)};
      const size_t begin = place_of(token);
      append_part({done, begin}, after, &before);
      done = end_of(token);
      add(before, !trained_in({begin, done}).empty());
      after = before;
    }
    append_part({done, chat_.text.size()}, after, nullptr);
  }

 private:
  size_t place_of(const PlacedToken& token) const {
    return static_cast<size_t>(token.text.data() - chat_.text.data());
  }

  size_t end_of(const PlacedToken& token) const { return place_of(token) + token.text.size(); }

  bool ends_turns(const PlacedToken& token) const {
    return token.is_special || token.id == tokenizer().ends().end;
  }

  // Extends each answer to the special token after it, if only white space is between.
  void take_ends(const std::vector<PlacedToken>& tokens) {
    for (TextRange& answer : chat_.trained) {
      const auto next = std::ranges::find_if(
          tokens, [&](const PlacedToken& token) { return end_of(token) > answer.end; });
      const size_t begin = next == tokens.end() ? chat_.text.size() : place_of(*next);
      const auto between = std::string_view(chat_.text)
                               .substr(answer.end, begin < answer.end ? 0 : begin - answer.end);
      if (next != tokens.end() && ends_turns(*next) && stripped(between).empty()) {
        answer.end = end_of(*next);
      } else {
        count_answer_without_end();
      }
    }
  }

  // The ranges of `part` that are trained on, as bytes of `part`.
  std::vector<TextRange> trained_in(const TextRange& part) const {
    std::vector<TextRange> found;
    for (const TextRange& range : chat_.trained) {
      const size_t begin = std::max(range.begin, part.begin);
      const size_t end = std::min(range.end, part.end);
      if (begin < end) found.push_back({begin - part.begin, end - part.begin});
    }
    return found;
  }

  void append_part(const TextRange& part, const std::optional<SpecialToken>& after,
                   const SpecialToken* before) {
    if (part.begin == part.end) return;
    const std::vector<TextRange> trained = trained_in(part);
    add_text({.after = after ? &*after : nullptr,
              .text = std::string_view(chat_.text).substr(part.begin, part.end - part.begin),
              .trained = trained,
              .before = before});
  }

  ChatRenderer renderer_;
  RenderedChat chat_;
};

}  // namespace

std::unique_ptr<DocumentMaker> make_chat_maker(const DocumentParts& parts) {
  const auto& [data, tokenizer, chat_template] = parts;
  if (!data.format) {
    if (chat_template) {
      return std::make_unique<TemplateChatMaker>(data, tokenizer, *chat_template);
    }
    throw ConfigError("", "data.format",
                      "is missing; data.kind messages needs the format of the model's chats: "
                      "llama2, llama3, chatml, mistral, or a tokenizer's folder that has a "
                      "chat template");
  }
  switch (*data.format) {
    case ChatFormat::kLlama2:
    case ChatFormat::kMistral:
      return std::make_unique<InstructionChatMaker>(data, tokenizer);
    case ChatFormat::kLlama3:
    case ChatFormat::kChatml:
      return std::make_unique<HeaderChatMaker>(data, tokenizer);
  }
  throw std::logic_error("data.format");
}

}  // namespace fsdp
