#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace fsdp {

// Returns a free port of this host. No outgoing connection can take it before the caller does,
// because those have higher ports, as runs and jobs have.
inline int free_port() {
  constexpr int kFirstPort = 10000;
  constexpr int kLastPort = 19999;
  static int tried = 0;
  while (true) {
    // Programs beside this one have other process ids, and so begin at other ports.
    const int number = getpid() * 101 + tried++;
    const int port = kFirstPort + number % (kLastPort - kFirstPort + 1);
    const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    address.sin_port = htons(static_cast<uint16_t>(port));
    const bool is_free =
        bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    close(descriptor);
    if (is_free) return port;
  }
}

}  // namespace fsdp
