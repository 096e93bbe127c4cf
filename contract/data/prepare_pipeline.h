#pragma once

#include "contract/data/document_maker.h"
#include "contract/data/prepare.h"
#include "contract/data/turn_counts.h"

namespace fsdp {

struct WrittenDocuments {
  std::string data_digest;  // of the bytes that the records were read from
  TurnCounts turns;
};

// Writes the documents of the records of `file` in order. Threads take batches of records in turn,
// and each holds a bounded amount. Throws the error of the first record that is wrong.
WrittenDocuments write_documents(const std::filesystem::path& file, const DocumentParts& parts,
                                 PreparedWriter& writer, const PrepareOptions& options);

}  // namespace fsdp
