#include "runner/commands/options.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>
#include <ranges>
#include <stdexcept>

#include "base/files/whole_file.h"
#include "base/system/program.h"
#include "base/text/utf8.h"
#include "runner/experiment/sweep.h"
#include "runner/host/doctor.h"
#include "runner/table/terminal_text.h"

namespace fsdp {
namespace {

struct Extension {
  std::string_view text;
  std::string_view format;
};

constexpr Extension kExtensions[] = {
    {"", "text"},        {".txt", "text"},       {".html", "html"}, {".htm", "html"},
    {".md", "markdown"}, {".csv", "csv"},        {".json", "json"}, {".tex", "latex"},
    {".jsonl", "jsonl"}, {".parquet", "parquet"}};

constexpr size_t kHelpWidth = 80;
constexpr size_t kMeaningColumn = 26;

// Puts `meaning` beside `name`, or below it if the name is long.
std::string entry(const std::string& name, const std::string& meaning) {
  const std::string before = "  " + name;
  if (before.size() + 2 <= kMeaningColumn)
    return wrapped(before, meaning, kMeaningColumn, kHelpWidth);
  return before + '\n' + wrapped("", meaning, kMeaningColumn, kHelpWidth);
}

MergeSource source_of(const std::string& word) {
  const size_t equals = word.find('=');
  std::error_code not_there;  // also of a word that is too long for a file's name
  const bool is_named = equals != std::string::npos && !std::filesystem::exists(word, not_there);
  std::filesystem::path folder = is_named ? word.substr(equals + 1) : word;
  if (!has_results(folder) && has_results(folder / "results")) folder /= "results";
  std::filesystem::path whose = std::filesystem::weakly_canonical(folder, not_there);
  if (whose.filename() == "results") whose = whose.parent_path();  // alice/results are alice's
  std::string name = is_named ? word.substr(0, equals) : whose.filename().string();
  constexpr size_t kMostBytes = 200;  // files are named after it
  const bool is_name = !name.empty() && name.size() <= kMostBytes && is_utf8(name) &&
                       !name.starts_with('.') && name.find('/') == std::string::npos;
  if (!is_name) {
    throw ConfigError("", word,
                      "needs a name; write NAME=DIR, with a NAME of at most 200 bytes of UTF-8 "
                      "without '/' that does not begin with '.'");
  }
  folder = folder.lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  return {.name = std::move(name), .results = std::move(folder)};
}

void warn_of_results(const std::string& line) {
  std::cerr << "fsdp-run: " << visible_line(line) << '\n';
}

}  // namespace

std::vector<MergeSource> named_results(std::span<const std::string> words) {
  std::vector<MergeSource> sources;
  std::map<std::string, std::string> word_of_name;
  std::map<std::filesystem::path, std::string> word_of_place;
  for (const std::string& word : words) {
    MergeSource source = source_of(word);
    std::error_code not_there;
    const auto place = std::filesystem::weakly_canonical(source.results, not_there);
    const auto [same, is_new_place] = word_of_place.emplace(place, word);
    if (!is_new_place) throw ConfigError("", word, "is the same folder as " + same->second);
    const auto [other, is_new] = word_of_name.emplace(source.name, word);
    if (!is_new) {
      throw ConfigError("", word,
                        "would be named '" + source.name + "', like " + other->second +
                            "; give it another name: NAME=" + word);
    }
    sources.push_back(std::move(source));
  }
  return sources;
}

void add_choice_options(CLI::App& command, Choice& choice) {
  command.add_option("FILE", choice.file, "The experiment, a YAML file; -: stdin")->required();
  add_option(command, "--set PATH=VALUE", choice.expand.set,
             "Override a key of every run; may be repeated")
      ->allow_extra_args(false);
  const auto set_more = [&choice](const std::vector<std::string>& words) {
    choice.expand.set.insert(choice.expand.set.end(), words.begin(), words.end());
  };
  command
      .add_option_function<std::vector<std::string>>("OVERRIDES", set_more,
                                                     "train.steps=20: as with --set")
      ->option_text("PATH=VALUE ...");
  add_option(command, "--only POINT", choice.expand.only,
             "Only these points: names (A,B) or patterns (FSDP*); may be repeated")
      ->allow_extra_args(false);
  add_option(command, "--repeats N", choice.expand.repeats,
             "Run each point N times, as sweep.repeats does")
      ->check(
          CLI::Range(int64_t{1}, int64_t{kMaximumRuns}, fmt::format("from 1 to {}", kMaximumRuns)));
  add_option(command, "--profile NAME=auto", choice.expand.profile,
             "A profile of the file, or auto");
  add_option(command, "--gpus LIST", choice.gpus,
             "GPUs to use: 0,1 or UUIDs (default: all visible)");
  const auto set_launcher = [&choice](const std::string& name) {
    choice.expand.on_cluster = name == "slurm";
  };
  command
      .add_option_function<std::string>("--launcher", set_launcher,
                                        "local: on this host; slurm: as jobs")
      ->check(CLI::IsMember({"local", "slurm"}))
      ->option_text("KIND=local");
}

void add_results_option(CLI::App& command, std::filesystem::path& results) {
  add_option(command, "--results DIR=results", results,
             "Folder of results.sqlite and runs/; FSDP_RESULTS sets another default")
      ->envname("FSDP_RESULTS");
}

void add_results_option(CLI::App& command, std::vector<std::string>& results) {
  add_option(command, "--results DIR=results", results,
             "Folder of results.sqlite and runs/; FSDP_RESULTS sets another default. May be "
             "repeated, also as NAME=DIR: shows all folders, as if they were merged")
      ->envname("FSDP_RESULTS")
      ->allow_extra_args(false);
}

void add_question_options(CLI::App& command, TrainerQuestion& question) {
  add_choice_options(command, question.choice);
  add_results_option(command, question.results);
  command.add_option("--trainer", question.trainer)->group("");
}

CLI::Validator number_within(double least, double most, const std::string& text) {
  const auto check = [=](std::string& word) -> std::string {
    double value = 0;
    const bool is_within =
        CLI::detail::lexical_cast(word, value) && value >= least && value <= most;
    return is_within ? "" : word + " is not a number " + text;
  };
  return CLI::Validator(check, text);
}

std::string own_command() {
  std::ifstream arguments("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(arguments, word, '\0');) words.push_back(word);
  const bool names_launcher = std::ranges::any_of(
      words, [](const std::string& word) { return word.starts_with("--launcher"); });
  std::string command = "fsdp-run";
  for (const std::string& word : words | std::views::drop(1)) {
    if (word == "--rerun") continue;
    if (word != "--detach" && word != "--follow") {
      command += ' ' + shell_quoted(word);
    } else if (!names_launcher) {
      command += " --launcher slurm";
    }
  }
  return command;
}

bool has_results(const std::filesystem::path& results) {
  std::error_code not_there;
  return std::filesystem::exists(results / "results.sqlite", not_there) || has_run_files(results);
}

std::filesystem::path trainer_path(const std::filesystem::path& option) {
  return option.empty()
             ? std::filesystem::read_symlink("/proc/self/exe").parent_path() / "fsdp-train"
             : std::filesystem::absolute(option);
}

std::filesystem::path find_trainer(const std::filesystem::path& option) {
  const std::filesystem::path trainer = trainer_path(option);
  if (access(trainer.c_str(), X_OK) != 0) {
    throw std::runtime_error("the trainer " + trainer.string() +
                             " does not exist or cannot be executed; start runs with ./fsdp-run in "
                             "the repository, which builds the trainer");
  }
  return trainer;
}

std::vector<std::string> gpu_warnings(const Expansion& expansion, const std::vector<Gpu>& gpus,
                                      const std::filesystem::path& trainer) {
  const auto may_use_gpus = [](const Run& run) { return run.spec.device != DeviceKind::kCpu; };
  std::vector<std::string> warnings;
  if (gpus.empty() || std::ranges::none_of(expansion.runs, may_use_gpus)) return warnings;
  if (const std::optional<TrainerBuild> build = build_of(trainer)) {
    for (const Misfit& misfit : misfits(*build, nvidia_of_host().driver, gpus)) {
      warnings.push_back(misfit.problem + "; " + misfit.remedy);
    }
  }
  return warnings;
}

Store existing_results(const std::filesystem::path& results) {
  if (has_results(results)) return Store(results, StoreUse::kExisting, warn_of_results);
  std::string hint;
  for (const char* above : {"..", "../.."}) {
    const std::filesystem::path other = above / results;
    if (results.is_absolute() || !has_results(other)) continue;
    hint = "; did you mean --results " + other.string() + "?";
    break;
  }
  throw ConfigError("--results", "",
                    "there is no results.sqlite in " + results.string() +
                        "; run an experiment first, or name another folder" + hint);
}

std::filesystem::path place_of_results(std::span<const std::string> results) {
  return results.size() == 1 ? results.front() : ".";
}

Store existing_results(std::span<const std::string> results) {
  if (results.size() == 1) return existing_results(std::filesystem::path(results.front()));
  std::vector<ResultsPart> folders;
  for (const MergeSource& source : named_results(results)) {
    folders.push_back({.folder = source.results, .source = source.name});
  }
  return Store(std::move(folders), warn_of_results);
}

std::string_view format_of_extension(const std::filesystem::path& extension) {
  const auto known = std::ranges::find(kExtensions, extension.native(), &Extension::text);
  return known == std::end(kExtensions) ? std::string_view() : known->format;
}

void write_output(const std::filesystem::path& file, std::string_view text) {
  if (file.empty()) {
    std::cout << text << std::flush;
  } else {
    write_whole_file(file, text);
  }
}

std::string HelpFormatter::make_usage(const CLI::App* app, std::string name) const {
  if (app->get_parent() != nullptr) return Formatter::make_usage(app, name);
  return "Usage: fsdp-run FILE [OPTIONS]\n       fsdp-run COMMAND ...\n";
}

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  std::string name = make_option_name(option, is_positional) + make_option_opts(option);
  name.erase(name.find_last_not_of(' ') + 1);
  return entry(name, make_option_desc(option));
}

std::string HelpFormatter::make_option_opts(const CLI::Option* option) const {
  if (option->get_positional()) return "";
  const std::string& text = option->get_option_text();
  if (!text.empty()) return ' ' + text;
  const bool takes_value = option->get_items_expected_max() > 0;
  return takes_value ? ' ' + option->get_type_name() : "";
}

std::string HelpFormatter::make_help(const CLI::App* app, std::string name,
                                     CLI::AppFormatMode mode) const {
  std::string text = Formatter::make_help(app, name, mode);
  text.erase(text.find_last_not_of('\n') + 1);
  return text + '\n';
}

std::string HelpFormatter::make_subcommand(const CLI::App* command) const {
  return entry(command->get_name(), command->get_description());
}

std::string HelpFormatter::make_description(const CLI::App* app) const {
  const std::string text = app->get_description();
  return text.empty() ? text : wrapped("", text, 0, kHelpWidth);
}

std::vector<const CLI::Option*> shown_options(const CLI::App& command) {
  return command.get_options([](const CLI::Option* option) {
    return !option->get_group().empty() && !option->get_lnames().empty();
  });
}

}  // namespace fsdp
