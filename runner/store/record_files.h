#pragma once

#include <exception>
#include <filesystem>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "base/files/input_file.h"
#include "base/files/whole_file.h"
#include "base/text/foreign_json.h"
#include "base/text/json.h"

// Structs in JSON files, which processes on other hosts read. Each file appears complete.
namespace fsdp {

using WarnOfFile = std::function<void(const std::string&)>;

// Throws std::system_error if the file cannot be written.
template <Fields Record>
void write_record(const std::filesystem::path& path, const Record& record,
                  OnDisk when = OnDisk::kNow) {
  replace_file(path, json_text(record) + '\n', when);
}

// True if the file must have the field. Earlier versions wrote fewer fields.
template <Fields Record>
bool is_required(std::string_view field) {
  if constexpr (requires { Record::is_required(field); }) {
    return Record::is_required(field);
  } else {
    return true;
  }
}

// Throws std::runtime_error if the time is before 1970 or after the year 9999.
inline void check_moment(int64_t unix_ms) {
  constexpr int64_t kLatest = 253'402'300'799'999;
  if (unix_ms < 0 || unix_ms > kLatest) {
    throw std::runtime_error("no moment: " + std::to_string(unix_ms));
  }
}

template <typename Value, typename Json>
Value value_from_json(const char* name, const Json& json) {
  if constexpr (Fields<Value>) {
    Value record;
    Value::visit_fields(record, [&]<typename T>(const char* field, T& member, auto&&...) {
      const auto found = json.find(field);
      if constexpr (is_optional<T>) {
        if (found == json.end() || found->is_null()) return;
        member = value_from_json<typename T::value_type>(field, *found);
      } else if (found != json.end() || is_required<Value>(field)) {
        member = value_from_json<T>(field, json.at(field));
      }
    });
    return record;
  } else if constexpr (is_vector<Value>) {
    Value items;
    for (const auto& item : json) {
      items.push_back(value_from_json<typename Value::value_type>(name, item));
    }
    return items;
  } else if constexpr (NamedEnum<Value>) {
    const auto named = enum_from_name<Value>(json.template get<std::string>());
    if (!named) throw std::runtime_error(std::string("unknown ") + name + ' ' + json.dump());
    return *named;
  } else if constexpr (std::same_as<Value, std::filesystem::path>) {
    return json.template get<std::string>();
  } else {
    return json.template get<Value>();
  }
}

// Throws std::runtime_error, ConfigError.
inline auto parse_record(const std::filesystem::path& path) {
  constexpr size_t kLargestBytes = 64 << 20;
  return parse_foreign_json(read_input_file(path, kLargestBytes), kLargestBytes);
}

// Throws what nlohmann::json throws, std::runtime_error, ConfigError.
template <Fields Record>
Record read_record(const std::filesystem::path& path) {
  auto json = parse_record(path);
  if (json.contains("job")) json["slurm_job"] = json["job"];  // as earlier versions named it
  Record record = value_from_json<Record>("", json);
  if constexpr (requires { record.started_unix_ms; }) check_moment(record.started_unix_ms);
  if constexpr (requires { record.ended_unix_ms; }) check_moment(record.ended_unix_ms);
  return record;
}

// Returns read(), or nullopt if the file is missing or read() throws. `warn` gets a line about an
// invalid file.
template <typename Read>
auto read_if_valid(const std::filesystem::path& path, const WarnOfFile& warn, Read read)
    -> std::optional<decltype(read())> {
  std::error_code not_there;
  if (!std::filesystem::exists(path, not_there)) return std::nullopt;
  try {
    return read();
  } catch (const std::exception& error) {
    warn(path.string() + ": left out, is not what fsdp-run writes there: " + error.what());
    return std::nullopt;
  }
}

// Returns nullopt if the file is missing or has no valid record.
template <Fields Record>
std::optional<Record> read_record(const std::filesystem::path& path, const WarnOfFile& warn) {
  return read_if_valid(path, warn, [&] { return read_record<Record>(path); });
}

}  // namespace fsdp
