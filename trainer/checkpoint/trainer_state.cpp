#include "trainer/checkpoint/trainer_state.h"

#include <nlohmann/json.hpp>

#include "trainer/contract/config_error.h"
#include "trainer/contract/input_file.h"

namespace fsdp {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using std::filesystem::path;

template <typename T>
inline constexpr bool is_vector = false;
template <typename T>
inline constexpr bool is_vector<std::vector<T>> = true;

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
    T::visit_fields(member,
                    [&](const char* name, const auto& field) { object[name] = to_value(field); });
    return object;
  } else {
    return member;
  }
}

class StateReader {
 public:
  explicit StateReader(path file) : file_(std::move(file)) {}

  template <typename T>
  void read(const std::string& key, const json& value, T& member) const {
    if constexpr (is_optional<T>) {
      if (!value.is_null()) read(key, value, member.emplace());
    } else if constexpr (is_vector<T>) {
      require(value.is_array(), key, value, "a list");
      for (const json& item : value) read(key, item, member.emplace_back());
    } else if constexpr (NamedEnum<T>) {
      const auto named =
          value.is_string() ? enum_from_name<T>(value.get<std::string>()) : std::nullopt;
      require(named.has_value(), key, value, "a name that this version knows");
      member = *named;
    } else if constexpr (Fields<T>) {
      require(value.is_object(), key, value, "an object");
      T::visit_fields(member, [&](const char* name, auto& field) {
        const auto found = value.find(name);
        if (found == value.end()) throw ConfigError(file_.string(), name, "is missing");
        read(name, *found, field);
      });
    } else if constexpr (std::same_as<T, int64_t>) {
      require(value.is_number_unsigned(), key, value, "a whole number");
      member = value.get<int64_t>();
    } else if constexpr (std::same_as<T, double>) {
      require(value.is_number(), key, value, "a number");
      member = value.get<double>();
    } else {
      require(value.is_string(), key, value, "text");
      member = value.get<std::string>();
    }
  }

 private:
  void require(bool holds, const std::string& key, const json& value, const char* allowed) const {
    if (!holds) {
      throw ConfigError(file_.string(), key, value.dump() + " is not " + allowed);
    }
  }

  path file_;
};

void check_file(const path& checkpoint, const CheckpointFile& file) {
  const path found = checkpoint / file.name;
  std::error_code error;
  const auto size = std::filesystem::file_size(found, error);
  if (error) {
    refuse_file(found, "belongs to the checkpoint, but cannot be read: " + error.message());
  }
  if (size != static_cast<uint64_t>(file.size_bytes)) {
    refuse_file(found, "holds " + std::to_string(size) + " bytes instead of " +
                           std::to_string(file.size_bytes) +
                           "; the checkpoint is damaged: copy it again, or resume from another");
  }
}

}  // namespace

std::string to_json(const TrainerState& state) { return to_value(state).dump(2) + '\n'; }

TrainerState read_trainer_state(const path& checkpoint) {
  const path file = checkpoint / kTrainerStateName;
  std::error_code error;
  if (!std::filesystem::exists(file, error)) {
    refuse_file(checkpoint, std::string("is no complete checkpoint: it holds no ") +
                                kTrainerStateName +
                                "; give a folder checkpoints/step-<N> of a run");
  }
  const json object = parse_json_object(file, map_input_file(file)->text());
  const StateReader reader(file);
  TrainerState state;
  if (const json format = object.value("format", json()); format != TrainerState::kFormat) {
    throw ConfigError(file.string(), "format",
                      format.dump() + " is not a format that this version reads; allowed: " +
                          std::to_string(TrainerState::kFormat));
  }
  reader.read("", object, state);
  for (const CheckpointFile& part : state.files) check_file(checkpoint, part);
  return state;
}

}  // namespace fsdp
