#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "contract/tokenizers/added_tokens.h"
#include "contract/tokenizers/bpe.h"
#include "contract/tokenizers/split_pattern.h"
#include "contract/tokenizers/tokenizer.h"

namespace fsdp {

// A change of the text between added tokens, before it is split into words.
struct Normalization {
  enum class Kind { kNfc, kPrepend, kReplace };
  Kind kind = Kind::kNfc;
  std::string from;  // of kReplace: what becomes `to`
  std::string to;    // of kPrepend: what comes before text that is not empty
};

// A step that splits text into words: each match of the pattern, and each text between matches.
struct Split {
  SplitPattern pattern;
  bool keeps_matches = true;  // else what is matched is left out
  bool keeps_gaps = true;     // else what is between matches is left out
};

// The replacement of spaces, and the rule for a space before the first word.
struct Metaspace {
  enum class Prepend { kAlways, kFirst, kNever };
  std::string space = "▁";
  Prepend prepend = Prepend::kAlways;
};

// The parts of a BPE tokenizer, as in tokenizer.json.
struct BpeParts {
  std::filesystem::path file;  // for messages
  Vocabulary vocabulary;
  MergeTable merges{0};
  BpeRules rules;
  std::vector<AddedToken> added_tokens;
  std::vector<Normalization> normalizations;
  std::vector<Split> splits;
  bool adds_prefix_space = false;  // of byte-level words: before those that begin with none
  std::optional<Metaspace> metaspace;
  Tokenizer::Ends ends;
};

class BpeTokenizer : public Tokenizer {
 public:
  explicit BpeTokenizer(BpeParts parts);

  int64_t vocab_size() const override { return vocab_size_; }
  void encode(std::string_view text, std::vector<int32_t>& ids) const override;
  void encode_with_special(std::string_view text, std::vector<int32_t>& ids) const override;
  std::vector<PlacedToken> added_tokens_in(std::string_view text) const override;
  std::optional<int32_t> id_of(std::string_view token) const override;
  const Ends& ends() const override { return parts_.ends; }

 private:
  struct Scratch {
    Bpe::Scratch bpe;
    SplitPattern::Scratch pattern;
  };
  struct Call;

  void encode(std::string_view text, bool with_special, std::vector<int32_t>& ids) const;
  void encode_normalized(std::string_view text, Call& call) const;
  void split(size_t step, std::string_view text, Call& call) const;
  void encode_word(std::string_view word, Call& call) const;
  std::string normalized(std::string_view text) const;
  std::unique_ptr<Scratch> take_scratch() const;

  BpeParts parts_;
  Bpe bpe_;
  AddedTokens found_in_text_;
  AddedTokens found_in_normalized_;
  std::map<std::string, int32_t, std::less<>> added_ids_;
  int64_t vocab_size_ = 0;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Scratch>> unused_;  // guarded by mutex_
};

}  // namespace fsdp
