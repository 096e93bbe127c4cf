#pragma once

#include <memory>
#include <optional>

#include "contract/data/document.h"
#include "contract/data/records.h"
#include "contract/data/turn_counts.h"
#include "contract/spec/data_spec.h"
#include "contract/tokenizers/chat_template.h"
#include "contract/tokenizers/tokenizer.h"

// How the kinds of data make documents of records.
namespace fsdp {

class DocumentMaker {
 public:
  virtual ~DocumentMaker() = default;
  // Appends the document of `record` to `out`. Throws ConfigError (place: file:line) when the
  // record lacks something.
  virtual void append(const Record& record, Document& out) = 0;
  // The turns of all records so far; none unless the records are chats.
  virtual TurnCounts turns() const { return {}; }
};

// What turns records to documents. `chat_template` writes chats that have no data.format.
struct DocumentParts {
  const DataSpec& data;
  const Tokenizer& tokenizer;
  const std::optional<ChatTemplate>& chat_template;
};

// For one thread; `parts` outlive it. Throws ConfigError (place: empty, key: data.tokenizer) when
// the tokenizer lacks a token that the kind needs, and (key: data.format) for chats without a
// format and a template.
std::unique_ptr<DocumentMaker> make_document_maker(const DocumentParts& parts);

// The same for data.kind messages.
std::unique_ptr<DocumentMaker> make_chat_maker(const DocumentParts& parts);

// The id that `token` has. Throws ConfigError (key: data.tokenizer) when it has none.
int32_t needed_token(const std::optional<int32_t>& id, const std::string& what,
                     const DataSpec& data);

inline void append_tokens(const std::vector<int32_t>& ids, uint32_t flag, Document& out) {
  for (const int32_t id : ids) out.push_back(static_cast<uint32_t>(id) | flag);
}

}  // namespace fsdp
