#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "contract/data/records.h"
#include "contract/record/program.h"
#include "contract/tokenizers/tokenizer.h"

namespace fsdp {

// The text of render_chats.py, which documents its answers.
extern const std::string_view kRenderChats;

// A chat that a template or format cannot write.
struct MalformedChat : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct TextRange {
  size_t begin = 0, end = 0;  // bytes
};

// A chat as a template writes it.
struct RenderedChat {
  std::string text{};
  std::vector<TextRange> trained{};  // in their order; they do not overlap
  bool is_exact = false;           // the template says itself what is trained on
};

// Writes chats by a template, in a Python process with jinja2 (render_chats.py). The process starts
// with the first chat and ends with this object. One thread uses it.
class ChatRenderer {
 public:
  explicit ChatRenderer(ChatTemplate chat_template) : template_(std::move(chat_template)) {}

  // Turns of the role assistant are trained on. Throws MalformedChat if the template refuses the
  // chat, or takes too much time or memory. Throws ConfigError if the template cannot be read, and
  // (key: data.format) if there is no Python with jinja2.
  RenderedChat render(std::span<const Turn> turns);

 private:
  void start();

  ChatTemplate template_;
  std::unique_ptr<Conversation> python_;
};

}  // namespace fsdp
