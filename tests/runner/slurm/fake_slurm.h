#pragma once

#include <stdlib.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/temporary_folder.h"

namespace fsdp {

inline std::string text_of(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

// Puts the fakes of tests/fakes/slurm first on PATH during its lifetime.
class FakeSlurm {
 public:
  FakeSlurm() : path_before_(getenv("PATH")) {
    setenv("PATH", (std::string(FSDP_FAKE_SLURM) + ':' + path_before_).c_str(), 1);
    setenv("FAKE_SLURM", folder_.path().c_str(), 1);
  }
  ~FakeSlurm() {
    setenv("PATH", path_before_.c_str(), 1);
    unsetenv("FAKE_SLURM");
  }

  // Sets the bash lines that `program` runs from now on.
  void let(const std::string& program, const std::string& lines) const {
    folder_.write(program + ".do", lines);
  }
  // Returns one line per call, with its arguments quoted for bash.
  std::vector<std::string> calls(const std::string& program) const {
    return lines_of(text_of(folder_ / (program + ".calls")));
  }
  // Returns the names of all programs that were called, sorted.
  std::vector<std::string> programs_called() const {
    std::vector<std::string> programs;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      if (entry.path().extension() == ".calls") programs.push_back(entry.path().stem().string());
    }
    std::ranges::sort(programs);
    return programs;
  }
  // The arguments of the last call.
  std::vector<std::string> arguments(const std::string& program) const {
    return lines_of(text_of(folder_ / (program + ".arguments")));
  }
  const TemporaryFolder& folder() const { return folder_; }

 private:
  TemporaryFolder folder_;
  std::string path_before_;
};

}  // namespace fsdp
