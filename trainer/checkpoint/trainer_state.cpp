// Writes and reads trainer.json, which ends with its own checksum. Damaged files are refused.
#include "trainer/checkpoint/trainer_state.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/files/digest.h"
#include "base/files/input_file.h"
#include "base/text/config_error.h"
#include "base/text/json_fields.h"
#include "base/text/utf8.h"
#include "trainer/checkpoint/checksum.h"

namespace fsdp {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using std::filesystem::path;

template <typename T>
ordered_json to_value(const T& member) {
  if constexpr (is_optional<T>) {
    return member ? to_value(*member) : ordered_json();
  } else if constexpr (is_vector<T>) {
    ordered_json list = ordered_json::array();
    for (const auto& item : member) list.push_back(to_value(item));
    return list;
  } else if constexpr (NamedEnum<T>) {
    return std::string(name_of(member));
  } else if constexpr (Fields<T>) {
    ordered_json object = ordered_json::object();
    T::visit_fields(member, [&](const char* name, const auto& field, auto&&...) {
      object[name] = to_value(field);
    });
    return object;
  } else if constexpr (std::same_as<T, path>) {
    return member.string();
  } else {
    return member;
  }
}

// The end of trainer.json. The checksum stands between kBeforeChecksum and kBehindChecksum, and
// covers all bytes before it.
constexpr const char* kChecksumName = "xxh3_128";
constexpr const char* kBeforeChecksum = ",\n  \"xxh3_128\": \"";
constexpr const char* kBehindChecksum = "\"\n}\n";

constexpr const char* kRemedy =
    "; the checkpoint is damaged: copy it again, or resume from another (`resume: auto` takes the "
    "one before it)";

void check_file(const path& checkpoint, const CheckpointFile& file) {
  const path found = checkpoint / file.name;
  std::error_code error;
  const auto size = std::filesystem::file_size(found, error);
  if (error) {
    refuse_file(found, "belongs to the checkpoint, but cannot be read: " + error.message());
  }
  if (size != static_cast<uint64_t>(file.size_bytes)) {
    refuse_file(found, "holds " + std::to_string(size) + " bytes instead of " +
                           std::to_string(file.size_bytes) + kRemedy);
  }
}

// Older versions wrote no checksums, neither of trainer.json nor of the other files.
void check_own_checksum(const path& file, std::string_view text, const json& object,
                        const TrainerState& state) {
  const bool files_have_one = std::ranges::any_of(
      state.files, [](const CheckpointFile& part) { return part.xxh3_128.has_value(); });
  const auto own = object.find(kChecksumName);
  if (own == object.end() && !files_have_one) return;
  const std::string written =
      own != object.end() && own->is_string() ? own->get<std::string>() : "";
  const std::string end = written + kBehindChecksum;
  const bool ends_as_written = !written.empty() && text.ends_with(end);
  const std::string found =
      ends_as_written ? text_digest(text.substr(0, text.size() - end.size())) : "";
  if (found == written && !found.empty()) return;
  refuse_file(file, "changed after it was written (checksum " +
                        (found.empty() ? "not found" : found) +
                        ", written: " + (written.empty() ? "not found" : written) + ")" + kRemedy);
}

}  // namespace

std::string to_json(const TrainerState& state) {
  std::string text = to_value(state).dump(2);
  text.replace(text.rfind('\n'), std::string::npos, kBeforeChecksum);
  return text + text_digest(text) + kBehindChecksum;
}

TrainerState read_trainer_state(const path& checkpoint) {
  const path file = checkpoint / kTrainerStateName;
  std::error_code error;
  if (!std::filesystem::exists(file, error)) {
    refuse_file(checkpoint, std::string("is no complete checkpoint: it holds no ") +
                                kTrainerStateName +
                                "; give a folder checkpoints/step-<N> of a run");
  }
  const std::string text = read_input_file(file);
  const json object = parse_json_object(file, text, kLargestTrainerStateBytes);
  TrainerState state;
  if (const json format = object.value("format", json()); format != TrainerState::kFormat) {
    throw ConfigError(file.string(), "format",
                      format.dump() + " is not a format that this version reads; allowed: " +
                          std::to_string(TrainerState::kFormat));
  }
  JsonFields(file.string()).read("", object, state);
  check_own_checksum(file, text, object, state);
  std::erase_if(state.files,
                [](const CheckpointFile& part) { return is_of_merged_model(part.name); });
  for (const CheckpointFile& part : state.files) check_file(checkpoint, part);
  return state;
}

void check_contents(const path& checkpoint, const TrainerState& state, int rank, int ranks) {
  std::vector<const CheckpointFile*> by_size;
  for (const CheckpointFile& file : state.files) by_size.push_back(&file);
  std::ranges::stable_sort(by_size, std::ranges::greater(), &CheckpointFile::size_bytes);
  for (size_t i = static_cast<size_t>(rank); i < by_size.size(); i += static_cast<size_t>(ranks)) {
    const CheckpointFile& file = *by_size[i];
    if (!file.xxh3_128) continue;
    const std::string found = checksum_of_file(checkpoint / file.name);
    if (found == *file.xxh3_128) continue;
    refuse_file(checkpoint / file.name, "changed after it was written (checksum " + found +
                                            ", written: " + *file.xxh3_128 + ")" + kRemedy);
  }
}

}  // namespace fsdp
