#include "runner/report/notes_images.h"

#include <fmt/format.h>
#include <nettle/base64.h>

#include <algorithm>
#include <charconv>

#include "contract/files/input_file.h"
#include "contract/text/config_error.h"
#include "contract/text/utf8.h"
#include "runner/report/notes_html.h"

namespace fsdp {
namespace {

// Decodes percent signs: editors write a space in a file name as %20.
std::string without_percents(std::string_view url) {
  std::string text;
  while (!url.empty()) {
    unsigned char byte = 0;
    const char* digits = url.data() + 1;
    const bool is_escape = url.front() == '%' && url.size() > 2 &&
                           std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2;
    text += is_escape ? static_cast<char>(byte) : url.front();
    url.remove_prefix(is_escape ? 3 : 1);
  }
  return text;
}

bool is_svg(std::string_view bytes) {
  constexpr size_t kMostBeforeRoot = 4096;
  const size_t begin = bytes.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  return begin != std::string_view::npos && bytes[begin] == '<' &&
         bytes.substr(0, kMostBeforeRoot).find("<svg") != std::string_view::npos;
}

// Returns the media type of the contents; the name does not matter. Empty: browsers cannot show it.
std::string_view media_type(std::string_view bytes) {
  if (bytes.starts_with("\x89PNG\r\n\x1a\n")) return "image/png";
  if (bytes.starts_with("\xff\xd8\xff")) return "image/jpeg";
  if (bytes.starts_with("GIF87a") || bytes.starts_with("GIF89a")) return "image/gif";
  if (bytes.starts_with("RIFF") && bytes.substr(8).starts_with("WEBP")) return "image/webp";
  return is_svg(bytes) ? "image/svg+xml" : "";
}

std::string base64(std::string_view bytes) {
  std::string text(BASE64_ENCODE_RAW_LENGTH(bytes.size()), '\0');
  base64_encode_raw(text.data(), bytes.size(), reinterpret_cast<const uint8_t*>(bytes.data()));
  return text;
}

}  // namespace

NotesImages::NotesImages(std::filesystem::path file)
    : file_(std::move(file)), bytes_left_(kMostImageBytes) {
  std::error_code error;
  folder_ = std::filesystem::canonical(std::filesystem::absolute(file_).parent_path(), error);
  if (error) refuse_unreadable(file_, error);
}

std::string NotesImages::data_url(std::string_view url) {
  const std::filesystem::path path = resolved(url);
  const InputFile file(path);
  if (file.size_bytes() > bytes_left_) {
    refuse(url, fmt::format("makes the notes' images too large; allowed: {} MiB together",
                            kMostImageBytes >> 20));
  }
  bytes_left_ -= file.size_bytes();
  std::string bytes(file.size_bytes(), '\0');
  file.read(0, std::as_writable_bytes(std::span(bytes)));
  const std::string_view type = media_type(bytes);
  if (type.empty()) {
    refuse(url, "is no image that a page can hold; allowed: PNG, JPEG, GIF, WebP, SVG");
  }
  return fmt::format("data:{};base64,{}", type, base64(bytes));
}

// Returns the image's path. Links are followed first, so that none leads out of the folder.
std::filesystem::path NotesImages::resolved(std::string_view url) const {
  std::error_code error;
  const std::filesystem::path named = folder_ / without_percents(url);
  const std::filesystem::path path = std::filesystem::weakly_canonical(named, error);
  if (error) refuse_unreadable(named, error);
  if (std::ranges::mismatch(folder_, path).in1 != folder_.end()) {
    refuse(url, "is an image outside the notes' folder; allowed: images in it or below it");
  }
  return path;
}

void NotesImages::refuse(std::string_view url, const std::string& problem) const {
  throw ConfigError(file_.string(), shortened(url, kMostOfMessage), problem);
}

}  // namespace fsdp
