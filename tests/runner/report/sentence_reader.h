#pragma once

#include <charconv>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

// Reads the sentences of answers strictly. Unexpected text is an error.
namespace fsdp {

class SentenceReader {
 public:
  // `names`: all names that may be in the text, as answers write them.
  SentenceReader(std::string_view text, std::vector<std::string> names)
      : text_(text), rest_(text), names_(std::move(names)) {}

  bool is_at_end() const { return rest_.empty(); }
  bool take(std::string_view word) {
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  // True if the word is next.
  bool sees(std::string_view word) const { return rest_.starts_with(word); }
  char next() const { return rest_.empty() ? '\0' : rest_.front(); }
  // True if the word is anywhere in the rest.
  bool has(std::string_view word) const { return rest_.find(word) != std::string_view::npos; }
  // Gives back the last `count` characters that were taken.
  void give_back(size_t count) { rest_ = text_.substr(text_.size() - rest_.size() - count); }
  void expect(std::string_view word) {
    if (!take(word)) fail("expected '" + std::string(word) + "'");
  }
  // Takes the text up to `end`, and `end` itself. Takes all that is left if `end` is not there.
  std::string take_until(std::string_view end) {
    const size_t place = std::min(rest_.find(end), rest_.size());
    std::string taken(rest_.substr(0, place));
    rest_.remove_prefix(std::min(rest_.size(), place + end.size()));
    return taken;
  }
  double take_number() {
    double number = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), number);
    if (error != std::errc()) fail("expected a number");
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return number;
  }
  // Takes the longest name that is next.
  std::optional<std::string> take_name() {
    const std::string* longest = nullptr;
    for (const std::string& name : names_) {
      if (sees(name) && (!longest || name.size() > longest->size())) longest = &name;
    }
    if (longest) take(*longest);
    return longest ? std::optional(*longest) : std::nullopt;
  }
  std::string expect_name() {
    const std::optional<std::string> name = take_name();
    if (!name) fail("expected a name");
    return *name;
  }
  // "a", "a and b", "a, b and c", or "a, b and 3 more", where `more` is 3.
  struct NameList {
    std::vector<std::string> names{};
    size_t more = 0;
  };
  NameList expect_names() {
    NameList list{.names = {expect_name()}};
    while (true) {
      const std::string_view before = rest_;
      const bool is_last = take(" and ");
      if (!is_last && !take(", ")) return list;
      if (const std::optional<std::string> name = take_name()) {
        list.names.push_back(*name);
        continue;
      }
      if (is_last) {
        list.more = static_cast<size_t>(take_number());
        expect(" more");
        return list;
      }
      rest_ = before;
      return list;
    }
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error(what + " at '" + std::string(rest_) + "' of '" + std::string(text_) +
                             "'");
  }

 private:
  std::string_view text_, rest_;
  std::vector<std::string> names_;
};

}  // namespace fsdp
