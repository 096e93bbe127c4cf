#include "runner/attempt/records.h"

#include <stdexcept>

#include "contract/spec/yaml_value.h"
#include "contract/text/foreign_json.h"
#include "contract/text/json.h"
#include "runner/host/whole_file.h"

namespace fsdp {
namespace {

template <Fields Record>
void write_record(const std::filesystem::path& path, const Record& record) {
  std::string text;
  append_json(text, record);
  replace_file(path, text + '\n');
}

template <Fields Record>
Record record_from_json(std::string_view text) {
  const auto json = parse_foreign_json(text);
  Record record;
  Record::visit_fields(record, [&]<typename T>(const char* name, T& member) {
    if constexpr (is_optional<T>) {
      const auto found = json.find(name);
      if (found != json.end() && !found->is_null()) {
        member = found->template get<typename T::value_type>();
      }
    } else if constexpr (NamedEnum<T>) {
      const auto named = enum_from_name<T>(json.at(name).template get<std::string>());
      if (!named) {
        throw std::runtime_error(std::string("unknown ") + name + ' ' + json.at(name).dump());
      }
      member = *named;
    } else {
      member = json.at(name).template get<T>();
    }
  });
  return record;
}

template <Fields Record>
std::optional<Record> read_record(const std::filesystem::path& path, const WarnOfFile& warn) {
  std::error_code not_there;
  if (!std::filesystem::exists(path, not_there)) return std::nullopt;
  try {
    return record_from_json<Record>(read_text_file(path));
  } catch (const std::exception& error) {  // from nlohmann::json, or an unknown name
    warn(path.string() + ": left out, is not what a job writes there: " + error.what());
    return std::nullopt;
  }
}

}  // namespace

void write_launch_record(const RunPaths& paths, int attempt, const LaunchRecord& start) {
  write_record(paths.launch_record(attempt), start);
}

void write_end_record(const RunPaths& paths, int attempt, const EndRecord& end) {
  write_record(paths.end_record(attempt), end);
}

std::optional<LaunchRecord> read_launch_record(const RunPaths& paths, int attempt,
                                               const WarnOfFile& warn) {
  return read_record<LaunchRecord>(paths.launch_record(attempt), warn);
}

std::optional<EndRecord> read_end_record(const RunPaths& paths, int attempt,
                                         const WarnOfFile& warn) {
  return read_record<EndRecord>(paths.end_record(attempt), warn);
}

}  // namespace fsdp
