#include <algorithm>
#include <nlohmann/json.hpp>

#include "runner/report/member_columns.h"

// The keys of a run as columns.
namespace fsdp {
namespace {

using nlohmann::json;

Value value_of(const json& value) {
  switch (value.type()) {
    case json::value_t::number_integer:
    case json::value_t::number_unsigned:
      return value.get<int64_t>();
    case json::value_t::number_float:
      return value.get<double>();
    case json::value_t::string:
      return to_value(value.get<std::string>());
    case json::value_t::boolean:
    case json::value_t::array:
      return value.dump();
    default:
      return {};
  }
}

std::string pointer_to(std::string key) {
  std::ranges::replace(key, '.', '/');
  return '/' + key;
}

template <Fields Section>
void add_keys(std::vector<Column>& columns, const Section& section, const std::string& prefix) {
  Section::visit_fields(section, [&]<typename Member>(const char* name, const Member& member,
                                                      const char* documentation, auto&&...) {
    const std::string key = prefix + name;
    if constexpr (Fields<Member>) {
      add_keys(columns, member, key + '.');
    } else {
      const auto value = [pointer = json::json_pointer(pointer_to(key))](const ReportRow& row) {
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
    add_keys(columns, RunSpec{}, "");
    return columns;
  }();
  return all;
}

}  // namespace fsdp
