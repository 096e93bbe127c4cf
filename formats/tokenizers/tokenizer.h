#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fsdp {

// An added token in a text, including the white space that it takes.
struct PlacedToken {
  std::string_view text;
  int32_t id = 0;
  bool is_special = false;
};

// Converts text to the same token ids as Hugging Face's tokenizers, and back. Several threads may
// use one tokenizer.
//
// To add a kind of tokenizer, such as tiktoken: write a reader like
// formats/tokenizers/tiktoken.cpp. A byte pair encoding fills BpeParts
// (formats/tokenizers/bpe_tokenizer.h); another kind implements this class.
// formats/tokenizers/tokenizer.cpp recognizes the file. Tests: tests/contract/tokenizer_test.cpp,
// tests/fuzz/fuzz_tokenizer.cpp, tests/tokenizers/test_parity.py (the library to agree with).
class Tokenizer {
 public:
  // The tokens at the beginning and end of a sequence, and the one that fills it up, if the
  // tokenizer's files name them. The flags say whether transformers' encode(text) adds them.
  struct Ends {
    std::optional<int32_t> begin;
    std::optional<int32_t> end;
    std::optional<int32_t> padding;
    bool adds_begin = false;
    bool adds_end = false;
  };

  virtual ~Tokenizer() = default;

  // All ids are lower, including those of added tokens.
  virtual int64_t vocab_size() const = 0;
  // Appends the ids of `text`, which is UTF-8, without begin and end. Text that looks like a
  // special token ("<|eot_id|>") is plain text.
  void encode(std::string_view text, std::vector<int32_t>& ids) const {
    encode_text(text, /*with_special=*/false, ids);
  }
  // Appends the ids that transformers' encode(text, add_special_tokens=False) gives. Special tokens
  // in the text become their ids.
  void encode_with_special(std::string_view text, std::vector<int32_t>& ids) const {
    encode_text(text, /*with_special=*/true, ids);
  }
  // Returns the text of the ids, as transformers' decode(ids, skip_special_tokens=True) does. Bytes
  // that are not UTF-8 become U+FFFD. Ids of no token are left out.
  std::string decode(std::span<const int32_t> ids) const {
    return decode_ids(ids, /*with_special=*/false);
  }
  // Like decode(), with special tokens as they look in texts.
  std::string decode_with_special(std::span<const int32_t> ids) const {
    return decode_ids(ids, /*with_special=*/true);
  }
  // Finds the added tokens at which encode_with_special() splits `text`, in order. Leaves out
  // tokens that are found only after a normalizer has changed the text.
  virtual std::vector<PlacedToken> added_tokens_in(std::string_view text) const = 0;
  // The id of a whole piece of the vocabulary, or of an added token.
  virtual std::optional<int32_t> id_of(std::string_view token) const = 0;
  virtual const Ends& ends() const = 0;

 private:
  virtual void encode_text(std::string_view text, bool with_special,
                           std::vector<int32_t>& ids) const = 0;
  virtual std::string decode_ids(std::span<const int32_t> ids, bool with_special) const = 0;
};

// Opens a SentencePiece model, a tokenizer.json, Llama 3's tiktoken file, or a Hugging Face folder
// with one of them. Throws ConfigError (place: the file) if that fails. encode() and
// encode_with_special() throw it if a text cannot be encoded, for example because the file's split
// pattern takes too long.
std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& path);

// The files that open_tokenizer reads.
std::vector<std::filesystem::path> tokenizer_files(const std::filesystem::path& path);

// A file, and its name in a folder for transformers: "additional_chat_templates/rag.jinja".
struct PlacedFile {
  std::string name;
  std::filesystem::path source;
  std::string text{};  // the contents if `source` is empty

  bool operator==(const PlacedFile&) const = default;
};

// True if a tokenizer of transformers may read the file of this name in its folder.
bool is_of_tokenizer(std::string_view name);
inline constexpr const char* kMoreTemplates = "additional_chat_templates";

// Returns the files with which transformers reads texts as open_tokenizer(path) does. If `path` is
// a file, its name becomes tokenizer.json, or that of a SentencePiece model. Adds a
// tokenizer_config.json if there is none. Leaves out files that cannot be read. Empty if there is
// no tokenizer. Empty for a tiktoken file alone, too: transformers cannot know its special tokens.
std::vector<PlacedFile> transformers_files(const std::filesystem::path& path, bool is_t5);

// A tokenizer's chat template, in the language of jinja2.
struct ChatTemplate {
  std::filesystem::path file;  // where it stands
  std::string text;
  std::map<std::string, std::string> variables;  // bos_token, eos_token, ...
};

// The template that transformers uses for the tokenizer at `path`: chat_template.jinja, else
// `chat_template` of tokenizer_config.json. nullopt if `path` is not a folder, or has neither.
// Throws ConfigError (place: the file, with the key).
std::optional<ChatTemplate> read_chat_template(const std::filesystem::path& path);

// The files that read_chat_template() reads and open_tokenizer() does not.
std::vector<std::filesystem::path> chat_template_files(const std::filesystem::path& path);

}  // namespace fsdp
