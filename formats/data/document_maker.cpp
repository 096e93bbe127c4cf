// Makes tokens of records of all kinds but chats.
#include "formats/data/document_maker.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "base/text/config_error.h"
#include "base/text/white_space.h"

namespace fsdp {
namespace {

constexpr std::string_view kSystem = "{system}";
constexpr std::string_view kSystemOr = "{system|";

// A question of a record of kind instructions, and its answer.
struct Exchange {
  std::string_view instruction, input, output;
};

// The texts that stand for {system} and {system|text without one}.
struct System {
  std::string_view text;
  bool is_first = true;  // in the document; a later exchange has none
};

// Returns `prompt` with its placeholders replaced.
std::string filled_in(std::string_view prompt, const System& system, const Exchange& exchange) {
  std::string text;
  for (size_t brace; (brace = prompt.find('{')) != std::string_view::npos;) {
    text += prompt.substr(0, brace);
    prompt.remove_prefix(brace);
    const auto fill = [&](std::string_view name, std::string_view by) {
      if (!prompt.starts_with(name)) return false;
      text += by;
      prompt.remove_prefix(name.size());
      return true;
    };
    if (fill("{instruction}", exchange.instruction) || fill("{input}", exchange.input)) continue;
    const size_t end = prompt.find('}');
    const bool has_other = prompt.starts_with(kSystemOr);
    if (end != std::string_view::npos && (has_other || prompt.starts_with(kSystem))) {
      const std::string_view other =
          has_other ? prompt.substr(kSystemOr.size(), end - kSystemOr.size()) : "";
      if (system.is_first) text += system.text.empty() ? other : system.text;
      prompt.remove_prefix(end + 1);
      continue;
    }
    text += '{';
    prompt.remove_prefix(1);
  }
  return text.append(prompt);
}

std::string without(std::string_view text, std::string_view part) {
  std::string kept;
  for (size_t found; (found = text.find(part)) != std::string_view::npos;) {
    kept += text.substr(0, found);
    text.remove_prefix(found + part.size());
  }
  return kept.append(text);
}

// Makes the documents of all kinds but chats.
class TextMaker : public DocumentMaker {
 public:
  TextMaker(const DataSpec& data, const Tokenizer& tokenizer)
      : data_(data), columns_(data.columns), tokenizer_(tokenizer), ends_(tokenizer.ends()) {
    if (data.kind == DataKind::kChess) needed_token(ends_.begin, "the begin of a sequence", data);
    if (data.kind != DataKind::kText) needed_token(ends_.end, "the end of a sequence", data);
  }

  void append(const Record& record, Document& out) override {
    switch (data_.kind) {
      case DataKind::kChess:
        return append_game(record, out);
      case DataKind::kText:
        text_ = record.text(columns_.text);
        encode(ends_.adds_begin);
        return finish(0, out);
      case DataKind::kInstructions:
        return append_instruction(record, out);
      case DataKind::kWikihow:
        append_part(data_.prefix, record.text(columns_.text), data_.input_length, 0, out);
        return append_part("", record.text(columns_.headline), data_.target_length, kTrainedOn,
                           out);
      case DataKind::kMessages:
      case DataKind::kTokens:
        break;
    }
    throw std::logic_error("data.kind");
  }

 private:
  // Writes "<moves> <result>" between the begin and end tokens.
  void append_game(const Record& record, Document& out) {
    record.text(columns_.termination);  // throws if there is none: the records are not games
    text_ = record.text(columns_.moves);
    text_ += ' ';
    text_ += record.text(columns_.result);
    encode(/*with_begin=*/true);
    finish(0, out);
  }

  // Writes the exchanges of the record's history before its own, each with an end, as LLaMA-Factory
  // does.
  void append_instruction(const Record& record, Document& out) {
    System system{.text = record.text_or_empty(columns_.system)};
    std::vector<Exchange> exchanges;
    for (const auto& [question, answer] : record.pairs(columns_.history)) {
      exchanges.push_back({.instruction = question, .input = "", .output = answer});
    }
    exchanges.push_back({.instruction = record.text(columns_.instruction),
                         .input = record.text_or_empty(columns_.input),
                         .output = record.text(columns_.output)});
    for (const Exchange& exchange : exchanges) {
      append_exchange(record, system, exchange, out);
      system.is_first = false;
    }
  }

  // Tokenizes prompt and answer as one text, as the code of Stanford Alpaca and Lit-GPT does. The
  // first tokens, as many as the prompt alone has, are not trained on.
  void append_exchange(const Record& record, const System& system, const Exchange& exchange,
                       Document& out) {
    const std::string& prompt =
        exchange.input.empty() ? data_.prompt.without_input : data_.prompt.with_input;
    const auto has = [&](std::string_view text) { return prompt.find(text) != std::string::npos; };
    if (!system.text.empty() && !has(kSystem) && !has(kSystemOr)) {
      record.refuse("has '" + columns_.system +
                    "', but data.template has no {system}; write {system}, or {system|text where "
                    "there is none}, into it, or leave the column out with data.columns: {system: "
                    "''}");
    }
    text_ = filled_in(prompt, system, exchange);
    const bool with_begin = system.is_first && ends_.adds_begin;
    encode(with_begin);
    const size_t untrained = ids_.size();
    text_ += exchange.output;
    encode(with_begin);
    finish(untrained, out);
  }

  // Writes an article or its summary, cut to its length and followed by the end token. The text is
  // cleaned as in PyTorch's T5 tutorial.
  void append_part(std::string_view prefix, std::string_view text, int64_t length, uint32_t flag,
                   Document& out) {
    text_ = text;
    for (const std::string_view part :
         {"Example of text:", "Example of Summary:", "\n", "``", "\""}) {
      text_ = without(text_, part);
    }
    text_.insert(0, prefix);
    encode(/*with_begin=*/false);
    count_special_tokens();
    if (std::ssize(ids_) > length - 1) ids_.resize(static_cast<size_t>(length - 1));
    ids_.push_back(*ends_.end);
    append_tokens(ids_, flag, out);
  }

  // Turns text_ into ids_.
  void encode(bool with_begin) {
    ids_.clear();
    if (with_begin) ids_.push_back(*ends_.begin);
    if (data_.split_special_tokens) {
      tokenizer_.encode(text_, ids_);
    } else {
      tokenizer_.encode_with_special(text_, ids_);
    }
  }

  void count_special_tokens() {
    if (!data_.split_special_tokens) count_special_tokens_in(text_, tokenizer_, counts_);
  }

  // Appends the tokens, and the end token if there is one. The first `untrained` are not trained
  // on.
  void finish(size_t untrained, Document& out) {
    count_special_tokens();
    if (ends_.end) ids_.push_back(*ends_.end);
    append_tokens(std::span(ids_).first(std::min(untrained, ids_.size())), 0, out);
    append_tokens(std::span(ids_).subspan(std::min(untrained, ids_.size())), kTrainedOn, out);
  }

  const DataSpec& data_;
  const ColumnsSpec& columns_;
  const Tokenizer& tokenizer_;
  const Tokenizer::Ends& ends_;
  std::string text_;
  std::vector<int32_t> ids_;
};

}  // namespace

void count_special_tokens_in(std::string_view text, const Tokenizer& tokenizer,
                             RecordCounts& counts) {
  for (const PlacedToken& token : tokenizer.added_tokens_in(text)) {
    if (token.is_special) counts.add_special_token(stripped(token.text));
  }
}

int32_t needed_token(const std::optional<int32_t>& id, const std::string& what,
                     const DataSpec& data) {
  if (id) return *id;
  throw ConfigError("", "data.tokenizer",
                    "has no token for " + what + ", which data.kind " +
                        std::string(name_of(data.kind)) + " needs");
}

std::unique_ptr<DocumentMaker> make_document_maker(const DocumentParts& parts) {
  if (parts.data.kind == DataKind::kMessages) {
    return parts.data.format == ChatFormat::kMistral ? make_mistral_maker(parts)
                                                     : make_chat_maker(parts);
  }
  return std::make_unique<TextMaker>(parts.data, parts.tokenizer);
}

}  // namespace fsdp
