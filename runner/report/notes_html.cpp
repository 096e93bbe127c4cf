#include "runner/report/notes_html.h"

#include <cmark.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <vector>

namespace fsdp {
namespace {

constexpr int kLevelsAbove = 2;
constexpr int kDeepestLevel = 6;

struct FreeNode {
  void operator()(cmark_node* node) const { cmark_node_free(node); }
};
struct FreeIterator {
  void operator()(cmark_iter* iterator) const { cmark_iter_free(iterator); }
};
struct FreeText {
  void operator()(char* text) const { std::free(text); }
};

std::vector<cmark_node*> nodes_of(cmark_node* document, cmark_node_type type) {
  std::vector<cmark_node*> nodes;
  const std::unique_ptr<cmark_iter, FreeIterator> iterator(cmark_iter_new(document));
  for (cmark_event_type event; (event = cmark_iter_next(iterator.get())) != CMARK_EVENT_DONE;) {
    cmark_node* node = cmark_iter_get_node(iterator.get());
    if (event == CMARK_EVENT_ENTER && cmark_node_get_type(node) == type) nodes.push_back(node);
  }
  return nodes;
}

void make_link(cmark_node* image) {
  cmark_node* link = cmark_node_new(CMARK_NODE_LINK);
  cmark_node_set_url(link, cmark_node_get_url(image));
  while (cmark_node* child = cmark_node_first_child(image)) cmark_node_append_child(link, child);
  cmark_node_replace(image, link);
  cmark_node_free(image);
}

}  // namespace

std::string notes_html(std::string_view markdown) {
  const std::unique_ptr<cmark_node, FreeNode> document(
      cmark_parse_document(markdown.data(), markdown.size(), CMARK_OPT_VALIDATE_UTF8));
  for (cmark_node* heading : nodes_of(document.get(), CMARK_NODE_HEADING)) {
    const int level = cmark_node_get_heading_level(heading) + kLevelsAbove;
    cmark_node_set_heading_level(heading, std::min(level, kDeepestLevel));
  }
  std::ranges::for_each(nodes_of(document.get(), CMARK_NODE_IMAGE), make_link);
  const std::unique_ptr<char, FreeText> html(cmark_render_html(document.get(), CMARK_OPT_DEFAULT));
  return html.get();
}

}  // namespace fsdp
