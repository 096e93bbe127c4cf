// Parses names on a hub. A path in a name never leaves its repository.
#include "contract/spec/hub_name.h"

#include <algorithm>
#include <stdexcept>

#include "base/text/utf8.h"

namespace fsdp {
namespace {

constexpr std::string_view kDatasets = "datasets/";
constexpr size_t kLongestNamePart = 96;
constexpr size_t kLongestPath = 1000;
constexpr size_t kCommitDigits = 40;

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// True if the hub allows this name for organizations and repositories.
bool is_name_part(std::string_view part) {
  return !part.empty() && part.size() <= kLongestNamePart && is_letter_or_digit(part.front()) &&
         (is_letter_or_digit(part.back()) || part.back() == '_') &&
         part.find("--") == std::string_view::npos && part.find("..") == std::string_view::npos &&
         std::ranges::all_of(part, [](char c) {
           return is_letter_or_digit(c) || c == '_' || c == '.' || c == '-';
         });
}

// Turns %2F into slashes.
std::string decoded_revision(std::string_view text) {
  std::string revision(text);
  for (const std::string_view slash : {"%2F", "%2f"}) {
    for (size_t at = revision.find(slash); at != std::string::npos; at = revision.find(slash)) {
      revision.replace(at, slash.size(), "/");
    }
  }
  return revision;
}

// The revision's length: up to the next slash, except for refs/pr/N and refs/convert/NAME.
size_t revision_length(std::string_view text) {
  for (const std::string_view prefix : {"refs/pr/", "refs/convert/"}) {
    if (text.starts_with(prefix)) return std::min(text.find('/', prefix.size()), text.size());
  }
  return std::min(text.find('/'), text.size());
}

// Takes organization/name[@revision] from the beginning of `text`.
std::optional<HubName> take_repository(std::string_view& text) {
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const size_t end = std::min(text.find_first_of("/@", slash + 1), text.size());
  if (!is_name_part(text.substr(0, slash))) return std::nullopt;
  if (!is_name_part(text.substr(slash + 1, end - slash - 1))) return std::nullopt;
  HubName name{.repository = std::string(text.substr(0, end))};
  text.remove_prefix(end);
  if (text.starts_with('@')) {
    text.remove_prefix(1);
    const size_t length = revision_length(text);
    name.revision = decoded_revision(text.substr(0, length));
    if (!is_harmless_path(name.revision)) return std::nullopt;
    text.remove_prefix(length);
  }
  return name;
}

}  // namespace

bool is_hexadecimal(std::string_view text, size_t digits) {
  return text.size() == digits && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

bool is_harmless_path(std::string_view path) {
  if (path.empty() || path.size() > kLongestPath || !is_utf8(path) ||
      holds_control_characters(path) || path.find('\\') != std::string_view::npos) {
    return false;
  }
  while (true) {
    const size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (part.empty() || part == "." || part == "..") return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
}

bool HubName::is_commit() const { return is_hexadecimal(revision, kCommitDigits); }

std::string HubName::repository_text() const {
  std::string text = (is_dataset ? std::string(kDatasets) : "") + repository;
  if (revision == "main") return text;
  text += '@';
  for (const char c : revision) c == '/' ? text += "%2F" : text += c;
  return text;
}

std::string HubName::text() const {
  return std::string(kHubScheme) + repository_text() + (path.empty() ? "" : '/' + path);
}

HubName parse_hub_name(std::string_view text) {
  if (!text.starts_with(kHubScheme)) throw std::invalid_argument("does not begin with hf://");
  text.remove_prefix(kHubScheme.size());
  const bool is_dataset = text.starts_with(kDatasets);
  if (is_dataset) text.remove_prefix(kDatasets.size());
  std::optional<HubName> name = take_repository(text);
  if (!name) {
    throw std::invalid_argument(
        "is no name on a hub; allowed: hf://[datasets/]organization/name[@revision][/path]");
  }
  name->is_dataset = is_dataset;
  if (text.empty()) return *name;
  text.remove_prefix(1);
  if (!is_harmless_path(text)) {
    throw std::invalid_argument("names no file that a repository can have");
  }
  name->path = std::string(text);
  return *name;
}

std::optional<HubName> bare_hub_name(std::string_view text) {
  std::optional<HubName> name = take_repository(text);
  return text.empty() ? name : std::nullopt;
}

}  // namespace fsdp
