#include <cstdlib>
#include <deque>
#include <vector>

#include "contract/data/document_maker.h"
#include "contract/tokenizers/bpe_tokenizer.h"
#include "contract/tokenizers/tokenizer_json.h"
#include "tests/fuzz/reader.h"

namespace fsdp {
namespace {

constexpr std::string_view kTokenizer = R"({
  "model": {"type": "BPE", "byte_fallback": true, "unk_token": "?",
            "vocab": {"?": 0, "a": 1, " ": 2, " a": 3, "\n": 4}, "merges": [["\u0020", "a"]]},
  "added_tokens": [
    {"id": 5, "content": "<s>"}, {"id": 6, "content": "</s>"}, {"id": 7, "content": "<|im_start|>"},
    {"id": 8, "content": "<|im_end|>"}, {"id": 9, "content": "<|begin_of_text|>"},
    {"id": 10, "content": "<|start_header_id|>"}, {"id": 11, "content": "<|end_header_id|>"},
    {"id": 12, "content": "<|eot_id|>"}],
  "post_processor": {
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}},
               {"SpecialToken": {"id": "</s>"}}],
    "special_tokens": {"<s>": {"ids": [5]}, "</s>": {"ids": [6]}}}})";

// Of every kind of data that is made of records, with each format of chats.
std::vector<std::unique_ptr<DocumentMaker>> all_makers(const Tokenizer& tokenizer) {
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
  for (const DataSpec& kind : kinds) makers.push_back(make_document_maker(kind, tokenizer));
  return makers;
}

// Whether `maker` makes a document of the record.
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

// Each kind of data makes documents up to the first record that it refuses.
void read_documents(const char* path, std::string_view text) {
  static const BpeTokenizer tokenizer(read_tokenizer_json("tokenizer.json", kTokenizer));
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

// Records of every format, and the documents that every kind of data makes of them: of
// .json, an array or lines by the first character.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  for (const char* path : {"input.csv", "input.txt", "input.json"}) {
    fsdp::fuzz_reader(data, size, [&](std::span<const std::byte> bytes) {
      fsdp::read_documents(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    });
  }
  return 0;
}
