// Reads a checkpoint's file for its checksum. The time of a start allows for long files.
#include "trainer/checkpoint/checksum.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/files/digest.h"
#include "base/files/input_file.h"
#include "base/system/start_up.h"

namespace fsdp {

std::string checksum_of_file(const std::filesystem::path& file) {
  begin_start_up_part("reading " + file.string());
  const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  Digest digest;
  const int error = descriptor < 0 ? errno : digest.add_file(descriptor);
  if (descriptor >= 0) close(descriptor);
  if (error != 0) refuse_file(file, "cannot be read: " + std::generic_category().message(error));
  return digest.text();
}

}  // namespace fsdp
