#pragma once

#include <sys/socket.h>

#include <string>
#include <vector>

namespace fsdp {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

// Returns the addresses of `host`, a name or a numeric address; none if `host` does not resolve.
std::vector<SocketAddress> resolve(const std::string& host, int port);

}  // namespace fsdp
