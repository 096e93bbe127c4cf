// Writes prompts, through the makers of training data: a prompt is the part of a document that is
// not trained on.
#include "formats/data/prompt.h"

#include <array>
#include <nlohmann/json.hpp>

#include "base/text/config_error.h"
#include "formats/data/document_maker.h"

namespace fsdp {
namespace {

using nlohmann::json;

// Stands for the answer that is not known yet. Chats without an answer are refused.
constexpr const char* kAnswer = "?";

std::string name_or(const std::string& name, const char* other) {
  return name.empty() ? other : name;
}

// A record of `text` without an answer, as JSON.
json record_of(const DataSpec& data, const std::string& text) {
  const ColumnsSpec& columns = data.columns;
  switch (data.kind) {
    case DataKind::kMessages: {
      const auto turn = [&](const char* role, const std::string& content) {
        return json{{name_or(columns.role, "role"), role},
                    {name_or(columns.content, "content"), content}};
      };
      return {{name_or(columns.messages, "messages"),
               {turn("user", text), turn("assistant", kAnswer)}}};
    }
    case DataKind::kInstructions:
      // An answer could join the prompt's last character in one token.
      return {{columns.instruction, text}, {columns.output, ""}};
    case DataKind::kWikihow:
      return {{columns.text, text}, {columns.headline, kAnswer}};
    case DataKind::kChess:
    case DataKind::kText:
    case DataKind::kTokens:
      break;
  }
  throw std::logic_error("data.kind");
}

bool is_continued(DataKind kind) { return kind == DataKind::kChess || kind == DataKind::kText; }

Prompt continued(const DataSpec& data, const Tokenizer& tokenizer, const std::string& text) {
  const Tokenizer::Ends& ends = tokenizer.ends();
  Prompt prompt{.ids = {}, .end = ends.end};
  if (ends.adds_begin || (data.kind == DataKind::kChess && ends.begin)) {
    prompt.ids.push_back(*ends.begin);
  }
  tokenizer.encode(text, prompt.ids);
  return prompt;
}

}  // namespace

Prompt make_prompt(const DataSpec& data, const Tokenizer& tokenizer,
                   const std::optional<ChatTemplate>& chat_template, const std::string& text) {
  if (data.kind == DataKind::kTokens) {
    throw ConfigError(
        "", "data.kind",
        "is tokens, so the run has no tokenizer for a prompt; allowed: a run on texts");
  }
  if (is_continued(data.kind)) return continued(data, tokenizer, text);
  const std::string line =
      record_of(data, text).dump(-1, ' ', false, json::error_handler_t::replace);
  RecordFile file("prompt.jsonl", line);
  RawRecord raw;
  file.next(raw);
  Record record(file);
  record.parse(raw);
  Document document;
  make_document_maker({data, tokenizer, chat_template})->append(record, document);
  Prompt prompt{.ids = {}, .end = tokenizer.ends().end};
  for (const uint32_t token : document) {
    if ((token & kTrainedOn) != 0) break;
    prompt.ids.push_back(static_cast<int32_t>(token_id(token)));
  }
  if (prompt.ids.empty()) {
    throw ConfigError("", "", "the prompt makes no token before the answer; give another prompt");
  }
  // The last token that is trained on ends the answer, unless it is the answer.
  const auto last = static_cast<int32_t>(token_id(document.back()));
  if ((document.back() & kTrainedOn) != 0 && tokenizer.decode(std::array{last}).empty()) {
    prompt.end = last;
  }
  return prompt;
}

}  // namespace fsdp
