// Tells one line to each client of a port. Reading a line never takes longer than a second.
#include "trainer/comm/sign_post.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "trainer/comm/socket_address.h"

namespace fsdp {
namespace {

// Exceeds the length of any line: a sign's own text and the names in it.
constexpr size_t kLongestLine = 4096;

// Listens on every IPv4 and IPv6 address of this host. Returns -1 and sets errno on failure.
int listen_at(int port) {
  const bool has_ipv6 = access("/proc/net/if_inet6", F_OK) == 0;
  const int descriptor = socket(has_ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return -1;
  const int yes = 1;
  const int no = 0;
  setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  SocketAddress address;
  if (has_ipv6) {
    setsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    auto& any = reinterpret_cast<sockaddr_in6&>(address.storage);
    any.sin6_family = AF_INET6;
    any.sin6_port = htons(static_cast<uint16_t>(port));
    address.size = sizeof any;
  } else {
    auto& any = reinterpret_cast<sockaddr_in&>(address.storage);
    any.sin_family = AF_INET;
    any.sin_port = htons(static_cast<uint16_t>(port));
    address.size = sizeof any;
  }
  if (bind(descriptor, address.get(), address.size) == 0 && listen(descriptor, SOMAXCONN) == 0) {
    return descriptor;
  }
  const int error_number = errno;
  close(descriptor);
  errno = error_number;
  return -1;
}

int listen_at_first_free(const std::vector<int>& ports) {
  for (const int port : ports) {
    if (const int descriptor = listen_at(port); descriptor >= 0) return descriptor;
  }
  throw std::system_error(errno, std::generic_category(), "cannot listen at any of these ports");
}

void tell(int listener, const std::string& line) {
  while (true) {
    const int visitor = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (visitor < 0 && (errno == EINTR || errno == ECONNABORTED)) continue;
    if (visitor < 0) return;
    send(visitor, line.data(), line.size(), MSG_NOSIGNAL);
    close(visitor);
  }
}

std::string read_line(int descriptor) {
  std::string line;
  std::array<char, 256> part{};
  while (line.size() < kLongestLine && !line.ends_with('\n')) {
    const ssize_t count = recv(descriptor, part.data(), part.size(), 0);
    if (count <= 0) return "";
    line.append(part.data(), static_cast<size_t>(count));
  }
  if (line.ends_with('\n')) line.pop_back();
  return line;
}

}  // namespace

SignPost::SignPost(const std::vector<int>& ports, std::string line)
    : listener_(listen_at_first_free(ports)), teller_(tell, listener_, std::move(line) + "\n") {}

SignPost::~SignPost() {
  shutdown(listener_, SHUT_RDWR);
  teller_.join();
  close(listener_);
}

std::string read_sign(const std::string& host, int port) {
  const timeval patience{.tv_sec = 1, .tv_usec = 0};
  for (SocketAddress& address : resolve(host, port)) {
    const int descriptor = socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0) continue;
    setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    const bool is_connected = connect(descriptor, address.get(), address.size) == 0;
    const std::string line = is_connected ? read_line(descriptor) : "";
    close(descriptor);
    if (!line.empty()) return line;
  }
  return "";
}

}  // namespace fsdp
