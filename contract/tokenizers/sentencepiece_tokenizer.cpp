#include "contract/tokenizers/sentencepiece_tokenizer.h"

#include <sentencepiece_processor.h>

#include <stdexcept>
#include <string>

#include "contract/files/input_file.h"

namespace fsdp {
namespace {

class SentencePieceTokenizer : public Tokenizer {
 public:
  explicit SentencePieceTokenizer(const std::filesystem::path& file) {
    const auto status = processor_.LoadFromSerializedProto(map_input_file(file)->text());
    if (!status.ok()) {
      refuse_file(file, "is no SentencePiece model, or a damaged one (" + status.ToString() + ")");
    }
    const auto piece = [](int id) { return id < 0 ? std::nullopt : std::optional<int32_t>(id); };
    ends_ = {.begin = piece(processor_.bos_id()),
             .end = piece(processor_.eos_id()),
             .padding = piece(processor_.pad_id()),
             .adds_begin = processor_.bos_id() >= 0,
             .adds_end = processor_.bos_id() < 0 && processor_.eos_id() >= 0};
  }

  int64_t vocab_size() const override { return processor_.GetPieceSize(); }

  void encode(std::string_view text, std::vector<int32_t>& ids) const override {
    std::vector<int> pieces;
    const auto status = processor_.Encode(text, &pieces);
    if (!status.ok()) throw std::runtime_error("SentencePiece: " + status.ToString());
    ids.insert(ids.end(), pieces.begin(), pieces.end());
  }

  void encode_with_special(std::string_view text, std::vector<int32_t>& ids) const override {
    encode(text, ids);
  }

  std::optional<int32_t> id_of(std::string_view token) const override {
    const int id = processor_.PieceToId(token);
    if (processor_.IdToPiece(id) != token) return std::nullopt;
    return id;
  }

  const Ends& ends() const override { return ends_; }

 private:
  sentencepiece::SentencePieceProcessor processor_;
  Ends ends_;
};

}  // namespace

std::unique_ptr<Tokenizer> open_sentencepiece(const std::filesystem::path& file) {
  return std::make_unique<SentencePieceTokenizer>(file);
}

}  // namespace fsdp
