#pragma once

#include <string_view>

namespace fsdp {

// The text of render_chats.py, which documents its answers.
extern const std::string_view kRenderChats;

}  // namespace fsdp
