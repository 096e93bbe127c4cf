#include <cstdio>
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/text/white_space.h"
#include "formats/tokenizers/tokenizer.h"

namespace {

void print_white_space() {
  constexpr char32_t kCharacters = 0x110000;
  for (const fsdp::IsSpace is_space : {fsdp::is_python_space, fsdp::is_white_space}) {
    nlohmann::json found = nlohmann::json::array();
    for (char32_t c = 0; c < kCharacters; ++c) {
      if (is_space(c)) found.push_back(static_cast<uint32_t>(c));
    }
    std::cout << found << '\n';
  }
}

}  // namespace

// encode --white-space prints the white space of Python and of Rust, as code points.
//
// encode TOKENIZER < TEXTS: each line of standard input is a JSON string. Prints a line about the
// tokenizer. Then prints for each text the ids of encode and encode_with_special: [[1, 2], [3]]. A
// line may also be ids, [1, 2], whose text is printed.
int main(int, char** arguments) try {
  if (arguments[1] == std::string_view("--white-space")) {
    print_white_space();
    return 0;
  }
  const auto tokenizer = fsdp::open_tokenizer(arguments[1]);
  const fsdp::Tokenizer::Ends& ends = tokenizer->ends();
  const auto id = [](const auto& end) { return end ? nlohmann::json(*end) : nlohmann::json(); };
  std::cout << nlohmann::json{{"vocab_size", tokenizer->vocab_size()},
                              {"begin", id(ends.begin)},
                              {"end", id(ends.end)},
                              {"padding", id(ends.padding)},
                              {"adds_begin", ends.adds_begin},
                              {"adds_end", ends.adds_end}}
            << '\n';
  for (std::string line; std::getline(std::cin, line);) {
    const nlohmann::json asked = nlohmann::json::parse(line);
    if (asked.is_array()) {
      std::cout << nlohmann::json(tokenizer->decode(asked.get<std::vector<int32_t>>())) << '\n';
      continue;
    }
    const std::string text = asked;
    std::vector<int32_t> plain;
    std::vector<int32_t> special;
    tokenizer->encode(text, plain);
    tokenizer->encode_with_special(text, special);
    std::cout << nlohmann::json{plain, special} << '\n';
  }
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
