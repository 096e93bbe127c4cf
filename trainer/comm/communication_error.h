#pragma once

#include <stdexcept>

namespace fsdp {

// Another rank or the connection to it failed: it did not arrive, stopped, or took too long.
class CommunicationError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace fsdp
