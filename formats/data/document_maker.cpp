#include "formats/data/document_maker.h"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/files/input_file.h"
#include "base/text/config_error.h"
#include "base/text/utf8.h"

namespace fsdp {
namespace {

constexpr size_t kMostNames = 20;  // in each TurnCounts::Names
constexpr size_t kMostOfRole = 30;
constexpr size_t kMostOfText = 500;

// Returns the role that chat formats know: "assistant" for gpt, chatgpt, model, bot and ai, "user"
// for human. Returns `role` itself if it is not known.
std::string_view known_role(std::string_view role) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kRoles{{
      {"system", "system"},
      {"user", "user"},
      {"human", "user"},
      {"assistant", "assistant"},
      {"gpt", "assistant"},
      {"chatgpt", "assistant"},
      {"model", "assistant"},
      {"bot", "assistant"},
      {"ai", "assistant"},
  }};
  std::string lower(role);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  const auto found = std::ranges::find(kRoles, lower, [](const auto& each) { return each.first; });
  return found == kRoles.end() ? role : found->second;
}

// Returns `prompt` with {instruction} and {input} replaced.
std::string filled_in(std::string_view prompt, std::string_view instruction,
                      std::string_view input) {
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
    if (fill("{instruction}", instruction) || fill("{input}", input)) continue;
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
        encode(record.text(columns_.text), ends_.adds_begin);
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
    encode(text_, /*with_begin=*/true);
    finish(0, out);
  }

  // Tokenizes prompt and answer as one text, as the code of Stanford Alpaca and Lit-GPT does. The
  // first tokens, as many as the prompt alone has, are not trained on.
  void append_instruction(const Record& record, Document& out) {
    const std::string_view instruction = record.text(columns_.instruction);
    const std::string_view input = record.text_or_empty(columns_.input);
    const std::string_view output = record.text(columns_.output);
    text_ = filled_in(input.empty() ? data_.prompt.without_input : data_.prompt.with_input,
                      instruction, input);
    encode(text_, ends_.adds_begin);
    const size_t untrained = ids_.size();
    text_ += output;
    encode(text_, ends_.adds_begin);
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
    encode(text_, /*with_begin=*/false);
    if (std::ssize(ids_) > length - 1) ids_.resize(static_cast<size_t>(length - 1));
    ids_.push_back(*ends_.end);
    append_tokens(ids_, flag, out);
  }

  void encode(std::string_view text, bool with_begin) {
    ids_.clear();
    if (with_begin) ids_.push_back(*ends_.begin);
    tokenizer_.encode(text, ids_);
  }

  // Appends the tokens, and the end token if there is one. The first `untrained` are not trained
  // on.
  void finish(size_t untrained, Document& out) {
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

void TurnCounts::Names::add(std::string_view name, int64_t count) {
  counts[name.empty() ? "''" : shortened(name, kMostOfRole)] += count;
  if (counts.size() <= kMostNames) return;
  const auto last = std::prev(counts.end());
  dropped += last->second;
  counts.erase(last);
}

void TurnCounts::Names::add(const Names& other) {
  for (const auto& [name, count] : other.counts) add(name, count);
  dropped += other.dropped;
}

void TurnCounts::Names::append_to(std::string& text, std::string separator,
                                  const char* ending) const {
  std::vector<std::pair<std::string, int64_t>> all(counts.begin(), counts.end());
  std::ranges::stable_sort(all, std::greater(), &std::pair<std::string, int64_t>::second);
  if (dropped > 0) all.emplace_back("of other names", dropped);
  for (const auto& [name, count] : all) {
    text += std::exchange(separator, ", ") + std::to_string(count) + ' ' + name + ending;
  }
}

std::string_view TurnCounts::add_turn(std::string_view role) {
  const std::string_view known = known_role(role);
  (known == "assistant" ? answers_ : others_).add(role, 1);
  return known;
}

void TurnCounts::add(const TurnCounts& other) {
  answers_.add(other.answers_);
  others_.add(other.others_);
  unread_keys_.add(other.unread_keys_);
  answers_without_end_ += other.answers_without_end_;
}

std::string TurnCounts::text() const {
  std::string text;
  answers_.append_to(text, "", " (trained on)");
  others_.append_to(text, text.empty() ? "" : ", ");
  if (answers_without_end_ > 0) {
    text += "; no token ends " + std::to_string(answers_without_end_) + " of the answers";
  }
  unread_keys_.append_to(text, "; not read: ");
  return shortened(text, kMostOfText);
}

void require_answers(const std::filesystem::path& file, const TurnCounts& turns) {
  if (turns.empty() || turns.has_answers()) return;
  refuse_file(file, "has no answer to train on; its turns: " + turns.text() +
                        "; needed: turns of the role assistant (gpt, chatgpt, model, bot and ai "
                        "are read as it, human as user)");
}

int32_t needed_token(const std::optional<int32_t>& id, const std::string& what,
                     const DataSpec& data) {
  if (id) return *id;
  throw ConfigError("", "data.tokenizer",
                    "has no token for " + what + ", which data.kind " +
                        std::string(name_of(data.kind)) + " needs");
}

std::unique_ptr<DocumentMaker> make_document_maker(const DocumentParts& parts) {
  if (parts.data.kind == DataKind::kMessages) return make_chat_maker(parts);
  return std::make_unique<TextMaker>(parts.data, parts.tokenizer);
}

}  // namespace fsdp
