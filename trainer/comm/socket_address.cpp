// Resolves the name of a host to addresses of sockets.
#include "trainer/comm/socket_address.h"

#include <netdb.h>

#include <algorithm>

namespace fsdp {

std::vector<SocketAddress> resolve(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;  // any single type, so that each address comes once
  addrinfo* found = nullptr;
  std::vector<SocketAddress> addresses;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) {
    return addresses;
  }
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    SocketAddress& address = addresses.emplace_back();
    std::copy_n(reinterpret_cast<const char*>(one->ai_addr), one->ai_addrlen,
                reinterpret_cast<char*>(&address.storage));
    address.size = one->ai_addrlen;
  }
  freeaddrinfo(found);
  return addresses;
}

}  // namespace fsdp
