#pragma once

#include <string_view>

namespace fsdp {

// The text of render_chats.py, which says what it answers.
extern const std::string_view kRenderChats;

}  // namespace fsdp
