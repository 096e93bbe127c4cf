#include "contract/spec/slurm_spec.h"

#include <cctype>
#include <charconv>
#include <regex>

namespace fsdp {
namespace {

bool matches(std::string_view text, const std::regex& pattern) {
  return std::regex_match(text.begin(), text.end(), pattern);
}

}  // namespace

Range one_line() {
  static const TextForm kForm{.description = "one line of text", .holds = nullptr};
  return {.form = &kForm};
}

Range slurm_time() {
  static const TextForm kForm{
      .description =
          "a time as Slurm writes it: minutes, MM:SS, HH:MM:SS, D-HH, D-HH:MM, "
          "D-HH:MM:SS",
      .holds = [](std::string_view text) {
        static const std::regex kTime(R"(\d{1,9}(:\d{1,9}){0,2}|\d{1,9}-\d{1,9}(:\d{1,9}){0,2})");
        return matches(text, kTime);
      }};
  return {.form = &kForm};
}

Range slurm_memory() {
  static const TextForm kForm{
      .description = "MiB or, with K, M, G or T, another unit: 4000, 16G; 0: all of a node's",
      .holds = [](std::string_view text) {
        static const std::regex kMemory(R"(\d{1,12}[KMGTkmgt]?)");
        return matches(text, kMemory);
      }};
  return {.form = &kForm};
}

Range assignment() {
  static const TextForm kForm{
      .description = "NAME=value, of which NAME has letters, digits and _ and begins with no digit",
      .holds = [](std::string_view text) {
        static const std::regex kAssignment("[A-Za-z_][A-Za-z0-9_]*=.*");
        return matches(text, kAssignment);
      }};
  return {.form = &kForm};
}

Range sbatch_option() {
  static const TextForm kForm{
      .description = "an option such as --nice=100",
      .holds = [](std::string_view text) { return text.starts_with("--") && text.size() > 2; },
      .dropped_prefix = "#SBATCH "};
  return {.form = &kForm};
}

std::optional<int64_t> node_memory_bytes(const SlurmSpec& slurm) {
  constexpr std::string_view kUnits = "KMGT";
  int64_t amount = 0;
  const auto [end, error] =
      std::from_chars(slurm.mem.data(), slurm.mem.data() + slurm.mem.size(), amount);
  if (error != std::errc() || amount == 0) return std::nullopt;
  const bool has_unit = end != slurm.mem.data() + slurm.mem.size();
  const char unit = has_unit ? static_cast<char>(std::toupper(*end)) : 'M';
  const int shift = 10 * (static_cast<int>(kUnits.find(unit)) + 1);
  constexpr int64_t kMost = int64_t{1} << 60;
  return amount > (kMost >> shift) ? kMost : amount << shift;
}

}  // namespace fsdp
