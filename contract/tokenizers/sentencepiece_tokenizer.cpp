#include "contract/tokenizers/sentencepiece_tokenizer.h"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <exception>
#include <map>
#include <mutex>
#include <string>

#include "contract/files/input_file.h"
#include "contract/tokenizers/sentencepiece_model.h"

namespace fsdp {
namespace {

constexpr int32_t kSentinelsOfT5 = 100;

// A ModelProto's normalizer_spec { add_dummy_prefix: false }. Appended to a serialized message it
// overrules the message, because protobuf merges messages that follow each other.
constexpr std::string_view kWithoutPrefix("\x1A\x02\x18\x00", 4);

class SentencePieceTokenizer : public Tokenizer {
 public:
  SentencePieceTokenizer(const std::filesystem::path& file, std::string_view contents,
                         const FolderSettings& settings)
      : file_(file), contents_(contents), vocab_size_(0) {
    load(contents_, processor_);
    vocab_size_ = processor_.GetPieceSize();
    const bool is_t5 = settings.is_t5 || file.filename() == "spiece.model";
    prepend_ = settings.metaspace ? settings.metaspace->prepend
               : is_t5            ? Metaspace::Prepend::kAlways
                                  : Metaspace::Prepend::kFirst;
    add_tokens(settings, is_t5);
    read_ends(settings, is_t5);
    found_in_text_ = AddedTokens(added_tokens_);
  }

  int64_t vocab_size() const override { return vocab_size_; }

  void encode(std::string_view text, std::vector<int32_t>& ids) const override {
    encode(text, false, ids);
  }

  void encode_with_special(std::string_view text, std::vector<int32_t>& ids) const override {
    encode(text, true, ids);
  }

  std::vector<PlacedToken> added_tokens_in(std::string_view text) const override {
    std::vector<PlacedToken> placed;
    found_in_text_.split(
        text, true, [](std::string_view) {},
        [&](const PlacedToken& token) { placed.push_back(token); });
    return placed;
  }

  std::optional<int32_t> id_of(std::string_view token) const override {
    if (const auto added = added_ids_.find(token); added != added_ids_.end()) return added->second;
    const int id = processor_.PieceToId(token);
    if (processor_.IdToPiece(id) != token) return std::nullopt;
    return id;
  }

  const Ends& ends() const override { return ends_; }

 private:
  using Processor = sentencepiece::SentencePieceProcessor;

  int32_t add_token(AddedToken token) {
    const auto [place, is_new] = added_ids_.emplace(token.text, token.id);
    if (is_new) {
      vocab_size_ = std::max<int64_t>(vocab_size_, token.id + 1);
      added_tokens_.push_back(std::move(token));
    }
    return place->second;
  }

  void add_tokens(const FolderSettings& settings, bool is_t5) {
    for (int id = 0; id < processor_.GetPieceSize(); ++id) {
      if (processor_.IsControl(id) || processor_.IsUnknown(id)) {
        add_token({.text = processor_.IdToPiece(id), .id = id, .is_special = true});
      }
    }
    const int64_t pieces = vocab_size_;
    for (AddedToken token : settings.added_tokens) {
      const auto piece = id_of(token.text);
      if (piece) token.id = *piece;
      if (piece || token.id >= pieces) add_token(std::move(token));
    }
    if (!is_t5) return;
    const int32_t sentinels = settings.extra_ids.value_or(kSentinelsOfT5);
    for (int32_t i = 0; i < sentinels; ++i) {
      add_token({.text = "<extra_id_" + std::to_string(i) + ">",
                 .id = static_cast<int32_t>(pieces) + sentinels - 1 - i,
                 .is_special = true});
    }
  }

  void read_ends(const FolderSettings& settings, bool is_t5) {
    const auto id_or = [&](const std::optional<std::string>& text,
                           int piece) -> std::optional<int32_t> {
      if (!text) return piece < 0 ? std::nullopt : std::optional<int32_t>(piece);
      if (const auto id = id_of(*text)) return id;
      // The token is new and gets the next id, as in transformers.
      return add_token(
          {.text = *text, .id = static_cast<int32_t>(vocab_size_), .is_special = true});
    };
    ends_.begin = id_or(settings.begin, processor_.bos_id());
    ends_.end = id_or(settings.end, processor_.eos_id());
    ends_.padding = id_or(settings.padding, processor_.pad_id());
    const bool begins = ends_.begin && !is_t5;
    ends_.adds_begin = settings.adds_begin.value_or(begins) && ends_.begin;
    ends_.adds_end = settings.adds_end.value_or(!begins) && ends_.end;
  }

  void encode(std::string_view text, bool with_special, std::vector<int32_t>& ids) const {
    bool is_first = true;
    found_in_text_.split(
        text, with_special,
        [&](std::string_view part) {
          const bool prepends = prepend_ == Metaspace::Prepend::kAlways || is_first;
          append(prepends ? processor_ : without_prefix(), part, ids);
          is_first = false;
        },
        [&](const PlacedToken& token) {
          ids.push_back(token.id);
          is_first = false;
        });
  }

  void load(std::string_view contents, Processor& processor) const {
    std::string problem;
    try {
      check_sentencepiece_model(contents);
      if (const auto status = processor.LoadFromSerializedProto(contents); !status.ok()) {
        problem = status.ToString();
      }
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {
      problem = error.what();
    }
    if (problem.empty()) return;
    refuse_file(file_, "is no SentencePiece model, or a damaged one (" + problem + ")");
  }

  void append(const Processor& processor, std::string_view text, std::vector<int32_t>& ids) const {
    std::vector<int> pieces;
    const auto status = processor.Encode(text, &pieces);
    if (!status.ok()) {
      refuse_file(file_, "cannot turn a text to tokens (" + status.ToString() + ")");
    }
    ids.insert(ids.end(), pieces.begin(), pieces.end());
  }

  // The processor for text after a token, where no space is added.
  const Processor& without_prefix() const {
    std::call_once(once_, [&] { load(contents_ + std::string(kWithoutPrefix), without_prefix_); });
    return without_prefix_;
  }

  std::filesystem::path file_;
  std::string contents_;
  Processor processor_;
  mutable std::once_flag once_;
  mutable Processor without_prefix_;
  std::vector<AddedToken> added_tokens_;
  std::map<std::string, int32_t, std::less<>> added_ids_;
  AddedTokens found_in_text_;
  Ends ends_;
  int64_t vocab_size_;
  Metaspace::Prepend prepend_;
};

}  // namespace

std::unique_ptr<Tokenizer> open_sentencepiece(const std::filesystem::path& file,
                                              std::string_view contents,
                                              const FolderSettings& settings) {
  return std::make_unique<SentencePieceTokenizer>(file, contents, settings);
}

}  // namespace fsdp
