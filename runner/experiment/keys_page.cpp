#include "runner/experiment/keys_page.h"

#include "contract/spec/run_spec.h"
#include "contract/spec/yaml_value.h"
#include "runner/experiment/experiment_keys.h"

namespace fsdp {
namespace {

void append_entry(std::string& out, const std::string& key, const std::string& type,
                  const std::string& documentation) {
  out += "  " + key + ": " + type + "\n      " + documentation + "\n";
}

template <typename Section>
void append_fields(std::string& out, const Section& section, const std::string& prefix) {
  Section::visit_fields(section, [&](const char* name, const auto& member,
                                     const char* documentation, const Range& range, auto...) {
    using Member = std::remove_cvref_t<decltype(member)>;
    const std::string key = prefix + name;
    if constexpr (Fields<Member>) {
      append_entry(out, key,
                   HasShortForm<Member> ? "a map, or in short the value of its first key" : "a map",
                   documentation);
      append_fields(out, member, key + '.');
    } else {
      append_entry(out, key, allowed_values<Member>(range) + "; default: " + yaml_text(member),
                   documentation);
    }
  });
}

}  // namespace

std::string experiment_reference() {
  std::string text = "An experiment file\n\n";
  for (const ExperimentKey& key : experiment_keys()) {
    append_entry(text, std::string(key.path), std::string(key.type),
                 std::string(key.documentation));
  }
  text +=
      "\nA run's keys, nested or dotted; later ones win: base, the profile's set, the point, the\n"
      "sweep's values, --set. A value may follow from other keys of the run: ${strategy.ranks}, or "
      "a\n"
      "product or quotient of such references and numbers, ${batch.size_per_rank} * 1e-4. In\n"
      "[...] and {...} it stands in quotes.\n\n";
  append_fields(text, RunSpec{}, "");
  return text;
}

}  // namespace fsdp
