#include <nlohmann/json.hpp>

#include "runner/report/member_columns.h"

// Columns for the keys of a run.
namespace fsdp {
namespace {

using nlohmann::json;

Value value_of(const json& value) {
  if (value.is_null() || value.is_object()) return {};
  if (value.is_number_integer()) return value.get<int64_t>();
  if (value.is_number()) return value.get<double>();
  return value.is_string() ? to_value(value.get<std::string>()) : value.dump();
}

template <Fields Section>
void add_keys(std::vector<Column>& columns, const Section& section, const std::string& prefix,
              const json::json_pointer& place) {
  Section::visit_fields(section, [&]<typename Member>(const char* name, const Member& member,
                                                      const char* documentation, auto&&...) {
    const std::string key = prefix + name;
    if constexpr (Fields<Member>) {
      add_keys(columns, member, key + '.', place / name);
    } else {
      const auto value = [pointer = place / name](const ReportRow& row) {
        const json spec = json::parse(row.run->spec, nullptr, /*allow_exceptions=*/false);
        return spec.contains(pointer) ? value_of(spec.at(pointer)) : Value();
      };
      constexpr Alignment kAlignment =
          std::same_as<Member, bool> ? Alignment::kLeft : alignment_of<Member>;  // true, false
      columns.push_back({key, "", documentation, kAlignment, value});
    }
  });
}

}  // namespace

std::span<const Column> key_columns() {
  static const std::vector<Column> all = [] {
    std::vector<Column> columns;
    add_keys(columns, RunSpec{}, "", json::json_pointer());
    return columns;
  }();
  return all;
}

}  // namespace fsdp
