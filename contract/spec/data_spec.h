#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/text/fields.h"

// The section `data` of a run.
namespace fsdp {

// To add a kind of data, such as kWikihow: add its name here and to the sentence of `kind`.
// TextMaker (formats/data/document_maker.cpp) makes its tokens, and formats/data/prompt.cpp the
// prompts of `sample`. Checks, prepared files and rows follow. formats/inputs/inputs.cpp names an
// encoder's input. tests/data/test_prepared.py compares the tokens with public libraries. Damaged
// files are in tests/hostile/kinds/texts.py and tests/fuzz/fuzz_records.cpp. docs/file-formats.md
// describes it. Another format of files is read in formats/data/records.cpp, or in
// formats/data/token_files.cpp.
enum class DataKind { kTokens, kChess, kText, kInstructions, kMessages, kWikihow };
enum class RowFill { kPad, kPadToLongest, kPack };
enum class ChatFormat { kLlama2, kLlama3, kChatml, kMistral };
enum class TokenDtype { kUint16, kUint32 };

constexpr auto enum_names(DataKind) {
  return std::array{"tokens"sv, "chess"sv, "text"sv, "instructions"sv, "messages"sv, "wikihow"sv};
}
constexpr auto enum_names(RowFill) { return std::array{"pad"sv, "pad_to_longest"sv, "pack"sv}; }
constexpr auto enum_names(ChatFormat) {
  return std::array{"llama2"sv, "llama3"sv, "chatml"sv, "mistral"sv};
}
constexpr auto enum_names(TokenDtype) { return std::array{"uint16"sv, "uint32"sv}; }

// The prompt of `data.kind: instructions`; the defaults are Stanford Alpaca's.
struct TemplateSpec {
  std::string with_input =
      "{system|Below is an instruction that describes a task, paired with an input that provides "
      "further context. Write a response that appropriately completes the request.}\n\n"
      "### Instruction:\n{instruction}\n\n### Input:\n{input}\n\n### Response:";
  std::string without_input =
      "{system|Below is an instruction that describes a task. Write a response that appropriately "
      "completes the request.}\n\n### Instruction:\n{instruction}\n\n### Response:";

  bool operator==(const TemplateSpec&) const = default;

  static void visit_fields(auto& self, auto&& visit) {
    visit("with_input", self.with_input,
          "Prompt of a record with an input; {instruction}, {input} and {system} stand for the "
          "record's, {system|text} for text in a record without a system.");
    visit("without_input", self.without_input,
          "Prompt of a record whose input is missing or empty; the same, without {input}.");
  }
};

// The column names of records in the file.
struct ColumnsSpec {
  std::string text = "text";
  std::string instruction = "instruction";
  std::string input = "input";
  std::string output = "output";
  std::string system = "system";
  std::string history = "history";
  std::string headline = "headline";
  std::string moves = "Moves";
  std::string termination = "Termination";
  std::string result = "Result";
  std::string messages;
  std::string role;
  std::string content;

  bool operator==(const ColumnsSpec&) const = default;

  static void visit_fields(auto& self, auto&& visit) {
    visit("text", self.text, "Of kinds text and wikihow: the text.");
    visit("instruction", self.instruction, "Of kind instructions: the instruction.");
    visit("input", self.input, "Of kind instructions: its input, which may be missing.");
    visit("output", self.output, "Of kind instructions: the answer.");
    visit("system", self.system,
          "Of kinds instructions and messages: the system's text, which may be missing.");
    visit(
        "history", self.history,
        "Of kind instructions: a list of the questions and answers before, which may be missing.");
    visit("headline", self.headline, "Of kind wikihow: the summary.");
    visit("moves", self.moves, "Of kind chess: the moves.");
    visit("termination", self.termination, "Of kind chess: how the game ended.");
    visit("result", self.result, "Of kind chess: the result.");
    visit("messages", self.messages,
          "Of kind messages: the list of turns; absent: messages, else conversations.");
    visit("role", self.role, "Who says a turn; absent: role, else from.");
    visit("content", self.content, "What a turn says; absent: content, else value.");
  }
};

struct DataSpec {
  DataKind kind = DataKind::kChess;
  std::filesystem::path train;
  std::filesystem::path tokenizer;
  std::optional<int64_t> max_documents;
  int64_t sequence_length = 256;
  bool shuffle = true;
  RowFill rows = RowFill::kPad;
  TemplateSpec prompt;
  bool split_special_tokens = false;
  std::optional<ChatFormat> format;
  std::string prefix = "summarize: ";
  int64_t input_length = 512;
  int64_t target_length = 150;
  ColumnsSpec columns;
  std::optional<TokenDtype> token_dtype;

  bool operator==(const DataSpec&) const = default;

  static void visit_fields(auto& self, auto&& visit) {
    visit(
        "kind", self.kind,
        "tokens: token ids, a .npy array [rows, sequence_length + 1] or a flat .bin; chess: games "
        "with columns Moves, Termination, Result; text: a column text, or lines of .txt; "
        "instructions: instruction, input, output, trained on the output; messages: chats, "
        "trained on the assistant's turns; wikihow: headline and text, for summaries.");
    visit("train", self.train, "Training set; chess: the shipped games when absent.",
          path_or(HubNames::kFile));
    visit("tokenizer", self.tokenizer,
          "Tokenizer's file or folder; absent: the shipped one for chess, else model.source's.",
          path_or(HubNames::kTokenizer));
    visit("max_documents", self.max_documents,
          "Only so many documents of each file are read, from its beginning; not for kind tokens.",
          from_to(1, 1e12));
    visit("sequence_length", self.sequence_length, "Tokens the model reads per sequence.",
          from_to(1, 1e8));
    visit("shuffle", self.shuffle, "New order each epoch, from train.seed; false: as stored.");
    visit(
        "rows", self.rows,
        "How documents become rows. pad: each row holds one document and is filled up to "
        "sequence_length; pad_to_longest: it is filled up only to the longest document of the "
        "micro-batch; pack: each row holds as many documents as fit, and attention stays within a "
        "document.");
    visit("template", self.prompt, "The prompt of kind instructions.");
    visit(
        "split_special_tokens", self.split_special_tokens,
        "A text that looks like a special token, such as <|im_end|>, is text; else it becomes the "
        "token. Not for kind messages.");
    visit("format", self.format,
          "How kind messages writes a chat for the model; absent: by the chat template of the "
          "tokenizer's folder.");
    visit("prefix", self.prefix, "What kind wikihow puts before an article.");
    visit("input_length", self.input_length, "Most tokens of kind wikihow's articles.",
          from_to(1, 1e6));
    visit("target_length", self.target_length, "Most tokens of kind wikihow's summaries.",
          from_to(1, 1e6));
    visit("columns", self.columns,
          "The names of the records' columns, where they are others: {instruction: prompt, output: "
          "completion}.");
    visit(
        "token_dtype", self.token_dtype,
        "The type of the token ids in a .bin file of kind tokens; absent: uint16, or uint32 if the "
        "vocabulary is above 65,536.");
  }
};

}  // namespace fsdp
