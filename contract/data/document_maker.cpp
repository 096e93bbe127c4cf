#include "contract/data/document_maker.h"

#include <algorithm>
#include <stdexcept>

#include "contract/text/config_error.h"

namespace fsdp {
namespace {

using Ids = std::vector<int32_t>;

// Writes "<moves> <result>" between the begin and end tokens.
class GameMaker : public DocumentMaker {
 public:
  GameMaker(const DataSpec& data, const Tokenizer& tokenizer)
      : columns_(data.columns),
        tokenizer_(tokenizer),
        begin_(needed_token(tokenizer.ends().begin, "the begin of a sequence", data)),
        end_(needed_token(tokenizer.ends().end, "the end of a sequence", data)) {}

  void append(const Record& record, Document& out) override {
    record.text(columns_.termination);
    game_ = record.text(columns_.moves);
    game_ += ' ';
    game_ += record.text(columns_.result);
    ids_ = {begin_};
    tokenizer_.encode(game_, ids_);
    ids_.push_back(end_);
    append_tokens(ids_, kTrainedOn, out);
  }

 private:
  const ColumnsSpec& columns_;
  const Tokenizer& tokenizer_;
  int32_t begin_;
  int32_t end_;
  std::string game_;
  Ids ids_;
};

class TextMaker : public DocumentMaker {
 public:
  TextMaker(const DataSpec& data, const Tokenizer& tokenizer)
      : column_(data.columns.text), tokenizer_(tokenizer) {}

  void append(const Record& record, Document& out) override {
    ids_.clear();
    if (tokenizer_.ends().adds_begin) ids_.push_back(*tokenizer_.ends().begin);
    tokenizer_.encode(record.text(column_), ids_);
    if (const auto end = tokenizer_.ends().end) ids_.push_back(*end);
    append_tokens(ids_, kTrainedOn, out);
  }

 private:
  const std::string& column_;
  const Tokenizer& tokenizer_;
  Ids ids_;
};

// Tokenizes prompt and answer as one text, as the code of Stanford Alpaca and Lit-GPT does. The
// first tokens, as many as the prompt alone has, are not trained on.
class InstructionMaker : public DocumentMaker {
 public:
  InstructionMaker(const DataSpec& data, const Tokenizer& tokenizer)
      : columns_(data.columns),
        prompts_(data.prompt),
        tokenizer_(tokenizer),
        end_(needed_token(tokenizer.ends().end, "the end of a sequence", data)) {}

  void append(const Record& record, Document& out) override {
    const std::string_view instruction = record.text(columns_.instruction);
    const std::string_view input = record.text_or_empty(columns_.input);
    const std::string_view output = record.text(columns_.output);
    text_.clear();
    fill_in(input.empty() ? prompts_.without_input : prompts_.with_input, instruction, input);
    const size_t untrained = encode();
    text_ += output;
    encode();
    ids_.push_back(end_);
    for (size_t i = 0; i < ids_.size(); ++i) {
      out.push_back(static_cast<uint32_t>(ids_[i]) | (i < untrained ? 0 : kTrainedOn));
    }
  }

 private:
  void fill_in(std::string_view prompt, std::string_view instruction, std::string_view input) {
    constexpr std::string_view kInstruction = "{instruction}";
    constexpr std::string_view kInput = "{input}";
    while (!prompt.empty()) {
      const size_t plain = std::min(prompt.find('{'), prompt.size());
      text_ += prompt.substr(0, plain);
      prompt.remove_prefix(plain);
      if (prompt.starts_with(kInstruction)) {
        text_ += instruction;
        prompt.remove_prefix(kInstruction.size());
      } else if (prompt.starts_with(kInput)) {
        text_ += input;
        prompt.remove_prefix(kInput.size());
      } else if (!prompt.empty()) {
        text_ += prompt.front();
        prompt.remove_prefix(1);
      }
    }
  }

  // Encodes text_ into ids_ and returns the number of tokens.
  size_t encode() {
    ids_.clear();
    if (tokenizer_.ends().adds_begin) ids_.push_back(*tokenizer_.ends().begin);
    tokenizer_.encode(text_, ids_);
    return ids_.size();
  }

  const ColumnsSpec& columns_;
  const TemplateSpec& prompts_;
  const Tokenizer& tokenizer_;
  int32_t end_;
  std::string text_;
  Ids ids_;
};

// Writes an article and its summary, each cut to its length and followed by the end token. Both are
// cleaned as in PyTorch's T5 tutorial.
class SummaryMaker : public DocumentMaker {
 public:
  SummaryMaker(const DataSpec& data, const Tokenizer& tokenizer)
      : data_(data),
        tokenizer_(tokenizer),
        end_(needed_token(tokenizer.ends().end, "the end of a sequence", data)) {}

  void append(const Record& record, Document& out) override {
    append_part(data_.prefix, record.text(data_.columns.text), data_.input_length, 0, out);
    append_part("", record.text(data_.columns.headline), data_.target_length, kTrainedOn, out);
  }

 private:
  void append_part(std::string_view prefix, std::string_view text, int64_t length, uint32_t flag,
                   Document& out) {
    text_ = text;
    for (const std::string_view part :
         {"Example of text:", "Example of Summary:", "\n", "``", "\""}) {
      remove(part);
    }
    text_.insert(0, prefix);
    ids_.clear();
    tokenizer_.encode(text_, ids_);
    if (std::ssize(ids_) > length - 1) ids_.resize(static_cast<size_t>(length - 1));
    ids_.push_back(end_);
    append_tokens(ids_, flag, out);
  }

  void remove(std::string_view part) {
    size_t kept = 0;
    size_t from = 0;
    while (from < text_.size()) {
      const size_t found = std::min(text_.find(part, from), text_.size());
      std::copy(text_.begin() + static_cast<ptrdiff_t>(from),
                text_.begin() + static_cast<ptrdiff_t>(found),
                text_.begin() + static_cast<ptrdiff_t>(kept));
      kept += found - from;
      from = found + part.size();
    }
    text_.resize(kept);
  }

  const DataSpec& data_;
  const Tokenizer& tokenizer_;
  int32_t end_;
  std::string text_;
  Ids ids_;
};

}  // namespace

int32_t needed_token(const std::optional<int32_t>& id, const std::string& what,
                     const DataSpec& data) {
  if (id) return *id;
  throw ConfigError("", "data.tokenizer",
                    "has no token for " + what + ", which data.kind " +
                        std::string(name_of(data.kind)) + " needs");
}

std::unique_ptr<DocumentMaker> make_document_maker(const DocumentParts& parts) {
  const auto& [data, tokenizer, chat_template] = parts;
  switch (data.kind) {
    case DataKind::kChess:
      return std::make_unique<GameMaker>(data, tokenizer);
    case DataKind::kText:
      return std::make_unique<TextMaker>(data, tokenizer);
    case DataKind::kInstructions:
      return std::make_unique<InstructionMaker>(data, tokenizer);
    case DataKind::kMessages:
      return make_chat_maker(parts);
    case DataKind::kWikihow:
      return std::make_unique<SummaryMaker>(data, tokenizer);
    case DataKind::kTokens:
      break;
  }
  throw std::logic_error("data.kind");
}

}  // namespace fsdp
