#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

struct pcre2_real_code_8;
struct pcre2_real_match_data_8;
struct pcre2_real_match_context_8;
struct pcre2_real_jit_stack_8;

namespace fsdp {

// A regular expression that splits text into words, with the meaning that tokenizers (Oniguruma)
// and tiktoken (Rust) give it. \s is Unicode's White_Space, and \p{...} a class of characters.
class SplitPattern {
 public:
  // The memory for matching any pattern on one thread.
  class Scratch {
   public:
    Scratch();
    ~Scratch();
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

    // Begins the searches in a text, which share a limit of processor time.
    void begin(size_t text_bytes);

   private:
    friend class SplitPattern;
    void charge(int64_t nanoseconds);

    int64_t nanoseconds_left_ = 0;
    pcre2_real_match_data_8* match_;
    pcre2_real_match_context_8* context_;
    pcre2_real_jit_stack_8* stack_;
  };

  struct Match {
    size_t begin, end;
  };

  // Throws std::invalid_argument if `pattern` is malformed, or if the two libraries would read it
  // differently.
  explicit SplitPattern(std::string_view pattern);

  // The first match in text[offset, ...) that is not empty. `text` is UTF-8, and `offset` is
  // between two characters. Throws std::runtime_error if the searches since Scratch::begin take too
  // long.
  std::optional<Match> find(std::string_view text, size_t offset, Scratch& scratch) const;

 private:
  std::shared_ptr<pcre2_real_code_8> code_;
};

}  // namespace fsdp
