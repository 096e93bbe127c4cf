#include <algorithm>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>

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

// A token that stands in the text of a template.
struct SpecialToken {
  std::string text;
  uint32_t id;
};

// Writes chats as the templates of the models do, equal to transformers' apply_chat_template. What
// stands between two special tokens is tokenized at once; of what is trained on in part, a token
// that has any of the trained text is trained on.
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

  // Adds the tokens of a text between two special tokens: its begin is untrained, its end trained.
  // The special tokens are encoded with the text, as they may take white space from it.
  struct Between {
    const SpecialToken* after;
    std::string_view untrained;
    std::string_view trained{};
    const SpecialToken* before = nullptr;  // null: the text ends the document
  };
  void add_text(const Between& text) {
    const std::string untrained(text.untrained);
    if (text.trained.empty()) {
      encode(text.after, untrained, text.before, ids_);
      append_tokens(ids_, 0, *out_);
      return;
    }
    encode(text.after, untrained, nullptr, before_);
    encode(text.after, untrained + std::string(text.trained), text.before, ids_);
    size_t untrained_count = common_count(before_, ids_);
    if (untrained_count < before_.size()) {  // where they meet, other tokens than apart
      encode(nullptr, text.trained, text.before, alone_);
      const bool is_whole =
          std::ranges::equal(alone_, std::span(ids_).last(std::min(alone_.size(), ids_.size())));
      if (is_whole) untrained_count = ids_.size() - alone_.size();
    }
    for (size_t i = 0; i < ids_.size(); ++i) {
      out_->push_back(static_cast<uint32_t>(ids_[i]) | (i < untrained_count ? 0 : kTrainedOn));
    }
  }

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

  static size_t common_count(const std::vector<int32_t>& a, const std::vector<int32_t>& b) {
    return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
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

// [INST] ... [/INST], with the system's turn inside the first user's (llama2), or none (mistral).
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
        if (i + 1 == turns.size()) add_text({.after = &before_prompt, .untrained = prompt});
      } else {
        const std::string answer =
            is_llama_ ? ' ' + std::string(stripped(turn.content)) + ' ' : std::string(turn.content);
        add_text(
            {.after = &before_prompt, .untrained = prompt, .trained = answer, .before = &end_});
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

// A header with the role before each turn, and a token behind it.
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
        add_text({.after = &header_, .untrained = role, .before = &*header_end_});
        add(*header_end_);
      }
      const SpecialToken& after = is_llama_ ? *header_end_ : header_;
      std::string head = is_llama_ ? "\n\n" : role + '\n';
      const std::string content(is_llama_ ? stripped(turn.content) : turn.content);
      if (!is_trained_on) head += content;
      add_text({.after = &after,
                .untrained = head,
                .trained = is_trained_on ? content : "",
                .before = &end_});
      add(end_, is_trained_on);
      if (is_llama_) continue;
      const bool is_last = i + 1 == turns.size();
      add_text({.after = &end_, .untrained = "\n", .before = is_last ? nullptr : &header_});
    }
  }

 private:
  bool is_llama_;
  SpecialToken header_;
  SpecialToken end_;
  std::optional<SpecialToken> begin_;
  std::optional<SpecialToken> header_end_;
};

}  // namespace

std::unique_ptr<DocumentMaker> make_chat_maker(const DataSpec& data, const Tokenizer& tokenizer) {
  switch (data.format.value()) {
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
