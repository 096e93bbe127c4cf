#include "runner/fetch/fetch.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <set>
#include <stdexcept>
#include <thread>

#include "contract/files/hub_cache.h"
#include "contract/files/input_file.h"
#include "contract/inputs/wanted_files.h"
#include "contract/text/config_error.h"
#include "runner/fetch/blob.h"
#include "runner/fetch/hub.h"
#include "runner/fetch/lock_file.h"
#include "runner/fetch/snapshot.h"
#include "runner/progress/run_progress.h"

namespace fsdp {
namespace {

using std::filesystem::path;

constexpr size_t kSideBySide = 4;
constexpr int64_t kSpareBytes = 16 << 20;  // for links and other files

class Fetch {
 public:
  Fetch(const Endpoint& endpoint, double first_wait_s, FetchProgress& progress,
        std::stop_token stop)
      : endpoint_(endpoint), first_wait_s_(first_wait_s), progress_(progress), stop_(stop) {}

  std::vector<FetchedRepository> run(const std::vector<HubInput>& inputs) {
    for (const HubInput& input : inputs) add_plan(input);
    get_missing();
    std::vector<FetchedRepository> fetched;
    for (const FetchedCommit& plan : plans_) {
      const CachedRepository place = cached(plan);
      make_visible(place, plan, [&] { http_.wait(kLockWaitS); });
      fetched.push_back(
          {plan.name, place.snapshot(plan.commit), static_cast<int>(plan.files.size()), 0});
      for (const ListedFile& file : plan.files) fetched.back().bytes += file.size_bytes;
    }
    for (const HubInput& input : inputs) check_is_taken(input);
    return fetched;
  }

 private:
  CachedRepository cached(const FetchedCommit& plan) const { return {cache_, plan.name}; }

  RemoteFile remote_file(const FetchedCommit& plan, const ListedFile& file) {
    const CachedRepository place = cached(plan);
    return {.url = hub_.url(plan.name, plan.commit, file.path),
            .name = plan.name.repository_text() + '/' + file.path,
            .size_bytes = file.size_bytes,
            .hash = file.hash,
            .blob = place.blob(file.hash.text),
            .lock = place.lock(file.hash.text)};
  }

  bool is_there(const FetchedCommit& plan, const ListedFile& file) {
    return cached(plan).has(plan.commit, file) || is_whole(remote_file(plan, file));
  }

  // Returns the plan of the input's repository and revision.
  FetchedCommit& plan_of(const HubInput& input) {
    HubName repository = input.name;
    repository.path.clear();
    const auto found = std::ranges::find(plans_, repository, &FetchedCommit::name);
    if (found != plans_.end()) return *found;
    std::string commit = hub_.commit_of(repository);
    FetchedCommit& plan = plans_.emplace_back();
    plan.name = std::move(repository);
    plan.commit = std::move(commit);
    return plan;
  }

  // Asks the hub once for each folder.
  const std::vector<ListedFile>& list(FetchedCommit& plan, const std::string& folder,
                                      bool is_recursive) {
    for (const HubListing& listing : plan.listings) {
      if (listing.folder == folder && listing.is_recursive == is_recursive) return listing.files;
    }
    std::vector<ListedFile> files = hub_.files(plan.name, plan.commit, folder, is_recursive);
    return plan.listings.emplace_back(folder, is_recursive, std::move(files)).files;
  }

  void add_plan(const HubInput& input) {
    try {
      FetchedCommit& plan = plan_of(input);
      HubFiles files;
      files.list = [&](const std::string& folder, bool is_recursive) {
        return list(plan, folder, is_recursive);
      };
      files.read = [&](const ListedFile& file) { return contents_of(plan, file); };
      for (ListedFile& file : wanted_files(input, files)) {
        if (std::ranges::find(plan.files, file.path, &ListedFile::path) == plan.files.end()) {
          plan.files.push_back(std::move(file));
        }
      }
    } catch (const ConfigError& error) {
      throw ConfigError(input.place, input.key, error.problem());
    }
  }

  // Throws if a run would not use the fetched files.
  void check_is_taken(const HubInput& input) {
    try {
      cached_input(input, plan_of(input).commit);
    } catch (const ConfigError& error) {
      throw ConfigError(input.place, input.key, error.problem());
    }
  }

  // Reads a small file, after fetching it if necessary.
  std::string contents_of(const FetchedCommit& plan, const ListedFile& file) {
    path place = cached(plan).snapshot(plan.commit) / file.path;
    if (!cached(plan).has(plan.commit, file)) {
      const RemoteFile remote = remote_file(plan, file);
      std::atomic<int64_t> done_bytes = 0;
      fetch_blob(remote, http_, first_wait_s_, done_bytes);
      place = remote.blob;
    }
    return read_input_file(place);
  }

  std::vector<RemoteFile> missing_files() {
    std::vector<RemoteFile> missing;
    std::set<path> blobs;
    for (const FetchedCommit& plan : plans_) {
      for (const ListedFile& file : plan.files) {
        if (is_there(plan, file)) continue;
        if (RemoteFile remote = remote_file(plan, file); blobs.insert(remote.blob).second) {
          missing.push_back(std::move(remote));
        }
      }
    }
    // The largest files come first, so that no large one is left at the end.
    std::ranges::stable_sort(missing, std::greater(), &RemoteFile::size_bytes);
    return missing;
  }

  void check_space(const std::vector<RemoteFile>& missing) const {
    int64_t needed_bytes = 0;
    for (const RemoteFile& file : missing) needed_bytes += file.size_bytes - partial_bytes(file);
    path place = cache_;
    std::error_code error;
    while (!std::filesystem::exists(place, error) && place.has_relative_path()) {
      place = place.parent_path();
    }
    const std::filesystem::space_info space = std::filesystem::space(place, error);
    if (error || needed_bytes == 0) return;
    if (space.available < static_cast<uint64_t>(needed_bytes + kSpareBytes)) {
      throw std::runtime_error(fmt::format(
          "the cache {} has {} free, and {} are to be fetched; make room, or name another folder "
          "with HF_HOME or HF_HUB_CACHE",
          cache_.string(), memory_text(static_cast<int64_t>(space.available)),
          memory_text(needed_bytes)));
    }
  }

  void get_missing() {
    const std::vector<RemoteFile> missing = missing_files();
    check_space(missing);
    for (const RemoteFile& file : missing) progress_.all_bytes += file.size_bytes;
    progress_.all_files = static_cast<int>(missing.size());
    std::stop_source failed;
    const std::stop_callback passed_on(stop_, [&] { failed.request_stop(); });
    std::mutex mutex;
    std::exception_ptr first_failure;
    std::atomic<size_t> next = 0;
    const auto work = [&] {
      try {
        HttpClient http(endpoint_, failed.get_token());
        for (size_t i = next++; i < missing.size(); i = next++) {
          fetch_blob(missing[i], http, first_wait_s_, progress_.done_bytes);
          ++progress_.done_files;
          progress_.say(missing[i].name);
        }
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!first_failure) first_failure = std::current_exception();
        failed.request_stop();
      }
    };
    {
      std::vector<std::jthread> threads;
      for (size_t i = 0; i < std::min(kSideBySide, missing.size()); ++i) threads.emplace_back(work);
    }
    if (first_failure) std::rethrow_exception(first_failure);
  }

  const Endpoint& endpoint_;
  const double first_wait_s_;
  FetchProgress& progress_;
  std::stop_token stop_;
  const path cache_ = hub_cache_folder();
  HttpClient http_{endpoint_, stop_};
  Hub hub_{endpoint_, http_, first_wait_s_};
  std::vector<FetchedCommit> plans_;
};

}  // namespace

std::vector<FetchedRepository> fetch(const std::vector<HubInput>& inputs, const Endpoint& endpoint,
                                     double first_wait_s, FetchProgress& progress,
                                     std::stop_token stop) {
  return Fetch(endpoint, first_wait_s, progress, std::move(stop)).run(inputs);
}

}  // namespace fsdp
