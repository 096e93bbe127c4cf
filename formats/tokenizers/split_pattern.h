#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

struct pcre2_real_code_8;

namespace fsdp {

// A regular expression that splits text into words, with the meaning that tokenizers (Oniguruma)
// and tiktoken (Rust) give it. \s is Unicode's White_Space, and \p{...} a class of characters.
class SplitPattern {
 public:
  // The processor time that is left for the searches in one text.
  class TimeLimit {
   public:
    explicit TimeLimit(size_t text_bytes);
    // Throws std::runtime_error if no time is left.
    void charge(int64_t nanoseconds);

   private:
    int64_t nanoseconds_left_;
  };

  struct Match {
    size_t begin, end;
  };

  // Throws std::invalid_argument if `pattern` is malformed, or if the two libraries would read it
  // differently.
  explicit SplitPattern(std::string_view pattern);

  // The first match in text[offset, ...) that is not empty. `text` is UTF-8, and `offset` is
  // between two characters. Throws std::runtime_error if the searches take too long.
  std::optional<Match> find(std::string_view text, size_t offset, TimeLimit& limit) const;

 private:
  std::shared_ptr<pcre2_real_code_8> code_;
};

}  // namespace fsdp
