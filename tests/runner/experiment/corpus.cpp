#include "tests/runner/experiment/corpus.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace fsdp {
namespace {

std::string unescaped(const std::string& text) {
  std::string bytes;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 2, "\\x") == 0) {
      bytes += static_cast<char>(std::stoi(text.substr(i + 2, 2), nullptr, 16));
      i += 3;
    } else if (text.compare(i, 2, "\\r") == 0) {
      bytes += '\r';
      ++i;
    } else {
      bytes += text[i];
    }
  }
  return bytes;
}

// Reads the expectations of a case, up to the line "--". Returns true if its text is escaped.
bool read_expectations(std::istream& stream, MalformedExperiment& experiment) {
  bool is_escaped = false;
  std::string line;
  while (std::getline(stream, line) && line != "--") {
    if (line == "at the file") {
      experiment.place = "lab.yaml";
    } else if (line.starts_with("at ")) {
      experiment.place = "lab.yaml:" + line.substr(3);
    } else if (line.starts_with("says ")) {
      experiment.words.push_back(line.substr(5));
    } else if (line == "escaped") {
      is_escaped = true;
    } else {
      throw std::runtime_error("corpus, '" + experiment.title + "': what is '" + line + "'?");
    }
  }
  return is_escaped;
}

}  // namespace

std::vector<MalformedExperiment> read_corpus(const std::string& name) {
  std::ifstream stream(std::filesystem::path(FSDP_CORPUS_FOLDER) / name);
  std::vector<MalformedExperiment> experiments;
  std::string line;
  while (std::getline(stream, line) && !line.starts_with("== ")) {
  }
  while (stream) {
    MalformedExperiment& experiment = experiments.emplace_back();
    experiment.title = line.substr(3);
    const bool is_escaped = read_expectations(stream, experiment);
    std::string text;
    while (std::getline(stream, line) && !line.starts_with("== ")) text += line + '\n';
    if (stream) text.pop_back();  // the empty line before the next case
    experiment.bytes = is_escaped ? unescaped(text) : text;
  }
  return experiments;
}

std::vector<std::string> corpus_names() {
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(FSDP_CORPUS_FOLDER)) {
    names.push_back(file.path().filename());
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace fsdp
