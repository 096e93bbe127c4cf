#include "runner/host/git_state.h"

#include <set>
#include <sstream>
#include <string_view>
#include <vector>

namespace fsdp {
namespace {

// For an answer that takes milliseconds.
constexpr std::chrono::seconds kMostForFilters{2};

// The filters that the repository's own configuration names; those of the user are his.
// `output` has a scope and a key for each: "local", "filter.lfs.clean".
std::set<std::string> filters_of_repository(const std::string& output) {
  std::set<std::string> filters;
  std::istringstream fields(output);
  for (std::string scope, key; std::getline(fields, scope, '\0');) {
    if (!std::getline(fields, key, '\0')) break;
    if (scope == "local" || scope == "worktree") filters.insert(key.substr(0, key.rfind('.')));
  }
  return filters;
}

// Words for git that turn these filters off; absent: it cannot be told so.
std::optional<std::vector<std::string>> without(const std::set<std::string>& filters) {
  std::vector<std::string> words;
  for (const std::string& filter : filters) {
    if (filter.find('=') != std::string::npos) return std::nullopt;
    for (const char* setting : {".clean=", ".process=", ".required=false"}) {
      words.insert(words.end(), {"-c", filter + setting});
    }
  }
  return words;
}

// The lines of `git status --porcelain=v2 --branch`: "# branch.oid <commit>", other headings, and
// one for each file that differs.
GitState parse(const std::string& output) {
  constexpr std::string_view kCommit = "# branch.oid ";
  GitState state{.commit = "", .dirty = false};
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(kCommit)) state.commit = line.substr(kCommit.size());
    if (!line.starts_with('#')) state.dirty = true;
  }
  const bool has_commit = !state.commit.empty() && state.commit != "(initial)";
  return has_commit ? state : GitState{};
}

}  // namespace

GitQuery::GitQuery(const std::filesystem::path& folder) : asked_(std::chrono::steady_clock::now()) {
  GitProgram question(
      folder, {"config", "-z", "--name-only", "--show-scope", "--get-regexp", R"(^filter\.)"});
  const std::optional<GitProgram::Answer> answer = question.answer(asked_ + kMostForFilters);
  const bool is_answered = answer && (answer->exit_status == 0 || answer->exit_status == 1);
  if (!is_answered) return;  // 1: there are none
  auto words = without(filters_of_repository(answer->text));
  if (!words) return;
  words->insert(words->end(), {"status", "--porcelain=v2", "--branch", "--untracked-files=no",
                               "--ignore-submodules=dirty"});
  status_ = std::make_unique<GitProgram>(folder, *words);
}

GitState GitQuery::result(std::chrono::milliseconds limit) {
  const auto answer = status_ ? status_->answer(asked_ + limit) : std::nullopt;
  return answer && answer->exit_status == 0 ? parse(answer->text) : GitState{};
}

}  // namespace fsdp
