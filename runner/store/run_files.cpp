// Reads and writes the files that SQLite is an index of. A file appears whole or not at all.
#include "runner/store/run_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <iterator>
#include <stdexcept>
#include <system_error>

#include "contract/spec/run_spec_json.h"
#include "runner/store/results_unavailable.h"

namespace fsdp {
namespace {

using std::filesystem::path;

[[noreturn]] void refuse_absent(const path& results) {
  throw ResultsUnavailable(results.string() + ": is no longer where it was; put the folder back");
}

// The part of run.json beside the specification.
struct RunIdentity {
  RunRecord run;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("id", self.run.id);
    visit("experiment", self.run.experiment);
    visit("point", self.run.point);
    visit("hash", self.run.hash);
    visit("position", self.run.position);
    visit("series", self.run.series);
    visit("repeat", self.run.repeat);
    visit("data_digest", self.run.data_digest);
    visit("loss_digest", self.run.loss_digest);
    visit("family", self.run.family);
    visit("family_key", self.run.family_key);
    visit("family_value", self.run.family_value);
  }
};

path status_file(const RunPaths& run) { return run.folder() / "status.json"; }

// True if `folder` has the form slurm/<name>.
bool is_job_folder(const path& folder) {
  const path name = folder.filename();
  return folder == path("slurm") / name && !name.empty() && name != "." && name != "..";
}

// Shows readers of the folder that a file below it changed (Store::sync).
void touch(const path& folder) {
  if (utimensat(AT_FDCWD, folder.c_str(), nullptr, 0) == 0) return;
  throw std::system_error(errno, std::generic_category(), folder.string() + " cannot be written");
}

}  // namespace

path verdict_file(const RunPaths& run, int attempt) {
  return run.attempt(attempt) / "verdict.json";
}

std::string name_here(std::string_view source, std::string_view name) {
  return source.empty() ? std::string(name) : fmt::format("{}/{}", source, name);
}

std::vector<ResultsPart> parts_of(const path& results, ResultsPart part) {
  std::vector<ResultsPart> parts{part};
  for (const path& name : visible_names(results / part.folder / "merged")) {
    path folder = part.folder / "merged" / name;
    if (std::filesystem::is_symlink(results / folder)) continue;
    std::ranges::move(parts_of(results, {std::move(folder), name_here(part.source, name.native())}),
                      std::back_inserter(parts));
  }
  return parts;
}

std::vector<path> visible_names(const path& folder) {
  std::vector<path> names;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
    if (path name = entry.path().filename(); !name.native().starts_with('.')) {
      names.push_back(std::move(name));
    }
  }
  std::ranges::sort(names);
  return names;
}

std::vector<path> run_folders(const path& results) {
  std::vector<path> folders;
  for (const path& list : visible_names(results / "runs")) {
    for (const path& run : visible_names(results / "runs" / list)) {
      folders.push_back("runs" / list / run);
    }
  }
  return folders;
}

void check_are_there(const path& results) {
  if (!std::filesystem::exists(results)) refuse_absent(results);
}

void make_folder(const path& results, const path& folder) {
  path made = results;
  for (const path& name : folder) {
    made /= name;
    std::error_code error;
    std::filesystem::create_directory(made, error);
    if (error == std::errc::no_such_file_or_directory) refuse_absent(results);
    if (error) throw std::filesystem::filesystem_error("cannot be created", made, error);
  }
}

path run_file(const path& results, const path& folder) { return results / folder / "run.json"; }

path divergence_file(const path& results, int64_t run, int64_t other) {
  const auto [first, second] = std::minmax(run, other);
  return results / "diverge" / fmt::format("diverge-{}-{}.txt", first, second);
}

path job_file(const path& results, const path& folder) { return results / folder / "job.json"; }

path lists_folder(const path& results) { return results / "lists"; }

path text_file(const path& results, const std::string& digest) {
  const bool is_digest =
      std::ranges::all_of(digest, [](unsigned char c) { return std::isalnum(c); });
  if (!is_digest) throw std::runtime_error("no digest: '" + digest + "'");
  return results / "texts" / (digest + ".yaml");
}

path list_file(const path& results, std::string_view name) {
  return lists_folder(results) / (file_name_of(name) + ".json");
}

path source_file(const path& results) { return results / "source.json"; }

void write_list(const path& results, const RunList& list) {
  make_folder(results, "lists");
  write_record(list_file(results, list.name), list);
}

void add_to_list(const path& results, std::string_view name, const path& folder,
                 const WarnOfFile& warn) {
  auto list = read_list(list_file(results, name), warn);
  if (!list) {
    throw ResultsUnavailable(list_file(results, name).string() +
                             ": cannot be read; call again with the experiment, which writes it");
  }
  if (std::ranges::find(list->runs, folder) != list->runs.end()) return;
  list->runs.push_back(folder);
  write_list(results, *list);
}

void write_first_lists(const path& results, std::span<const RunList> lists) {
  const path partial = results / "lists.partial";
  std::filesystem::remove_all(partial);
  if (lists.empty() && visible_names(results / "merged").empty()) return;
  make_folder(results, partial.filename());
  for (const RunList& list : lists) {
    write_record(partial / list_file(results, list.name).filename(), list);
  }
  std::filesystem::rename(partial, lists_folder(results));
}

void write_text(const path& results, const std::string& digest, const std::string& text) {
  if (digest.empty() || std::filesystem::exists(text_file(results, digest))) return;
  make_folder(results, "texts");
  replace_file(text_file(results, digest), text);
}

void write_run(const path& results, const RunRecord& run) {
  const std::string text =
      JsonObject().add_fields(RunIdentity{run}).add("spec", run.spec).text() + '\n';
  const path file = run_file(results, run.folder);
  std::error_code not_there;
  const auto size = std::filesystem::file_size(file, not_there);
  if (!not_there && size == text.size() && read_input_file(file, size) == text) return;
  make_folder(results, run.folder);
  replace_file(file, text, OnDisk::kLater);  // another call with the experiment writes it again
}

void write_status(const RunPaths& run, const StatusNote& note) {
  write_record(status_file(run), note);
}

// What the attempt left is on the disk before the verdict on it. After a power failure, no attempt
// has ended without its figures.
void write_verdict(const RunPaths& run, int attempt, const Verdict& verdict) {
  std::error_code none;
  for (const auto& file : std::filesystem::directory_iterator(run.attempt(attempt), none)) {
    const bool is_record = file.path().extension().native().starts_with(".json");
    const bool is_file = std::filesystem::is_regular_file(file.symlink_status(none));
    if (is_record && is_file) sync_file(file.path());
  }
  write_record(verdict_file(run, attempt), verdict);
  touch(run.folder());
}

void remove_status(const RunPaths& run) { std::filesystem::remove(status_file(run)); }

void remove_verdict(const RunPaths& run, int attempt) {
  std::filesystem::remove(verdict_file(run, attempt));
  touch(run.folder());
}

void write_job(const path& results, const JobRecord& job) {
  if (!is_job_folder(job.folder))
    throw std::runtime_error("no folder of a job: " + job.folder.string());
  make_folder(results, job.folder);
  const std::string text = JsonObject().add_fields(job).add("tasks", job.tasks).text();
  replace_file(job_file(results, job.folder), text + '\n');
}

void remove_job(const path& results, const path& folder) {
  std::filesystem::remove(job_file(results, folder));
}

std::optional<RunList> read_list(const path& file, const WarnOfFile& warn) {
  return read_record<RunList>(file, warn);
}

std::optional<RunRecord> read_run(const path& results, const path& folder, const WarnOfFile& warn) {
  const path file = run_file(results, folder);
  return read_if_valid(file, warn, [&] {
    const auto json = parse_record(file);
    RunRecord run = value_from_json<RunIdentity>("", json).run;
    run.spec = run_spec_from_json(json.at("spec").dump(), file.string());
    run.folder = folder;
    return run;
  });
}

std::optional<StatusNote> read_status(const RunPaths& run, const WarnOfFile& warn) {
  return read_record<StatusNote>(status_file(run), warn);
}

std::optional<Verdict> read_verdict(const RunPaths& run, int attempt, const WarnOfFile& warn) {
  return read_record<Verdict>(verdict_file(run, attempt), warn);
}

std::optional<JobRecord> read_job(const path& results, const path& folder, const WarnOfFile& warn) {
  const path file = job_file(results, folder);
  return read_if_valid(file, warn, [&] {
    const auto json = parse_record(file);
    auto job = value_from_json<JobRecord>("", json);
    job.tasks = value_from_json<std::vector<JobTask>>("tasks", json.at("tasks"));
    job.folder = folder;
    return job;
  });
}

}  // namespace fsdp
