#pragma once

#include "contract/data/prepare.h"
#include "contract/data/turn_counts.h"
#include "contract/tokenizers/tokenizer.h"

namespace fsdp {

struct WrittenDocuments {
  std::string data_digest;  // of the bytes that the records were read from
  TurnCounts turns;
};

// Writes the documents of the source's records in their order. Threads take batches of records in
// turn; what each holds is bounded. Throws what the first record that is wrong throws.
WrittenDocuments write_documents(const DataSource& source, const Tokenizer& tokenizer,
                                 PreparedWriter& writer, const PrepareOptions& options);

}  // namespace fsdp
