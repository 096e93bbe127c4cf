#include <cstdlib>
#include <deque>
#include <vector>

#include "formats/data/document_maker.h"
#include "tests/fuzz/reader.h"

namespace fsdp {
namespace {

// Makes one token of each byte. A text in angle brackets is one special token. Real tokenizers have
// fuzzers of their own.
class ByteTokenizer : public Tokenizer {
 public:
  int64_t vocab_size() const override { return kSpecial + 1; }
  std::vector<PlacedToken> added_tokens_in(std::string_view) const override { return {}; }
  std::optional<int32_t> id_of(std::string_view) const override { return kSpecial; }
  const Ends& ends() const override { return ends_; }

 private:
  std::string decode_ids(std::span<const int32_t>, bool) const override { return ""; }
  void encode_text(std::string_view text, bool with_special,
                   std::vector<int32_t>& ids) const override {
    if (with_special && text.starts_with('<') && text.ends_with('>')) {
      return ids.push_back(kSpecial);
    }
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  }

  static constexpr int32_t kSpecial = 256;
  Ends ends_{
      .begin = kSpecial, .end = kSpecial, .padding = {}, .adds_begin = true, .adds_end = true};
};

// Makers for every kind of data with records, and for each format of chats.
std::vector<std::unique_ptr<DocumentMaker>> all_makers(const Tokenizer& tokenizer) {
  static const std::optional<ChatTemplate> kNoTemplate;
  static std::deque<DataSpec> kinds;
  for (const DataKind kind :
       {DataKind::kChess, DataKind::kText, DataKind::kInstructions, DataKind::kWikihow}) {
    kinds.emplace_back().kind = kind;
  }
  for (const ChatFormat format :
       {ChatFormat::kLlama2, ChatFormat::kLlama3, ChatFormat::kChatml, ChatFormat::kMistral}) {
    kinds.emplace_back().kind = DataKind::kMessages;
    kinds.back().format = format;
  }
  std::vector<std::unique_ptr<DocumentMaker>> makers;
  for (const DataSpec& kind : kinds) {
    makers.push_back(make_document_maker({kind, tokenizer, kNoTemplate}));
  }
  return makers;
}

// True if `maker` makes a document of the record.
bool accepts(DocumentMaker& maker, const Record& record, const Tokenizer& tokenizer) {
  Document document;
  try {
    maker.append(record, document);
  } catch (const ConfigError&) {
    return false;
  }
  for (const uint32_t token : document) {
    if (token_id(token) >= tokenizer.vocab_size()) std::abort();
  }
  return true;
}

// Gives every record to each maker of documents, until the maker refuses a record.
void read_documents(const char* path, std::string_view text) {
  static const ByteTokenizer tokenizer;
  static const auto makers = all_makers(tokenizer);
  std::vector<DocumentMaker*> accepting;
  for (const auto& maker : makers) accepting.push_back(maker.get());
  RecordFile file(path, text);
  Record record(file);
  RawRecord raw;
  while (file.next(raw)) {
    record.parse(raw);
    std::erase_if(accepting, [&](auto* maker) { return !accepts(*maker, record, tokenizer); });
  }
  if (file.read_bytes() != file.size_bytes()) std::abort();
}

}  // namespace
}  // namespace fsdp

// Reads the input as records of each format, and makes documents of every kind of data. The first
// character of the .json decides whether it is an array or lines.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  for (const char* path : {"input.csv", "input.txt", "input.json"}) {
    fsdp::fuzz_reader(data, size, [&](std::span<const std::byte> bytes) {
      fsdp::read_documents(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    });
  }
  return 0;
}
