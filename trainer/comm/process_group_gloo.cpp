#include <cstdlib>
#include <sstream>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "trainer/comm/backends.h"

namespace fsdp {
namespace {

class AbortableGloo : public c10d::ProcessGroupGloo {
 public:
  using c10d::ProcessGroupGloo::ProcessGroupGloo;

  // Ends whatever waits for a peer, here and there, with an error. The object is libtorch's, whose
  // gloo is newer than the headers: the sanitizer does not know its type.
  __attribute__((no_sanitize("vptr"))) void abort() override {
    for (const auto& context : contexts_) context->closeConnections();
  }
};

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    const WorldEnvironment& world,
                                                    std::chrono::milliseconds timeout) {
  using Gloo = AbortableGloo;
  auto options = Gloo::Options::create(timeout);
  options->threads = 1;
  const char* interfaces = std::getenv("GLOO_SOCKET_IFNAME");
  if (world.single_host()) {
    options->devices.push_back(Gloo::createDeviceForHostname("127.0.0.1"));
  } else if (interfaces != nullptr && *interfaces != '\0') {
    std::istringstream names(interfaces);
    for (std::string name; std::getline(names, name, ',');) {
      options->devices.push_back(Gloo::createDeviceForInterface(name));
    }
  } else {
    options->devices.push_back(Gloo::createDefaultDevice());
  }
  return c10::make_intrusive<Gloo>(store, world.rank, world.world_size, options);
}

}  // namespace fsdp
