// Finds addresses at which hosts reach each other. A loopback address is no answer.
#include "trainer/comm/host_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <vector>

#include "trainer/comm/socket_address.h"

namespace fsdp {
namespace {

constexpr int kAnyPort = 9;

std::string numeric(SocketAddress& address) {
  std::array<char, NI_MAXHOST> text{};
  getnameinfo(address.get(), address.size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  return text.data();
}

bool is_loopback(SocketAddress& address) {
  const std::string text = numeric(address);
  return text.starts_with("127.") || text == "::1";
}

bool resolves_beyond_loopback(const std::string& host) {
  std::vector<SocketAddress> addresses = resolve(host, kAnyPort);
  return std::any_of(addresses.begin(), addresses.end(),
                     [](SocketAddress& address) { return !is_loopback(address); });
}

// Returns the node's address from scontrol; empty if scontrol does not answer, for instance in a
// container.
std::string node_address(const std::string& node) {
  const bool is_name = std::all_of(node.begin(), node.end(), [](unsigned char character) {
    return std::isalnum(character) || character == '-' || character == '.' || character == '_';
  });
  if (!is_name) return "";
  const std::string command = "timeout 20 scontrol --oneliner show node " + node + " 2>/dev/null";
  const std::unique_ptr<FILE, int (*)(FILE*)> answer(popen(command.c_str(), "r"), pclose);
  if (!answer) return "";
  std::string text;
  for (int character; (character = std::fgetc(answer.get())) != EOF;) {
    text += static_cast<char>(character);
  }
  const std::string key = " NodeAddr=";
  const size_t place = text.find(key);
  if (place == std::string::npos) return "";
  const size_t begin = place + key.size();
  return text.substr(begin, text.find_first_of(" \n", begin) - begin);
}

}  // namespace

std::string address_of_slurm_node(const std::string& node) {
  if (resolves_beyond_loopback(node)) return node;
  if (const std::string address = node_address(node); !address.empty()) return address;
  const char* srun = std::getenv("SLURM_LAUNCH_NODE_IPADDR");
  return srun == nullptr ? node : srun;
}

std::string local_address_towards(const std::string& host) {
  for (SocketAddress& address : resolve(host, kAnyPort)) {
    const int descriptor = socket(address.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0) continue;
    SocketAddress own;
    // Connecting a datagram socket sends nothing: the kernel only chooses the route.
    const bool is_reached = connect(descriptor, address.get(), address.size) == 0 &&
                            getsockname(descriptor, own.get(), &own.size) == 0;
    close(descriptor);
    if (is_reached) return numeric(own);
  }
  throw std::runtime_error("there is no way from this host to '" + host + "'");
}

}  // namespace fsdp
