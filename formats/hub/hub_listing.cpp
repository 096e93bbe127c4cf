#include "formats/hub/hub_listing.h"

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/text/foreign_json.h"
#include "base/text/json.h"
#include "base/text/utf8.h"
#include "contract/spec/hub_name.h"

namespace fsdp {
namespace {

using nlohmann::json;

constexpr int64_t kLargestFileBytes = int64_t{1} << 50;
constexpr size_t kLargestListingBytes = 256 << 20;
constexpr size_t kSha256Digits = 64;
constexpr size_t kSha1Digits = 40;

ContentHash hash_of(const json& entry) {
  if (const auto lfs = entry.find("lfs"); lfs != entry.end() && lfs->is_object()) {
    return {true, lfs->value("oid", "")};
  }
  return {false, entry.value("oid", "")};
}

}  // namespace

ListedFile listed_file(const json& entry, const std::string& hub) {
  const json& size = entry.at("size");
  ListedFile file;
  file.path = entry.at("path").get<std::string>();
  file.size_bytes = size.is_number_integer() ? size.get<int64_t>() : -1;
  file.hash = hash_of(entry);
  if (!is_harmless_path(file.path)) {
    throw std::runtime_error(hub + " lists the file name '" +
                             visible_line(shortened(file.path, 200)) +
                             "', which leads out of a repository or cannot be shown");
  }
  if (file.size_bytes < 0 || file.size_bytes > kLargestFileBytes) {
    throw std::runtime_error(hub + " lists " + file.path + " with a size that no file has");
  }
  if (!is_hexadecimal(file.hash.text, file.hash.is_sha256 ? kSha256Digits : kSha1Digits)) {
    throw std::runtime_error(hub + " lists " + file.path + " without a hash");
  }
  return file;
}

std::string listing_text(const HubListing& listing) {
  std::vector<JsonObject> files;
  for (const ListedFile& file : listing.files) {
    JsonObject& entry = files.emplace_back();
    entry.add("path", file.path).add("size", file.size_bytes);
    if (file.hash.is_sha256) {
      entry.add("lfs", JsonObject().add("oid", file.hash.text));
    } else {
      entry.add("oid", file.hash.text);
    }
  }
  return JsonObject()
      .add("folder", listing.folder)
      .add("is_recursive", listing.is_recursive)
      .add("files", files)
      .text();
}

HubListing parse_listing(std::string_view text) {
  const json parsed = parse_foreign_json(text, kLargestListingBytes);
  HubListing listing;
  parsed.at("folder").get_to(listing.folder);
  parsed.at("is_recursive").get_to(listing.is_recursive);
  for (const json& entry : parsed.at("files")) {
    listing.files.push_back(listed_file(entry, "the listing"));
  }
  return listing;
}

}  // namespace fsdp
