#pragma once

#include <cerrno>

namespace fsdp {

// True if this error number means that a disk or a quota is full.
inline bool is_disk_full(int error) { return error == ENOSPC || error == EDQUOT; }

}  // namespace fsdp
