#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <sstream>

#include "base/text/utf8.h"
#include "contract/spec/run_spec_yaml.h"
#include "runner/commands/options.h"

// The hidden command `complete` prints candidates for the last word of a command line. The shells'
// scripts do nothing but call it.
namespace fsdp {
namespace {

// A line of the answer: the word and, after a tab, its meaning, unless the word explains itself.
struct Candidate {
  std::string word;
  std::string meaning{};
};

// The words before the one to complete, sorted by kind.
struct Situation {
  CLI::App* command = nullptr;
  std::vector<std::string> positionals;
  std::map<std::string, std::string> values;  // of options: "--results"
  CLI::Option* awaiting = nullptr;            // an option whose value is completed
  bool no_command_yet = false;
};

Situation read_words(CLI::App& app, std::vector<std::string> words) {
  Situation situation;
  situation.no_command_yet = words.empty();
  const bool names_command = !words.empty() && std::ranges::find(kCommands, words.front(),
                                                                 &Command::name) != kCommands.end();
  situation.command = app.get_subcommand(names_command ? words.front() : "run");
  if (names_command) words.erase(words.begin());
  for (const std::string& word : words) {
    if (situation.awaiting != nullptr) {
      situation.values["--" + situation.awaiting->get_lnames().front()] = word;
      situation.awaiting = nullptr;
    } else if (word.starts_with("--")) {
      CLI::Option* option = situation.command->get_option_no_throw(word);
      if (option != nullptr && option->get_items_expected_max() > 0) situation.awaiting = option;
    } else {
      situation.positionals.push_back(word);
    }
  }
  return situation;
}

enum class Files { kExperiments, kFolders, kAll };

std::vector<Candidate> files(const std::string& word, Files kind) {
  const size_t slash = word.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : word.substr(0, slash + 1);
  std::vector<Candidate> found;
  std::error_code not_there;
  for (const auto& entry :
       std::filesystem::directory_iterator(folder.empty() ? "." : folder, not_there)) {
    const std::string name = entry.path().filename();
    if (name.starts_with('.') && word.size() == folder.size()) continue;  // a hidden file
    const std::string extension = entry.path().extension();
    const bool is_experiment = extension == ".yaml" || extension == ".yml";
    if (entry.is_directory(not_there)) {
      found.push_back({folder + name + '/'});
    } else if (kind == Files::kAll || (kind == Files::kExperiments && is_experiment)) {
      found.push_back({folder + name});
    }
  }
  return found;
}

std::string value_of(const Situation& situation, const std::string& option,
                     const std::string& otherwise) {
  const auto found = situation.values.find(option);
  return found == situation.values.end() ? otherwise : found->second;
}

std::optional<Store> store_of(const Situation& situation) {
  const char* usual = std::getenv("FSDP_RESULTS");
  const std::string results = value_of(situation, "--results", usual ? usual : "results");
  if (!has_results(results)) return std::nullopt;
  return std::optional<Store>(std::in_place, results, StoreUse::kExisting);
}

std::vector<Candidate> runs(const Situation& situation) {
  std::vector<Candidate> found;
  const std::optional<Store> store = store_of(situation);
  if (!store) return found;
  for (const RunRecord& run : store->runs()) {
    if (!run.current) continue;
    found.push_back({run.point, fmt::format("{}, {}", run.experiment, name_of(run.status))});
  }
  return found;
}

std::vector<Candidate> experiments(const Situation& situation, const std::string& word) {
  std::vector<Candidate> found = files(word, Files::kExperiments);
  const std::optional<Store> store = store_of(situation);
  if (!store) return found;
  for (const ExperimentRecord& experiment : store->experiments()) {
    found.push_back({experiment.name, experiment.title});
  }
  return found;
}

// Returns the names of the file's points, and of its runs if a sweep makes several from one point.
std::vector<Candidate> points(const Situation& situation) {
  if (situation.positionals.empty()) return {};
  const ExpandOptions options{.profile = value_of(situation, "--profile", "auto"),
                              .check_gpus = false,
                              .on_cluster = value_of(situation, "--launcher", "") == "slurm"};
  const Experiment experiment = Experiment::load(situation.positionals.front());
  std::vector<Candidate> found;
  std::set<std::string> seen;
  for (const Run& run : experiment.expand(options, find_host(std::nullopt).resources).runs) {
    if (seen.insert(run.point).second) found.push_back({run.point});
  }
  return found;
}

std::vector<Candidate> profiles(const Situation& situation) {
  std::vector<Candidate> found{{"auto", "the first one whose requirement is met"}};
  if (situation.positionals.empty()) return found;
  const YAML::Node file = YAML::LoadFile(situation.positionals.front());
  for (const auto& profile : file["profiles"]) found.push_back({profile.first.Scalar()});
  return found;
}

std::vector<Candidate> keys() {
  std::vector<Candidate> found;
  for (const auto& [key, value] : keys_and_values(RunSpec())) {
    found.push_back({key + '=', "default: " + value});
  }
  return found;
}

// Returns the words that a check allows, from CLI11's description: {table,markdown}.
std::vector<Candidate> allowed_words(CLI::Option& option) {
  std::vector<Candidate> found;
  const CLI::Validator* check = option.get_validator(0);
  const std::string text = check == nullptr ? "" : check->get_description();
  if (!text.starts_with('{')) return found;
  std::istringstream words(text.substr(1, text.rfind('}') - 1));
  for (std::string word; std::getline(words, word, ',');) found.push_back({word});
  return found;
}

// Returns the values that the name of the option or positional implies.
std::vector<Candidate> values_of(CLI::Option& option, const Situation& situation,
                                 const std::string& word) {
  const std::string name = option.get_lnames().empty() ? option.get_name() : option.get_lnames()[0];
  if (name == "FILE") return files(word, Files::kExperiments);
  if (name == "EXPERIMENT") return experiments(situation, word);
  if (name == "RUN" || name == "OTHER") return runs(situation);
  if (name == "only") return points(situation);
  if (name == "profile") return profiles(situation);
  if (name == "set") return keys();
  if (name == "WHAT") {
    std::vector<Candidate> found = experiments(situation, word);
    std::ranges::move(runs(situation), std::back_inserter(found));
    return found;
  }
  if (name == "results" || name == "to") return files(word, Files::kFolders);
  std::vector<Candidate> allowed = allowed_words(option);
  return allowed.empty() && option.get_type_name() != "INT" ? files(word, Files::kAll) : allowed;
}

std::vector<Candidate> candidates(CLI::App& app, std::vector<std::string> words) {
  const std::string word = words.empty() ? "" : words.back();
  if (!words.empty()) words.pop_back();
  const Situation situation = read_words(app, std::move(words));
  if (situation.awaiting != nullptr) return values_of(*situation.awaiting, situation, word);
  std::vector<Candidate> found;
  if (word.starts_with('-')) {
    for (const CLI::Option* option : shown_options(*situation.command)) {
      found.push_back({"--" + option->get_lnames().front(), option->get_description()});
    }
    return found;
  }
  const std::vector<CLI::Option*> positionals = situation.command->get_options(
      [](const CLI::Option* option) { return option->get_positional(); });
  const size_t given = situation.positionals.size();
  if (given < positionals.size()) {
    found = values_of(*positionals[given], situation, word);
  } else if (!positionals.empty() && positionals.back()->get_items_expected_max() > 1) {
    found = values_of(*positionals.back(), situation, word);
  }
  if (!situation.no_command_yet) return found;
  for (const Command& command : kCommands) {
    if (command.description.empty()) continue;
    found.push_back({std::string(command.name), std::string(command.description)});
  }
  return found;
}

// Prints the candidates. A shell may ask at every press of a key, so on an error it gets none.
ExitCode complete(const std::vector<std::string>& words) {
  CLI::App app("", "fsdp-run");
  for (const Command& command : kCommands) command.add_to(app);
  const std::string word = words.empty() ? "" : words.back();
  std::string text;
  try {
    for (const Candidate& candidate : candidates(app, words)) {
      const bool can_be_typed = !holds_control_characters(candidate.word);
      if (!candidate.word.starts_with(word) || !can_be_typed) continue;
      const std::string meaning = visible_line(candidate.meaning);
      text += candidate.word + (meaning.empty() ? "" : '\t' + meaning) + '\n';
    }
  } catch (const std::exception&) {
  }
  std::cout << text;
  return ExitCode::kOk;
}

constexpr const char* kBash = R"sh(# source <(fsdp-run completion bash)
_fsdp_run() {
  local word candidate words=()
  for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
    words+=("${word//[\\\"\']/}")
  done
  COMPREPLY=()
  while IFS=$'\t' read -r candidate _; do
    COMPREPLY+=("$candidate")
  done < <("${COMP_WORDS[0]/#\~/$HOME}" complete -- "${words[@]}" 2>/dev/null)
  [[ ${COMPREPLY[0]} == *= ]] || compopt -o filenames  # spaces are escaped
  [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=/] ]] && compopt -o nospace
}
complete -F _fsdp_run fsdp-run
)sh";

constexpr const char* kZsh = R"sh(# source <(fsdp-run completion zsh), after compinit
_fsdp_run() {
  local line candidate
  local -a words_so_far candidates texts open_candidates open_texts
  words_so_far=("${(@Q)words[2,CURRENT]}")
  for line in "${(@f)$(${(Q)~words[1]} complete -- "${words_so_far[@]}" 2>/dev/null)}"; do
    candidate=${line%%$'\t'*}
    [[ -z $candidate ]] && continue
    if [[ $candidate == *[=/] ]]; then
      open_candidates+=("$candidate") open_texts+=("${line/$'\t'/  -- }")
    else
      candidates+=("$candidate") texts+=("${line/$'\t'/  -- }")
    fi
  done
  compadd -l -d texts -a candidates
  compadd -l -d open_texts -S '' -a open_candidates
}
compdef _fsdp_run fsdp-run
)sh";

constexpr const char* kFish = R"sh(# fsdp-run completion fish | source
function __fsdp_run_complete
    set -l so_far (commandline -opc)
    set -l current (string unescape -- (commandline -ct))
    set -l program $so_far[1]
    set -e so_far[1]
    $program complete -- $so_far "$current" 2>/dev/null
end
complete -c fsdp-run -f -a '(__fsdp_run_complete)'
)sh";

}  // namespace

CommandFunction add_complete_command(CLI::App& command) {
  const auto words = std::make_shared<std::vector<std::string>>();
  command.add_option("WORD", *words, "The words so far, the last one unfinished");
  return [words] { return complete(*words); };
}

CommandFunction add_completion_command(CLI::App& command) {
  command.footer(R"(Examples:
  source <(fsdp-run completion bash)       in ~/.bashrc
  source <(fsdp-run completion zsh)        in ~/.zshrc, after compinit
  fsdp-run completion fish | source        in ~/.config/fish/config.fish)");
  const auto shell = std::make_shared<std::string>();
  command.add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  return [shell] {
    std::cout << (*shell == "bash" ? kBash : *shell == "zsh" ? kZsh : kFish);
    return ExitCode::kOk;
  };
}

}  // namespace fsdp
