#include "runner/host/quota.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <iterator>
#include <sstream>
#include <system_error>
#include <vector>

#include "base/system/program.h"

namespace fsdp {
namespace {

using std::filesystem::path;

// Numbers may have a star (over the limit), or be in brackets (a server of Lustre is down).
std::optional<double> number_in(std::string word) {
  std::erase_if(word, [](char c) { return c == '*' || c == '[' || c == ']'; });
  int64_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return static_cast<double>(number);
}

// Reads "used soft hard grace".
std::optional<QuotaUse> use_in(const std::string* words, double unit) {
  const auto used = number_in(words[0]), soft = number_in(words[1]), hard = number_in(words[2]);
  if (!used || !soft || !hard) return std::nullopt;
  return QuotaUse{*used * unit, *soft * unit, *hard * unit, words[3]};
}

std::optional<dev_t> device_of(const path& file) {
  struct stat status {};
  return stat(file.c_str(), &status) == 0 ? std::optional(status.st_dev) : std::nullopt;
}

path mount_point_of(const path& folder) {
  std::error_code unknown;
  path place = std::filesystem::weakly_canonical(folder, unknown);
  while (!device_of(place) && place.has_relative_path()) place = place.parent_path();
  while (place.has_relative_path() && device_of(place.parent_path()) == device_of(place)) {
    place = place.parent_path();
  }
  return place;
}

// Reads the first row of `lfs quota -q` or `quota -w -p`. nullopt: there is none.
std::optional<Quota> read_quota(const std::string& output) {
  constexpr size_t kColumns = 4;
  constexpr double kKib = 1024;
  std::istringstream stream(output);
  std::vector<std::string> words{std::istream_iterator<std::string>(stream), {}};
  // Skips titles and the name of the file system. A long name has a line of its own.
  for (size_t i = 0; i + 2 * kColumns <= words.size(); ++i) {
    const auto bytes = use_in(&words[i], kKib);
    const auto files = use_in(&words[i + kColumns], 1);
    if (bytes && files) return Quota{*bytes, *files};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Quota> quota_of(const path& folder, std::chrono::milliseconds patience) {
  const std::string place = mount_point_of(folder).string();
  std::vector<std::string> environment = own_variables();
  std::erase_if(environment, [](const std::string& each) { return each.starts_with("LC_ALL="); });
  environment.emplace_back("LC_ALL=C");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"lfs", "quota", "-q", "-u", std::to_string(geteuid()), place},
        {"quota", "-u", "-w", "-p", "--filesystem=" + place}}) {
    try {
      const ProgramResult result = run_program(words, environment, patience);
      // `quota` exits with 1 if a limit is exceeded.
      if (const auto quota = read_quota(result.output); quota && !result.timed_out) return quota;
    } catch (const std::system_error&) {  // it is not here
    }
  }
  return std::nullopt;
}

}  // namespace fsdp
