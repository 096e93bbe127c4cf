// Connects ranks on CPUs by gloo. gloo only carries the messages; sums are ours.
#include <cstdlib>
#include <sstream>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "trainer/comm/backends.h"
#include "trainer/comm/host_address.h"

namespace fsdp {

c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const Membership& membership,
                                                    std::chrono::milliseconds connect_timeout) {
  using Gloo = c10d::ProcessGroupGloo;
  auto options = Gloo::Options::create(connect_timeout);
  options->threads = 1;
  const char* interfaces = std::getenv("GLOO_SOCKET_IFNAME");
  if (membership.single_host) {
    options->devices.push_back(Gloo::createDeviceForHostname("127.0.0.1"));
  } else if (interfaces != nullptr && *interfaces != '\0') {
    std::istringstream names(interfaces);
    for (std::string name; std::getline(names, name, ',');) {
      options->devices.push_back(Gloo::createDeviceForInterface(name));
    }
  } else {
    options->devices.push_back(
        Gloo::createDeviceForHostname(local_address_towards(membership.master_address)));
  }
  return c10::make_intrusive<Gloo>(membership.store, membership.rank, membership.size(), options);
}

}  // namespace fsdp
