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

// Returns no address if `host`, a name or numbers, does not resolve.
std::vector<SocketAddress> resolve(const std::string& host, int port);

}  // namespace fsdp
