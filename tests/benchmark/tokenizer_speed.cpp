#include <sentencepiece_processor.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "base/files/input_file.h"
#include "formats/tokenizers/tokenizer.h"

// Times one thread on the texts of a file, one text per line. Run by tokenizer_speed.py:
//
//     tokenizer_speed TOKENIZER TEXTS special | plain | sentencepiece
//
// For each line feed on standard input, encodes all texts and prints the seconds and the number of
// tokens. Calls encode_with_special, encode, or SentencePiece's library directly.
namespace {

template <typename Encode>
void answer(const std::vector<std::string_view>& texts, Encode encode) {
  while (std::getchar() == '\n') {
    const auto begin = std::chrono::steady_clock::now();
    size_t tokens = 0;
    for (const std::string_view text : texts) tokens += encode(text);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    std::printf("%.6f %zu\n", elapsed.count(), tokens);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int, char** arguments) try {
  const std::string_view mode = arguments[3];
  const std::string file = fsdp::read_input_file(arguments[2]);
  std::vector<std::string_view> texts;
  for (std::string_view rest = file; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size() - 1);
    texts.push_back(rest.substr(0, end));
    rest.remove_prefix(end + 1);
  }
  if (mode == "sentencepiece") {
    sentencepiece::SentencePieceProcessor processor;
    processor.LoadOrDie(arguments[1]);
    std::vector<int> ids;
    answer(texts, [&](std::string_view text) {
      processor.Encode(text, &ids).IgnoreError();
      return ids.size();
    });
  } else {
    const auto tokenizer = fsdp::open_tokenizer(arguments[1]);
    std::vector<int32_t> ids;
    answer(texts, [&](std::string_view text) {
      ids.clear();
      mode == "special" ? tokenizer->encode_with_special(text, ids) : tokenizer->encode(text, ids);
      return ids.size();
    });
  }
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
