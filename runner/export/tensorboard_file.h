#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "runner/export/output_file.h"

namespace fsdp {

// CRC-32C (Castagnoli) of `bytes`.
uint32_t crc32c(std::string_view bytes);

// A file of TensorBoard's: a TFRecord (length, masked CRC-32C of the length, bytes, masked CRC-32C
// of the bytes) for each message tensorflow.Event. A scalar is a 32-bit float, as TensorBoard's
// own writer has it. Throws std::system_error when it cannot be written.
class TensorboardFile {
 public:
  // `path`'s name holds "tfevents", by which TensorBoard knows it. Writes the version, as of
  // `time_unix_ms`.
  TensorboardFile(std::filesystem::path path, int64_t time_unix_ms);

  void add_scalars(int64_t step, int64_t time_unix_ms,
                   std::span<const std::pair<std::string, double>> scalars);
  // Shown as Markdown.
  void add_text(int64_t time_unix_ms, std::string_view tag, std::string_view markdown);
  void close() { file_.close(); }

 private:
  void write_record(std::string_view bytes);

  OutputFile file_;
};

}  // namespace fsdp
