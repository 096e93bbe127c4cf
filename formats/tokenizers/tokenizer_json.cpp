// Reads tokenizer.json. A step that is not supported is refused by its key.
#include <set>

#include "base/files/input_file.h"
#include "base/text/utf8.h"
#include "formats/tokenizers/bpe_tokenizer.h"

namespace fsdp {
namespace {

constexpr size_t kLargestTokenizerBytes = 64 << 20;

// GPT-2's split into words, the default of byte-level tokenizers.
constexpr std::string_view kByteLevelPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

void read_normalizer(const JsonPart& part, BpeParts& parts) {
  if (part.is_null()) return;
  const std::string type = part.type();
  if (type == "Sequence") {
    for (const JsonPart& each : part.at("normalizers").elements()) read_normalizer(each, parts);
  } else if (type == "NFC") {
    parts.normalizations.push_back({.kind = Normalization::Kind::kNfc, .from = {}, .to = {}});
  } else if (type == "Prepend") {
    parts.normalizations.push_back(
        {.kind = Normalization::Kind::kPrepend, .from = {}, .to = part.at("prepend").text()});
  } else if (type == "Replace") {
    const std::string from = part.at("pattern").at("String").text();
    if (from.empty()) part.at("pattern").refuse("is an empty text");
    parts.normalizations.push_back(
        {.kind = Normalization::Kind::kReplace, .from = from, .to = part.at("content").text()});
  } else {
    part.at("type").refuse_value("Sequence, NFC, Prepend, Replace");
  }
}

SplitPattern read_pattern(const JsonPart& part, const std::string& pattern) {
  try {
    return SplitPattern(pattern);
  } catch (const std::invalid_argument& error) {
    part.refuse(error.what());
  }
}

// Returns the regular expression that matches exactly this text.
std::string quoted(const std::string& text) {
  std::string pattern;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x80 && !std::isalnum(static_cast<unsigned char>(c))) {
      pattern += '\\';
    }
    pattern += c;
  }
  return pattern;
}

Split read_split(const JsonPart& part) {
  const JsonPart pattern = part.at("pattern");
  const bool is_regex = !pattern.at("Regex").is_null();
  const JsonPart written = pattern.at(is_regex ? "Regex" : "String");
  const std::string text = written.text();
  if (text.empty()) written.refuse("is an empty text");
  Split split{.pattern = read_pattern(written, is_regex ? text : quoted(text))};
  const std::string behavior = part.at("behavior").text();
  if (behavior != "Isolated" && behavior != "Removed") {
    part.at("behavior").refuse_value("Isolated, Removed");
  }
  if (behavior == "Removed") {
    (part.at("invert").flag(false) ? split.keeps_gaps : split.keeps_matches) = false;
  }
  return split;
}

Metaspace read_metaspace(const JsonPart& part) {
  Metaspace metaspace;
  metaspace.space = part.at("replacement").text();
  if (part.at("split").flag(true)) part.at("split").refuse_value("false");
  const JsonPart scheme = part.at("prepend_scheme");
  const std::string text = scheme.is_null() ? "always" : scheme.text();
  if (text == "first") {
    metaspace.prepend = Metaspace::Prepend::kFirst;
  } else if (text == "never") {
    metaspace.prepend = Metaspace::Prepend::kNever;
  } else if (text != "always") {
    scheme.refuse_value("always, first, never");
  }
  return metaspace;
}

void read_pre_tokenizer(const JsonPart& part, bool is_last, BpeParts& parts) {
  if (part.is_null()) return;
  const std::string type = part.type();
  if (type == "Sequence") {
    const auto steps = part.at("pretokenizers").elements();
    for (size_t i = 0; i < steps.size(); ++i) {
      read_pre_tokenizer(steps[i], is_last && i + 1 == steps.size(), parts);
    }
  } else if (type == "ByteLevel") {
    if (!is_last) part.refuse("is followed by another; allowed: as the last");
    parts.alphabet = Alphabet::kBytes;
    parts.adds_prefix_space = part.at("add_prefix_space").flag(true);
    if (!part.at("use_regex").flag(true)) return;
    if (parts.adds_prefix_space) {
      part.at("add_prefix_space").refuse_value("false, as use_regex is true");
    }
    parts.splits.push_back({.pattern = SplitPattern(kByteLevelPattern)});
  } else if (type == "Split") {
    parts.splits.push_back(read_split(part));
  } else if (type == "Digits") {
    const bool one_by_one = part.at("individual_digits").flag(false);
    parts.splits.push_back({.pattern = SplitPattern(one_by_one ? R"(\p{N})" : R"(\p{N}+)")});
  } else if (type == "Metaspace" && is_last && parts.splits.empty()) {
    parts.metaspace = read_metaspace(part);
  } else {
    part.at("type").refuse_value("Sequence, ByteLevel, Split, Digits, and Metaspace alone");
  }
}

void read_vocabulary(const JsonPart& part, BpeParts& parts) {
  if (!part.value().is_object()) part.refuse_value("an object of pieces and their ids");
  std::set<int32_t> seen;
  parts.vocabulary.reserve(part.value().size());
  for (const auto& [piece, id] : part.value().items()) {
    const int32_t value = part.at(piece).token_id();
    if (!seen.insert(value).second) {
      part.at(piece).refuse("has the id " + std::to_string(value) + ", as another piece has");
    }
    // A piece without bytes, such as a special token, is left out, because no merge makes it.
    const auto bytes = bytes_of_piece(piece, parts.alphabet);
    if (bytes) parts.vocabulary.emplace(*bytes, value);
  }
}

std::pair<std::string, std::string> read_pair(const JsonPart& merge) {
  if (merge.value().is_array()) {
    const auto both = merge.elements();
    if (both.size() != 2) merge.refuse_value("two pieces");
    return {both[0].text(), both[1].text()};
  }
  const std::string text = merge.text();
  const size_t space = text.find(' ');
  if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
    merge.refuse_value("two pieces with a space between");
  }
  return {text.substr(0, space), text.substr(space + 1)};
}

void read_merges(const JsonPart& part, BpeParts& parts) {
  const auto merges = part.elements();
  parts.merges.reserve(merges.size());
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const auto id_of = [&](const std::string& piece) {
      const auto bytes = bytes_of_piece(piece, parts.alphabet);
      const auto found = bytes ? parts.vocabulary.find(*bytes) : parts.vocabulary.end();
      if (found == parts.vocabulary.end()) {
        merges[rank].refuse("names '" + visible_line(shortened(piece, 80)) +
                            "', which is not in model.vocab");
      }
      return found->second;
    };
    const auto [left, right] = read_pair(merges[rank]);
    const int32_t left_id = id_of(left);
    const int32_t right_id = id_of(right);
    parts.merges.insert_or_assign(
        pair_of(left_id, right_id),
        Merge{.rank = static_cast<int32_t>(rank), .id = id_of(left + right)});
  }
}

// Reads the settings of `model` other than its pieces and merges.
void read_rules(const JsonPart& model, BpeParts& parts) {
  for (const char* const name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const JsonPart affix = model.at(name);
    if (!affix.is_null() && !affix.text().empty()) affix.refuse_value("null");
  }
  const JsonPart dropout = model.at("dropout");
  if (!dropout.is_null() && dropout.value() != 0.0) dropout.refuse_value("null");
  parts.whole_words_first = model.at("ignore_merges").flag(false);
  parts.fuse_unknown = model.at("fuse_unk").flag(false);
}

void read_unknown(const JsonPart& model, BpeParts& parts) {
  const JsonPart unknown = model.at("unk_token");
  if (unknown.is_null()) return;
  const std::string text = unknown.text();
  const JsonPart piece = model.at("vocab").at(text);
  if (!piece.is_null()) parts.unknown = piece.token_id();
}

void read_model(const JsonPart& model, bool is_byte_level, BpeParts& parts) {
  if (model.at("type").is_null() ? model.at("merges").is_null() : model.type() != "BPE") {
    model.at("type").refuse_value("BPE; T5's Unigram is read from a spiece.model beside it");
  }
  const bool falls_back_to_bytes = model.at("byte_fallback").flag(false);
  if (is_byte_level == falls_back_to_bytes) {
    model.at("byte_fallback")
        .refuse_value(is_byte_level ? "false, as the pre_tokenizer is ByteLevel"
                                    : "true, or a pre_tokenizer that is ByteLevel");
  }
  parts.alphabet = is_byte_level ? Alphabet::kBytes : Alphabet::kCharacters;
  read_rules(model, parts);
  read_vocabulary(model.at("vocab"), parts);
  read_merges(model.at("merges"), parts);
  read_unknown(model, parts);
}

void read_added_tokens(const JsonPart& part, const JsonPart& vocabulary, BpeParts& parts) {
  if (part.is_null()) return;
  std::set<std::string> texts;
  std::set<int32_t> ids;
  for (const auto& [piece, id] : vocabulary.value().items()) ids.insert(id.get<int32_t>());
  for (const JsonPart& each : part.elements()) {
    AddedToken token = read_added_token(each);
    token.id = each.at("id").token_id();
    if (!texts.insert(token.text).second) each.at("content").refuse("is there twice");
    const JsonPart piece = vocabulary.at(token.text);
    if (piece.is_null() ? !ids.insert(token.id).second : piece.token_id() != token.id) {
      each.at("id").refuse(
          "is " + std::to_string(token.id) + ", which " +
          (piece.is_null() ? "another token has" : "is not the id that model.vocab gives it"));
    }
    parts.added_tokens.push_back(std::move(token));
  }
}

int32_t largest_id(const BpeParts& parts) {
  int32_t largest = 0;
  for (const auto& [piece, id] : parts.vocabulary) largest = std::max(largest, id);
  for (const AddedToken& token : parts.added_tokens) largest = std::max(largest, token.id);
  return largest;
}

int32_t template_token(const JsonPart& processor, const JsonPart& special, const BpeParts& parts) {
  const JsonPart ids = processor.at("special_tokens").at(special.at("id").text()).at("ids");
  const auto each = ids.elements();
  if (each.size() != 1) ids.refuse_value("one id");
  const int32_t id = each[0].token_id();
  const int32_t largest = largest_id(parts);
  if (id > largest) each[0].refuse_value("0 to " + std::to_string(largest));
  return id;
}

void read_post_processor(const JsonPart& part, BpeParts& parts) {
  if (part.is_null()) return;
  const std::string type = part.type();
  if (type == "Sequence") {
    for (const JsonPart& each : part.at("processors").elements()) read_post_processor(each, parts);
  } else if (type == "TemplateProcessing") {
    Tokenizer::Ends& ends = parts.ends;
    bool is_before = true;
    for (const JsonPart& each : part.at("single").elements()) {
      const JsonPart special = each.at("SpecialToken");
      if (special.is_null()) {
        is_before = false;
        continue;
      }
      (is_before ? ends.begin : ends.end) = template_token(part, special, parts);
      bool& adds = is_before ? ends.adds_begin : ends.adds_end;
      if (adds) each.refuse("is a second token there; allowed: one before and one after the text");
      adds = true;
    }
  } else if (type != "ByteLevel") {
    part.at("type").refuse_value("Sequence, ByteLevel, TemplateProcessing");
  }
}

// True if `pre_tokenizer`, or a step of it, is ByteLevel.
bool is_byte_level(const JsonPart& pre_tokenizer) {
  if (pre_tokenizer.is_null()) return false;
  if (pre_tokenizer.type() == "ByteLevel") return true;
  if (pre_tokenizer.type() != "Sequence") return false;
  for (const JsonPart& each : pre_tokenizer.at("pretokenizers").elements()) {
    if (is_byte_level(each)) return true;
  }
  return false;
}

}  // namespace

BpeParts read_tokenizer_json(const std::filesystem::path& file, std::string_view text) {
  const nlohmann::json document = parse_json_object(file, text, kLargestTokenizerBytes);
  const JsonPart root(file, document);
  BpeParts parts;
  parts.file = file;
  const JsonPart model = root.at("model");
  if (model.is_null()) root.refuse("has no model; is it a tokenizer.json of tokenizers?");
  read_model(model, is_byte_level(root.at("pre_tokenizer")), parts);
  read_normalizer(root.at("normalizer"), parts);
  read_pre_tokenizer(root.at("pre_tokenizer"), true, parts);
  read_added_tokens(root.at("added_tokens"), model.at("vocab"), parts);
  read_post_processor(root.at("post_processor"), parts);
  return parts;
}

}  // namespace fsdp
