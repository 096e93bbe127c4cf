#include "runner/page/notes_html.h"

#include <cmark-gfm-core-extensions.h>
#include <cmark-gfm.h>
#include <fmt/format.h>
#include <nettle/base64.h>
#include <strings.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <vector>

#include "base/files/input_file.h"
#include "base/text/config_error.h"
#include "base/text/utf8.h"

namespace fsdp {
namespace {

constexpr int kLevelsAbove = 2;
constexpr int kDeepestLevel = 6;

// Frees what a C library allocated.
template <auto Free>
struct Freed {
  void operator()(auto* pointer) const { Free(pointer); }
};

// Throws ConfigError if a table could be too large. The parser gives each row as many cells as the
// heading has, so a short text could take all memory.
void require_small_tables(std::string_view markdown, const std::filesystem::path& file) {
  constexpr size_t kMostCells = 1'000'000;
  size_t lines = 1, bars = 0, most_bars = 0;
  for (const char c : markdown) {
    const bool is_line_end = c == '\n' || c == '\r';
    lines += is_line_end ? 1 : 0;
    bars = is_line_end ? 0 : bars + (c == '|' ? 1 : 0);
    most_bars = std::max(most_bars, bars);
  }
  if (lines * most_bars > kMostCells) {
    throw ConfigError(file.string(), "",
                      fmt::format("has {} lines, one with {} columns: a table could have {} cells; "
                                  "allowed: {}",
                                  lines, most_bars, lines * most_bars, kMostCells));
  }
}

using Parser = std::unique_ptr<cmark_parser, Freed<cmark_parser_free>>;

Parser parser_with_tables() {
  cmark_gfm_core_extensions_ensure_registered();
  Parser parser(cmark_parser_new(CMARK_OPT_VALIDATE_UTF8));
  cmark_parser_attach_syntax_extension(parser.get(), cmark_find_syntax_extension("table"));
  return parser;
}

std::vector<cmark_node*> nodes_of(cmark_node* document, cmark_node_type type) {
  std::vector<cmark_node*> nodes;
  const std::unique_ptr<cmark_iter, Freed<cmark_iter_free>> iterator(cmark_iter_new(document));
  for (cmark_event_type event; (event = cmark_iter_next(iterator.get())) != CMARK_EVENT_DONE;) {
    cmark_node* node = cmark_iter_get_node(iterator.get());
    if (event == CMARK_EVENT_ENTER && cmark_node_get_type(node) == type) nodes.push_back(node);
  }
  return nodes;
}

bool begins_with_any(const std::string& url, std::initializer_list<std::string_view> words) {
  return std::ranges::any_of(words, [&](std::string_view word) {
    return strncasecmp(url.c_str(), word.data(), word.size()) == 0;
  });
}

bool is_of_web(const std::string& url) { return begins_with_any(url, {"http://", "https://"}); }

// True if the notes contain the image itself, in a format that cmark accepts.
bool is_embedded(const std::string& url) {
  return begins_with_any(
      url, {"data:image/png;", "data:image/jpeg;", "data:image/gif;", "data:image/webp;"});
}

void make_link(cmark_node* image) {
  cmark_node* link = cmark_node_new(CMARK_NODE_LINK);
  cmark_node_set_url(link, cmark_node_get_url(image));
  while (cmark_node* child = cmark_node_first_child(image)) cmark_node_append_child(link, child);
  cmark_node_replace(image, link);
  cmark_node_free(image);
}

void keep_text_only(cmark_node* link) {
  while (cmark_node* child = cmark_node_first_child(link)) cmark_node_insert_before(link, child);
  cmark_node_free(link);
}

// --- images ---

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

// Embeds the images that notes name.
class NotesImages {
 public:
  // `file` holds the notes. Its folder holds the images.
  explicit NotesImages(std::filesystem::path file);

  // Returns the image as a URL of its own contents. Throws ConfigError as notes_html() says.
  std::string data_url(std::string_view url);

 private:
  std::filesystem::path resolved(std::string_view url) const;
  [[noreturn]] void refuse(std::string_view url, const std::string& problem) const;

  std::filesystem::path file_;
  std::filesystem::path folder_;
  uint64_t bytes_left_;
};

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

// Returns the image's path. Follows links before the check, so no link leads out of the folder.
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

// cmark refuses SVG as data, so images are replaced by numbers first. No other text becomes such a
// tag, because cmark writes "&lt;" for "<".
constexpr std::string_view kNumberedImage = "<img src=\"image:";

std::vector<std::string> number_images(cmark_node* document, const std::filesystem::path& file) {
  NotesImages images(file);
  std::vector<std::string> urls;
  for (cmark_node* image : nodes_of(document, CMARK_NODE_IMAGE)) {
    const std::string url = cmark_node_get_url(image);
    if (is_of_web(url)) {
      make_link(image);
    } else if (!is_embedded(url)) {
      cmark_node_set_url(image, fmt::format("image:{}", urls.size()).c_str());
      urls.push_back(images.data_url(url));
    }
  }
  return urls;
}

std::string with_images(std::string_view html, const std::vector<std::string>& urls) {
  std::string text;
  for (size_t at; (at = html.find(kNumberedImage)) != std::string_view::npos;) {
    text.append(html.substr(0, at)).append("<img src=\"");
    html.remove_prefix(at + kNumberedImage.size());
    size_t number = 0;
    const char* end = std::from_chars(html.data(), html.data() + html.size(), number).ptr;
    text += urls.at(number);
    html.remove_prefix(static_cast<size_t>(end - html.data()));
  }
  return text.append(html);
}

}  // namespace

std::string notes_html(std::string_view markdown, const std::filesystem::path& file) {
  require_small_tables(markdown, file);
  const Parser parser = parser_with_tables();
  cmark_parser_feed(parser.get(), markdown.data(), markdown.size());
  const std::unique_ptr<cmark_node, Freed<cmark_node_free>> document(
      cmark_parser_finish(parser.get()));
  for (cmark_node* heading : nodes_of(document.get(), CMARK_NODE_HEADING)) {
    const int level = cmark_node_get_heading_level(heading) + kLevelsAbove;
    cmark_node_set_heading_level(heading, std::min(level, kDeepestLevel));
  }
  const std::vector<std::string> images = number_images(document.get(), file);
  for (cmark_node* link : nodes_of(document.get(), CMARK_NODE_LINK)) {
    if (!is_of_web(cmark_node_get_url(link))) keep_text_only(link);
  }
  const std::unique_ptr<char, Freed<std::free>> html(cmark_render_html(
      document.get(), CMARK_OPT_DEFAULT, cmark_parser_get_syntax_extensions(parser.get())));
  return with_images(html.get(), images);
}

}  // namespace fsdp
