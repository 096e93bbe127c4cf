#include "contract/tokenizers/tokenizer.h"

#include <sentencepiece_processor.h>

#include <stdexcept>
#include <string>

#include "contract/files/input_file.h"

namespace fsdp {

Tokenizer::Tokenizer(const std::filesystem::path& path)
    : processor_(std::make_unique<sentencepiece::SentencePieceProcessor>()) {
  const auto status = processor_->LoadFromSerializedProto(map_input_file(path)->text());
  if (!status.ok()) {
    refuse_file(path, "is no SentencePiece model, or a damaged one (" + status.ToString() + ")");
  }
  if (processor_->bos_id() < 0 || processor_->eos_id() < 0) {
    refuse_file(path, "has no pieces for the begin and the end of a sequence; train it with them");
  }
}

Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) = default;

int64_t Tokenizer::vocab_size() const { return processor_->GetPieceSize(); }

int64_t Tokenizer::end_id() const { return processor_->eos_id(); }

std::vector<int> Tokenizer::encode(std::string_view text) const {
  std::vector<int> ids;
  const auto status = processor_->Encode(text, &ids);
  if (!status.ok()) throw std::runtime_error("SentencePiece: " + status.ToString());
  ids.insert(ids.begin(), processor_->bos_id());
  ids.push_back(processor_->eos_id());
  return ids;
}

}  // namespace fsdp
