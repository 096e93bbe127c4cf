#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace fsdp {

// A repository on a Hugging Face hub, or a file or folder in one, in Hugging Face's notation:
// hf://[datasets/]<organization>/<name>[@<revision>][/<path>].
struct HubName {
  bool is_dataset = false;
  std::string repository{};       // "organization/name"
  std::string revision = "main";  // a branch, a tag or a commit
  std::string path{};             // within the repository; empty: all of it

  bool operator==(const HubName&) const = default;
  bool is_commit() const;               // true if the revision is a full commit hash
  std::string repository_text() const;  // "datasets/organization/name@revision", main left out
  std::string text() const;             // "hf://..."
};

inline constexpr std::string_view kHubScheme = "hf://";

// Throws std::invalid_argument with the problem if `text` is not such a name.
HubName parse_hub_name(std::string_view text);

// Parses organization/name or organization/name@revision, which may also be a relative path.
// nullopt if `text` has another form.
std::optional<HubName> bare_hub_name(std::string_view text);

// True if `path` leads to a file below its starting folder and is harmless to print. It is UTF-8
// without control characters and backslashes, and no part of it is empty, "." or "..". Needed
// because servers name files.
bool is_harmless_path(std::string_view path);

// True if `text` is `digits` lower-case hexadecimal digits.
bool is_hexadecimal(std::string_view text, size_t digits);

}  // namespace fsdp
