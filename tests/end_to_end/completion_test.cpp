#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "tests/end_to_end/stub_runs.h"
#include "tests/end_to_end/terminal.h"

// Completion in real shells.
using namespace fsdp;
using Catch::Matchers::Contains;

namespace {

std::vector<std::string> words_of(const Ended& ended) {
  std::vector<std::string> words;
  std::istringstream lines(ended.output);
  for (std::string line; std::getline(lines, line);)
    words.push_back(line.substr(0, line.find('\t')));
  return words;
}

std::vector<std::string> offered(const Workplace& workplace, std::vector<std::string> words) {
  words.insert(words.begin(), {"complete", "--"});
  const Ended ended = workplace.call(words);
  CHECK(ended.status == 0);
  CHECK(ended.errors.empty());
  return words_of(ended);
}

using Words = std::vector<std::string>;

const std::string kPoints = "  - {name: 1 GPU}\n  - {name: FSDP batch 8}\n  - {name: FSDP}\n";

// An interactive shell whose PATH begins with the program's folder, with completion set up.
class Shell {
 public:
  Shell(const Workplace& workplace, const Words& command, const std::string& set_up)
      : terminal_(workplace / ".", command, 200, 50,
                  {{"PATH", std::filesystem::path(FSDP_RUN_PROGRAM).parent_path().string() +
                                ":/usr/bin:/bin"},
                   {"HOME", workplace / "."},
                   {"INPUTRC", "/dev/null"}}) {
    terminal_.type(set_up + "; echo se''t-up\n");
    terminal_.read_until("set-up");
  }
  // Completes the line that begins with `keys`. Checks its words, each followed by a bar.
  void completes(const std::string& keys, const std::string& words) {
    terminal_.type(keys + "\t\x01printf '%s|' \n");  // Ctrl-A goes to the start of the line
    CHECK_NOTHROW(terminal_.read_until(words));
  }

 private:
  Terminal terminal_;
};

}  // namespace

TEST_CASE("commands, options, files and their values are offered") {
  const Workplace workplace(kPoints);
  CHECK(offered(workplace, {"expe"}) == Words{"experiment.yaml"});
  CHECK(offered(workplace, {"expl"}) == Words{"explain"});
  CHECK(offered(workplace, {"report", "--forma"}) == Words{"--format"});
  CHECK(offered(workplace, {"experiment.yaml", "--re"}) ==
        Words{"--repeats", "--results", "--rerun"});
  CHECK_THAT(offered(workplace, {"report", "--format", ""}),
             Catch::Matchers::VectorContains(std::string("markdown")));
  CHECK(offered(workplace, {"completion", ""}) == Words{"bash", "zsh", "fish"});
  CHECK(offered(workplace, {"experiment.yaml", "--only", "F"}) == Words{"FSDP batch 8", "FSDP"});
  CHECK(offered(workplace, {"run", "experiment.yaml", "--set", "train.se"}) ==
        Words{"train.sequences=", "train.seed="});
  CHECK(offered(workplace, {"experiment.yaml", "--profile", ""}) == Words{"auto"});
  CHECK(offered(workplace, {"missing.yaml", "--only", ""}).empty());
  CHECK(offered(workplace, {"logs", ""}).empty());
  REQUIRE(workplace.run().status == 0);
  CHECK(offered(workplace, {"logs", ""}) == Words{"1 GPU", "FSDP batch 8", "FSDP"});
  CHECK(offered(workplace, {"explain", "--results", "results", "1"}) == Words{"1 GPU"});
  CHECK_THAT(offered(workplace, {"status", "t"}),
             Catch::Matchers::VectorContains(std::string("trial")));
}

TEST_CASE("bash completes with its script") {
  const Workplace workplace(kPoints);
  Shell shell(workplace, {"bash", "--norc", "--noprofile"}, "source <(fsdp-run completion bash)");
  shell.completes("fsdp-run experi", "fsdp-run|experiment.yaml|");
  shell.completes("fsdp-run experiment.yaml --only FSDP\\ b", "--only|FSDP batch 8|");
  shell.completes("fsdp-run experiment.yaml --set train.see", "--set|train.seed=|");
  shell.completes("fsdp-run report --forma", "fsdp-run|report|--format|");
}

TEST_CASE("zsh completes with its script", "[shell]") {
  const Workplace workplace(kPoints);
  Shell shell(workplace, {"zsh", "-f"},
              "autoload -U compinit && compinit -u -D; bindkey -e; unsetopt zle_bracketed_paste; "
              "source <(fsdp-run completion zsh)");
  shell.completes("fsdp-run experi", "fsdp-run|experiment.yaml|");
  shell.completes("fsdp-run experiment.yaml --only FSDP\\ b", "--only|FSDP batch 8|");
  shell.completes("fsdp-run experiment.yaml --set train.see", "--set|train.seed=|");
  shell.completes("fsdp-run report --forma", "fsdp-run|report|--format|");
}

TEST_CASE("fish completes with its script", "[shell]") {
  const Workplace workplace(kPoints);
  std::ofstream(workplace / "words") << "fsdp-run completion fish | source\n"
                                        "complete -C 'fsdp-run experi'\n"
                                        "complete -C 'fsdp-run experiment.yaml --only FSDP\\ b'\n"
                                        "complete -C 'fsdp-run experiment.yaml --set train.see'\n"
                                        "complete -C 'fsdp-run report --forma'\n";
  const Ended ended =
      Program(workplace / ".", {"/usr/bin/fish", "--no-config", "words"},
              {{"PATH",
                std::filesystem::path(FSDP_RUN_PROGRAM).parent_path().string() + ":/usr/bin:/bin"},
               {"HOME", workplace / "."}})
          .wait();
  INFO(ended.errors);
  CHECK(words_of(ended) == Words{"experiment.yaml", "FSDP batch 8", "train.seed=", "--format"});
}
