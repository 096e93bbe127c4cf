// Compares what ranks run before they train. Files are read only if stat(2) differs.
#include "trainer/train/same_run.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/files/file_digest.h"
#include "base/system/start_up.h"
#include "base/text/config_error.h"
#include "base/text/json.h"
#include "base/text/utf8.h"
#include "contract/spec/run_spec_yaml.h"
#include "contract/spec/yaml_value.h"
#include "formats/inputs/inputs.h"
#include "trainer/comm/verdict.h"
#include "trainer/train/device.h"

namespace fsdp {
namespace {

using Said = std::vector<std::string>;
using Facts = std::vector<std::pair<std::string, std::string>>;  // names and values

// Packs a message between ranks of one program.
template <typename T>
std::string packed(const T& value) {
  return nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}
template <typename T>
T unpacked(const std::string& text) {
  return nlohmann::json::parse(text).get<T>();
}

std::string refusal(const std::string& key, const std::string& problem) {
  return packed(std::pair(key, problem));
}

void refuse_if_any(const std::string& refusal) {
  if (refusal.empty()) return;
  const auto [key, problem] = unpacked<std::pair<std::string, std::string>>(refusal);
  throw ConfigError("", key, problem);
}

std::string rank_text(size_t rank) { return "rank " + std::to_string(rank); }

Facts facts_of(const RunSpec& spec, int attempt, const std::vector<NamedInput>& files) {
  Facts facts{{"fsdp-train", FSDP_TRAIN_VERSION}};
  const TrainerBuild build = trainer_build();
  TrainerBuild::visit_fields(build, [&](const char* name, const std::string& value, auto&&...) {
    facts.emplace_back("fsdp-train: " + std::string(name), value);
  });
  facts.emplace_back("--attempt", attempt == 0 ? "not given" : std::to_string(attempt));
  for (const RunSpecKey& key : run_spec_keys()) {
    const std::string value = key.yaml(spec);
    const bool is_given_path = key.is_path && value.starts_with('"');
    facts.emplace_back(key.name, is_given_path ? "a path" : value);
  }
  std::map<std::string, int> file_counts;
  for (const NamedInput& input : files) ++file_counts[input.key];
  for (const auto& [key, count] : file_counts) {
    facts.emplace_back(key, std::to_string(count) + (count == 1 ? " file" : " files"));
  }
  return facts;
}

// Describes the lowest rank that differs from rank 0; empty if none differs.
std::string first_difference(const Said& said) {
  const Facts of_rank_0 = unpacked<Facts>(said[0]);
  for (size_t rank = 1; rank < said.size(); ++rank) {
    if (said[rank] == said[0]) continue;
    const Facts facts = unpacked<Facts>(said[rank]);
    const auto [one, zero] = std::ranges::mismatch(facts, of_rank_0);
    if (one == facts.end() || zero == of_rank_0.end() || one->first != zero->first) {
      return refusal("fsdp-train", rank_text(rank) +
                                       " is another build than rank 0's; start every "
                                       "rank with the same fsdp-train");
    }
    const auto shown = [](const std::string& value) {
      return shortened(visible_line(value), kMostOfMessage / 4);
    };
    return refusal(one->first, rank_text(rank) + " has " + shown(one->second) + ", rank 0 has " +
                                   shown(zero->second) +
                                   "; start every rank with the same fsdp-train, arguments and "
                                   "run.yaml");
  }
  return "";
}

// Returns stat(2)'s answer for the file, without its path, which may differ between hosts.
std::string state_text(const std::filesystem::path& file) {
  try {
    FileState state = state_of(file);
    state.path.clear();
    return json_text(state);
  } catch (const ConfigError& error) {
    return error.problem();
  }
}

// For each file, the lowest rank with each of the file's states.
using Readers = std::vector<std::pair<size_t, int>>;  // a file's number and a rank

// Returns the Readers as text; empty if every file has the same state on all ranks.
std::string choose_readers(const Said& said) {
  std::vector<Said> states;
  for (const std::string& of_rank : said) states.push_back(unpacked<Said>(of_rank));
  Readers readers;
  for (size_t file = 0; file < states[0].size(); ++file) {
    std::map<std::string, int> first_ranks;
    for (size_t rank = 0; rank < states.size(); ++rank) {
      first_ranks.emplace(states[rank][file], static_cast<int>(rank));
    }
    if (first_ranks.size() == 1) continue;
    for (const auto& [state, rank] : first_ranks) readers.emplace_back(file, rank);
  }
  return readers.empty() ? "" : packed(readers);
}

std::string contents_text(const std::filesystem::path& file) {
  begin_start_up_part("reading " + file.string());
  try {
    return "contents " + file_digest(file);
  } catch (const ConfigError& error) {
    return error.problem();
  }
}

// A file's number, its path, and its contents or why they cannot be read.
using Contents = std::vector<std::tuple<size_t, std::string, std::string>>;

std::string find_other_contents(const Said& said, const std::vector<NamedInput>& files) {
  std::map<size_t, std::string> of_rank_0;
  for (const auto& [file, path, contents] : unpacked<Contents>(said[0])) of_rank_0[file] = contents;
  for (size_t rank = 1; rank < said.size(); ++rank) {
    for (const auto& [file, path, contents] : unpacked<Contents>(said[rank])) {
      if (contents == of_rank_0[file]) continue;
      return refusal(files[file].key, rank_text(rank) + " reads " + visible_line(path) + " (" +
                                          visible_line(contents) + "), rank 0 reads " +
                                          visible_line(files[file].file.string()) + " (" +
                                          visible_line(of_rank_0[file]) +
                                          "); give every rank files of the same contents");
    }
  }
  return "";
}

void require_same_contents(const std::vector<NamedInput>& files, ProcessGroup& world) {
  Said states;
  begin_start_up_part("looking at its input files");
  for (const auto& [key, file] : files) states.push_back(state_text(file));
  pause_start_up();
  const std::string readers =
      verdict_on("states of input files", packed(states), world, choose_readers);
  if (readers.empty()) return;
  Contents contents;
  for (const auto& [number, rank] : unpacked<Readers>(readers)) {
    const std::filesystem::path& file = files[number].file;
    if (rank == world.rank()) contents.emplace_back(number, file.string(), contents_text(file));
  }
  pause_start_up();
  refuse_if_any(verdict_on("contents of input files", packed(contents), world,
                           [&](const Said& said) { return find_other_contents(said, files); }));
}

}  // namespace

std::vector<NamedInput> compared_files(const RunSpec& spec) {
  RunSpec without_checkpoint = spec;
  without_checkpoint.resume = {};
  return input_files(without_checkpoint);
}

void require_same_run(const RunSpec& spec, int attempt, const std::vector<NamedInput>& files,
                      ProcessGroup& world) {
  if (world.size() == 1) return;
  refuse_if_any(verdict_on("run", packed(facts_of(spec, attempt, files)), world, first_difference));
  require_same_contents(files, world);
}

}  // namespace fsdp
