#pragma once

#include <string>
#include <thread>
#include <vector>

namespace fsdp {

// Tells `line` to whoever connects, for as long as it stands: at the first of `ports` that no other
// program of this host has. Throws std::system_error where all are taken.
class SignPost {
 public:
  SignPost(const std::vector<int>& ports, std::string line);
  ~SignPost();
  SignPost(const SignPost&) = delete;
  SignPost& operator=(const SignPost&) = delete;

 private:
  int listener_;
  std::thread teller_;
};

// What is told there; empty where nobody tells a line within a second.
std::string read_sign(const std::string& host, int port);

}  // namespace fsdp
