#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "contract/spec/data_spec.h"
#include "formats/data/document.h"
#include "formats/data/record_counts.h"
#include "formats/data/records.h"
#include "formats/tokenizers/tokenizer.h"

// Makes documents of records, for each kind of data.
namespace fsdp {

class DocumentMaker {
 public:
  virtual ~DocumentMaker() = default;
  // Appends the document of `record` to `out`. Throws ConfigError (place: file:line) if the record
  // lacks a column or is a malformed chat.
  virtual void append(const Record& record, Document& out) = 0;
  // Counts of all records so far.
  const RecordCounts& counts() const { return counts_; }

 protected:
  RecordCounts counts_;
};

// The settings that turn records into documents. `chat_template` writes chats if data.format is
// absent.
struct DocumentParts {
  const DataSpec& data;
  const Tokenizer& tokenizer;
  const std::optional<ChatTemplate>& chat_template;
};

// Makes a maker for one thread; `parts` must outlive it. Throws ConfigError (place: empty, key:
// data.tokenizer) if the tokenizer lacks a token that the kind needs. Throws ConfigError (key:
// data.format) for chats with neither a format nor a template.
std::unique_ptr<DocumentMaker> make_document_maker(const DocumentParts& parts);

// The same for data.kind messages, and for its format mistral.
std::unique_ptr<DocumentMaker> make_chat_maker(const DocumentParts& parts);
std::unique_ptr<DocumentMaker> make_mistral_maker(const DocumentParts& parts);

// Returns `id`. Throws ConfigError (key: data.tokenizer), which names `what`, if `id` is nullopt.
int32_t needed_token(const std::optional<int32_t>& id, const std::string& what,
                     const DataSpec& data);

// Counts the special tokens that encode_with_special() makes of text that looks like them.
void count_special_tokens_in(std::string_view text, const Tokenizer& tokenizer,
                             RecordCounts& counts);

inline void append_tokens(std::span<const int32_t> ids, uint32_t flag, Document& out) {
  for (const int32_t id : ids) out.push_back(static_cast<uint32_t>(id) | flag);
}

}  // namespace fsdp
