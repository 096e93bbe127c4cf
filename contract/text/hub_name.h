#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace fsdp {

// A repository on a Hugging Face hub, or a file or folder in one, as Hugging Face writes it:
// hf://[datasets/]<organization>/<name>[@<revision>][/<path>].
struct HubName {
  bool is_dataset = false;
  std::string repository{};       // "organization/name"
  std::string revision = "main";  // a branch, a tag or a commit
  std::string path{};             // in the repository; empty: the repository

  bool operator==(const HubName&) const = default;
  bool is_commit() const;               // whether the revision is a whole commit's hash
  std::string repository_text() const;  // "datasets/organization/name@revision", main left out
  std::string text() const;             // "hf://..."
};

inline constexpr std::string_view kHubScheme = "hf://";

// Throws std::invalid_argument, which says what is wrong, when `text` is no such name.
HubName parse_hub_name(std::string_view text);

// organization/name or organization/name@revision, which may as well be a relative path; absent:
// `text` has another form.
std::optional<HubName> bare_hub_name(std::string_view text);

// Whether `path` leads to a file below the folder that it starts from, and is harmless to print:
// no "..", no control characters, nothing empty or absolute. Servers name files.
bool is_harmless_path(std::string_view path);

// Whether `text` is `digits` lower-case hexadecimal digits.
bool is_hexadecimal(std::string_view text, size_t digits);

}  // namespace fsdp
