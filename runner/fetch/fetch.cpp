// Decides what fetch.py brings from a hub. Texts that name a commit are written last.
#include "runner/fetch/fetch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>
#include <string_view>

#include "base/files/input_file.h"
#include "base/system/program.h"
#include "base/system/standard_streams.h"
#include "base/text/bytes_text.h"
#include "base/text/config_error.h"
#include "base/text/foreign_json.h"
#include "base/text/utf8.h"
#include "formats/hub/hub_cache.h"
#include "formats/inputs/hub_inputs.h"
#include "runner/progress/live_view.h"
#include "runner/table/terminal_text.h"

namespace fsdp {

extern const std::string_view kFetchScript;  // fetch.py, which documents its questions

namespace {

using nlohmann::json;
using Show = std::function<void(const FetchProgress&)>;

// The script, in a process that ends with this object.
class FetchScript {
 public:
  explicit FetchScript(Show show) : show_(std::move(show)) {
    json heard;
    try {
      process_ = std::make_unique<Conversation>(
          std::vector<std::string>{python_program(), "-I", "-c", std::string(kFetchScript)},
          own_variables());
      heard = read_answer(json::object());
      if (!heard.is_object()) throw std::runtime_error(python_program() + " answers otherwise");
    } catch (const std::exception& error) {
      throw std::runtime_error(fmt::format(
          "a fetch needs Python 3.10 or later, and {}. Have it installed, load a module of your "
          "cluster that has it, or let FSDP_PYTHON name such a Python",
          error.what()));
    }
    answer_of(std::move(heard));
  }

  // Throws ConfigError (place and key empty) and std::runtime_error.
  json ask(const json& question) { return answer_of(read_answer(question)); }

 private:
  json read_answer(const json& question) {
    constexpr std::chrono::minutes kPatience{5};  // it answers in 0.1 s, unless it is suspended
    constexpr size_t kLargestAnswerBytes = 256 << 20;
    const std::string line = question.dump(-1, ' ', true, json::error_handler_t::replace);
    return parse_foreign_json(process_->ask(line, kPatience), kLargestAnswerBytes);
  }

  json answer_of(json heard) {
    while (true) {
      const json& state = heard.at("progress");
      show_({state.at("done_bytes").get<int64_t>(), state.at("all_bytes").get<int64_t>(),
             state.at("done_files").get<int>(), state.at("all_files").get<int>(),
             state.at("lines").get<std::vector<std::string>>()});
      if (heard.contains("answer")) return std::move(heard.at("answer"));
      if (heard.contains("error")) {
        const auto problem = heard.at("error").get<std::string>();
        if (heard.at("is_users").get<bool>()) throw ConfigError("", "", problem);
        throw std::runtime_error(problem);
      }
      heard = read_answer(json::object());
    }
  }

  Show show_;
  std::unique_ptr<Conversation> process_;
};

// One commit of a repository.
struct Commit {
  HubName name{};  // without a path
  std::string hash{};
  CachedRepository cache;
  std::vector<ListedFile> files{};     // only the wanted ones
  std::vector<HubListing> listings{};  // the sources of `files`
};

json json_of(const HubName& name) {
  return {{"kind", name.is_dataset ? "datasets" : "models"},
          {"id", name.repository},
          {"text", name.repository_text()}};
}

// Returns the facts that the script needs to get a file.
json blob_of(const Commit& commit, const ListedFile& file) {
  return {{"repository", json_of(commit.name)},
          {"commit", commit.hash},
          {"path", file.path},
          {"size", file.size_bytes},
          {"hash", file.hash.text},
          {"is_sha256", file.hash.is_sha256},
          {"blob", commit.cache.blob(file.hash.text).string()},
          {"lock", commit.cache.lock(file.hash.text).string()}};
}

// Returns the links and texts that the script writes when all blobs are there. The text that names
// the revision's commit comes last. Links and texts that are right already are left out, because a
// complete cache may be read-only.
json publication_of(const Commit& commit) {
  const CachedRepository& cache = commit.cache;
  json links = json::array();
  json texts = json::array();
  for (const ListedFile& file : commit.files) {
    if (cache.has(commit.hash, file)) continue;
    links.push_back(
        {(cache.snapshot(commit.hash) / file.path).string(), cache.blob(file.hash.text).string()});
  }
  for (const HubListing& listing : commit.listings) {
    const auto& [folder, is_recursive, files] = listing;
    if (cache.read_listing(commit.hash, folder, is_recursive) == listing) continue;
    texts.push_back(
        {cache.listing(commit.hash, folder, is_recursive).string(), listing_text(listing)});
  }
  const std::string& revision = commit.name.revision;
  if (revision != commit.hash && cache.commit_of(revision) != commit.hash) {
    texts.push_back({cache.ref(revision).string(), commit.hash});
  }
  return {{"ask", "publish"}, {"links", links}, {"texts", texts}};
}

template <typename Act>
void at_place_of(const HubInput& input, const Act& act) {
  try {
    act();
  } catch (const ConfigError& error) {
    throw ConfigError(input.place, input.key, error.problem());
  }
}

class Fetch {
 public:
  explicit Fetch(const Show& show) : script_(show) {}

  std::vector<FetchedRepository> run(const std::vector<HubInput>& inputs) {
    for (const HubInput& input : inputs) {
      at_place_of(input, [&] { add_files(input); });
    }
    json missing = json::array();
    for (const Commit& commit : commits_) {
      for (const ListedFile& file : commit.files) {
        if (!commit.cache.has(commit.hash, file)) missing.push_back(blob_of(commit, file));
      }
    }
    get(missing);
    std::vector<FetchedRepository> fetched;
    for (const Commit& commit : commits_) {
      script_.ask(publication_of(commit));
      fetched.push_back({commit.name, commit.cache.snapshot(commit.hash),
                         static_cast<int>(commit.files.size()), 0});
      for (const ListedFile& file : commit.files) fetched.back().bytes += file.size_bytes;
    }
    for (const HubInput& input : inputs) {  // throws if a run would not find it in the cache
      at_place_of(input, [&] { cached_input(input, commit_of(input).hash); });
    }
    return fetched;
  }

 private:
  void get(const json& blobs) {
    if (blobs.empty()) return;
    script_.ask({{"ask", "get"}, {"cache", hub_cache_folder().string()}, {"files", blobs}});
  }

  Commit& commit_of(const HubInput& input) {
    HubName name = input.name;
    name.path.clear();
    const auto found = std::ranges::find(commits_, name, &Commit::name);
    if (found != commits_.end()) return *found;
    const json hash = script_.ask(
        {{"ask", "commit"}, {"repository", json_of(name)}, {"revision", name.revision}});
    const CachedRepository cache(hub_cache_folder(), name);
    return commits_.emplace_back(std::move(name), hash.get<std::string>(), cache);
  }

  // Asks the hub once for each folder.
  const std::vector<ListedFile>& list(Commit& commit, const std::string& folder,
                                      bool is_recursive) {
    for (const HubListing& listing : commit.listings) {
      if (listing.folder == folder && listing.is_recursive == is_recursive) return listing.files;
    }
    const json answer = script_.ask({{"ask", "list"},
                                     {"repository", json_of(commit.name)},
                                     {"commit", commit.hash},
                                     {"folder", folder},
                                     {"is_recursive", is_recursive}});
    std::vector<ListedFile> files;
    const std::string hub = "the hub, for " + commit.name.repository_text() + ',';
    try {
      for (const json& entry : answer) files.push_back(listed_file(entry, hub));
    } catch (const json::exception&) {
      throw std::runtime_error(hub + " lists files in another form than a hub would");
    }
    return commit.listings.emplace_back(folder, is_recursive, std::move(files)).files;
  }

  void add_files(const HubInput& input) {
    Commit& commit = commit_of(input);
    HubFiles hub;
    hub.list = [&](const std::string& folder, bool is_recursive) {
      return list(commit, folder, is_recursive);
    };
    hub.read = [&](const ListedFile& file) {
      if (commit.cache.has(commit.hash, file)) {
        return read_input_file(commit.cache.snapshot(commit.hash) / file.path);
      }
      get(json::array({blob_of(commit, file)}));
      return read_input_file(commit.cache.blob(file.hash.text));
    };
    for (ListedFile& file : wanted_files(input, hub)) {
      if (std::ranges::find(commit.files, file.path, &ListedFile::path) == commit.files.end()) {
        commit.files.push_back(std::move(file));
      }
    }
  }

  FetchScript script_;
  std::vector<Commit> commits_;
};

std::string figures(const FetchProgress& progress, double bytes_per_s) {
  std::string text =
      fmt::format("{} of {}", bytes_text(progress.done_bytes), bytes_text(progress.all_bytes));
  if (bytes_per_s < 1) return text;
  const auto left_bytes = static_cast<double>(progress.all_bytes - progress.done_bytes);
  return text + fmt::format("  {}/s  {} left", bytes_text(static_cast<int64_t>(bytes_per_s)),
                            duration_text(left_bytes / bytes_per_s));
}

std::string bar_line(const FetchProgress& progress, double bytes_per_s) {
  if (progress.all_files == 0) return "asking the hub";
  constexpr size_t kBarWidth = 18;
  const auto all = static_cast<double>(std::max<int64_t>(progress.all_bytes, 1));
  const double part = std::clamp(static_cast<double>(progress.done_bytes) / all, 0.0, 1.0);
  return fmt::format("{} {}/{} files  {}", bar(part, kBarWidth), progress.done_files,
                     progress.all_files, figures(progress, bytes_per_s));
}

}  // namespace

std::vector<FetchedRepository> fetch(const std::vector<HubInput>& inputs, const Show& show) {
  return Fetch(show).run(inputs);
}

void FetchView::show(const FetchProgress& progress) {
  constexpr std::chrono::seconds kLineInterval{15};
  constexpr double kNewShare = 0.3;  // of the newest measurement in the smoothed speed
  const Clock::time_point now = Clock::now();
  const std::chrono::duration<double> since = now - measured_at_;
  if (since >= std::chrono::seconds(1)) {
    const int64_t more_bytes = std::max<int64_t>(progress.done_bytes - measured_bytes_, 0);
    const double speed = static_cast<double>(more_bytes) / since.count();
    bytes_per_s_ = bytes_per_s_ == 0 ? speed : bytes_per_s_ + kNewShare * (speed - bytes_per_s_);
    measured_at_ = now;
    measured_bytes_ = progress.done_bytes;
  }
  std::string text;
  for (const std::string& line : progress.lines) text += visible_line(line) + '\n';
  if (TerminalLine::is_possible()) {
    const size_t columns = std::max<size_t>(terminal_size().columns, 2) - 1;
    return line_.draw(text, display_cut(bar_line(progress, bytes_per_s_), columns));
  }
  if (progress.all_files > 0 && now - said_at_ >= kLineInterval) {
    said_at_ = now;
    text += figures(progress, bytes_per_s_) + '\n';
  }
  write_whole(STDERR_FILENO, text);
}

}  // namespace fsdp
