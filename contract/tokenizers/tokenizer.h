#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace fsdp {

// A SentencePiece model with pieces for the begin and the end of a sequence.
class Tokenizer {
 public:
  // Throws ConfigError (place: the file).
  explicit Tokenizer(const std::filesystem::path& path);
  ~Tokenizer();
  Tokenizer(Tokenizer&&);

  int64_t vocab_size() const;
  int64_t end_id() const;
  // Begin, the pieces of `text`, end.
  std::vector<int> encode(std::string_view text) const;

 private:
  std::unique_ptr<sentencepiece::SentencePieceProcessor> processor_;
};

}  // namespace fsdp
