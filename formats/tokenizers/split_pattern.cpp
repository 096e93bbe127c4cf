// Splits text by a pattern of a tokenizer. A pattern that backtracks for too long is refused.
#include "formats/tokenizers/split_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <time.h>

#include <algorithm>
#include <new>
#include <stdexcept>
#include <string>

namespace fsdp {
namespace {

constexpr size_t kLongestPattern = 1 << 16;
// A search within these limits is not charged to the TimeLimit: the bytes of its window, the tries
// for each start, and the bytes in which a match may start.
constexpr size_t kFreeWindow = 256;
constexpr uint32_t kFreeTries = 64;
constexpr size_t kFreeStarts = 128;
constexpr uint32_t kMostTries = 1 << 30;
// The processor time for all charged searches of a text. Published patterns need 1 % of it.
constexpr int64_t kMostNanoseconds = 1'000'000'000;
constexpr int64_t kMostNanosecondsPerByte = 1'000;
constexpr size_t kFirstStackBytes = 32 << 10;
constexpr size_t kLargestStackBytes = 64 << 20;

// Unicode's White_Space. PCRE2's own \s also has U+180E.
constexpr std::string_view kSpaces =
    "\\t-\\r "
    "\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";

std::string message_of(int code) {
  char text[256] = {};
  pcre2_get_error_message(code, reinterpret_cast<PCRE2_UCHAR*>(text), sizeof text);
  return text;
}

// The processor time of this thread.
int64_t processor_nanoseconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

bool is_inside_character(std::string_view text, size_t place) {
  return place < text.size() && (text[place] & 0xC0) == 0x80;
}

size_t character_begin(std::string_view text, size_t place) {
  while (is_inside_character(text, place)) --place;
  return place;
}

// The end of the character that begins at `place`.
size_t character_end(std::string_view text, size_t place) {
  do {
    ++place;
  } while (is_inside_character(text, place));
  return place;
}

// Translates `pattern` to PCRE2's syntax.
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

template <auto kFree>
struct Freed {
  void operator()(auto* made) const { kFree(made); }
};

// The memory for matching any pattern on one thread.
struct Matching {
  std::unique_ptr<pcre2_match_data, Freed<pcre2_match_data_free>> match{
      pcre2_match_data_create(1, nullptr)};
  std::unique_ptr<pcre2_match_context, Freed<pcre2_match_context_free>> context{
      pcre2_match_context_create(nullptr)};
  std::unique_ptr<pcre2_jit_stack, Freed<pcre2_jit_stack_free>> stack{
      pcre2_jit_stack_create(kFirstStackBytes, kLargestStackBytes, nullptr)};

  Matching() {
    if (!match || !context || !stack) throw std::bad_alloc();
    pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  }
};

}  // namespace

SplitPattern::SplitPattern(std::string_view pattern) {
  if (pattern.size() > kLongestPattern) {
    throw std::invalid_argument("it has " + std::to_string(pattern.size()) +
                                " bytes; allowed: at most " + std::to_string(kLongestPattern));
  }
  const std::string text = translated(pattern);
  int error = 0;
  size_t place = 0;
  // \C would match a part of a character, and the rest would not be UTF-8.
  code_.reset(
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | PCRE2_USE_OFFSET_LIMIT,
                    &error, &place, nullptr),
      pcre2_code_free);
  if (!code_) throw std::invalid_argument("it is no regular expression: " + message_of(error));
  // Without a JIT for the processor, matching is slower and gives the same result.
  pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);
}

SplitPattern::TimeLimit::TimeLimit(size_t text_bytes)
    : nanoseconds_left_(kMostNanoseconds +
                        kMostNanosecondsPerByte * static_cast<int64_t>(text_bytes)) {}

void SplitPattern::TimeLimit::charge(int64_t nanoseconds) {
  nanoseconds_left_ -= nanoseconds;
  if (nanoseconds_left_ < 0) {
    throw std::runtime_error(
        "its regular expression cannot be matched with the text: it tries too many ways");
  }
}

// PCRE2 limits only the tries of one start. Therefore each search begins in a short window of the
// text. For one start, the window grows if the match depends on the text after it.
std::optional<SplitPattern::Match> SplitPattern::find(std::string_view text, size_t offset,
                                                      TimeLimit& limit) const {
  thread_local const Matching matching;
  pcre2_match_data* const matched = matching.match.get();
  pcre2_match_context* const context = matching.context.get();
  size_t window = kFreeWindow;
  uint32_t tries = kFreeTries;
  while (offset < text.size()) {
    const size_t end =
        character_begin(text, text.size() - offset > window ? offset + window : text.size());
    const bool is_free = window == kFreeWindow && tries == kFreeTries;
    const int64_t started = is_free ? 0 : processor_nanoseconds();
    const size_t last_start =
        character_begin(text, is_free ? std::min(offset + kFreeStarts, text.size()) : offset);
    pcre2_set_match_limit(context, tries);
    pcre2_set_offset_limit(context, last_start);
    const int found = pcre2_match(
        code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), end, offset,
        PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY | (end < text.size() ? PCRE2_PARTIAL_HARD : 0), matched,
        context);
    if (!is_free) limit.charge(processor_nanoseconds() - started);
    if (found >= 0) {
      const size_t* const ends = pcre2_get_ovector_pointer(matched);
      return Match{ends[0], ends[1]};
    }
    if (found == PCRE2_ERROR_NOMATCH) {
      offset = character_end(text, last_start);
      window = kFreeWindow;
      tries = kFreeTries;
    } else if (found == PCRE2_ERROR_PARTIAL) {
      offset = std::max(offset, pcre2_get_startchar(matched));
      window *= 4;
    } else if (found == PCRE2_ERROR_MATCHLIMIT && tries < kMostTries) {
      tries *= 4;
    } else {
      throw std::runtime_error("its regular expression cannot be matched with the text: " +
                               message_of(found));
    }
  }
  return std::nullopt;
}

}  // namespace fsdp
