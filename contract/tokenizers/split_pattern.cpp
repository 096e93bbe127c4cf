#include "contract/tokenizers/split_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <new>
#include <stdexcept>

namespace fsdp {
namespace {

constexpr size_t kLongestPattern = 1 << 16;
constexpr uint32_t kMostTries = 10'000'000;
constexpr size_t kFirstStackBytes = 32 << 10;
constexpr size_t kLargestStackBytes = 64 << 20;

// White_Space of Unicode. PCRE2's own \s has U+180E as well.
constexpr std::string_view kSpaces =
    "\\t-\\r "
    "\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";

std::string message_of(int code) {
  char text[256] = {};
  pcre2_get_error_message(code, reinterpret_cast<PCRE2_UCHAR*>(text), sizeof text);
  return text;
}

// `pattern` as PCRE2 has to read it.
std::string translated(std::string_view pattern) {
  std::string result;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char escaped = pattern[++i];
      if (escaped == 'h' || escaped == 'H' || (in_class && escaped == 'S')) {
        throw std::invalid_argument(std::string("it holds \\") + escaped +
                                    (in_class ? " in a class" : "") + ", which is not supported");
      }
      if (escaped == 's' && in_class) {
        result += kSpaces;
      } else if (escaped == 's' || escaped == 'S') {
        result.append(escaped == 's' ? "[" : "[^").append(kSpaces).append("]");
      } else {
        result.append({c, escaped});
      }
      continue;
    }
    if (in_class && (c == '[' || pattern.substr(i).starts_with("&&"))) {
      throw std::invalid_argument("it has a class within a class, which is not supported");
    }
    result += c;
    if (c == '[') {
      in_class = true;
      if (i + 1 < pattern.size() && pattern[i + 1] == '^') result += pattern[++i];
      if (i + 1 < pattern.size() && pattern[i + 1] == ']') result += pattern[++i];
    } else if (c == ']') {
      in_class = false;
    }
  }
  return result;
}

}  // namespace

SplitPattern::Scratch::Scratch()
    : match_(pcre2_match_data_create(1, nullptr)),
      context_(pcre2_match_context_create(nullptr)),
      stack_(pcre2_jit_stack_create(kFirstStackBytes, kLargestStackBytes, nullptr)) {
  if (!match_ || !context_ || !stack_) {
    this->~Scratch();
    throw std::bad_alloc();
  }
  pcre2_set_match_limit(context_, kMostTries);
  pcre2_jit_stack_assign(context_, nullptr, stack_);
}

SplitPattern::Scratch::~Scratch() {
  pcre2_jit_stack_free(stack_);
  pcre2_match_context_free(context_);
  pcre2_match_data_free(match_);
}

SplitPattern::SplitPattern(std::string_view pattern) {
  if (pattern.size() > kLongestPattern) {
    throw std::invalid_argument("it has " + std::to_string(pattern.size()) +
                                " bytes; allowed: at most " + std::to_string(kLongestPattern));
  }
  const std::string text = translated(pattern);
  int error = 0;
  size_t place = 0;
  // \C would match a part of a character, and what is then left is no UTF-8.
  code_.reset(
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &place, nullptr),
      pcre2_code_free);
  if (!code_) throw std::invalid_argument("it is no regular expression: " + message_of(error));
  // Where there is no JIT for the processor, matching is slower and gives the same.
  pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);
}

std::optional<SplitPattern::Match> SplitPattern::find(std::string_view text, size_t offset,
                                                      Scratch& scratch) const {
  const int found =
      pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), offset,
                  PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, scratch.match_, scratch.context_);
  if (found == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (found < 0) {
    throw std::runtime_error("its regular expression cannot be matched with the text: " +
                             message_of(found));
  }
  const size_t* const ends = pcre2_get_ovector_pointer(scratch.match_);
  return Match{ends[0], ends[1]};
}

}  // namespace fsdp
