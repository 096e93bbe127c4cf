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

// An event file of TensorBoard. Each tensorflow.Event message is a TFRecord: length, masked CRC-32C
// of the length, bytes, masked CRC-32C of the bytes. A scalar is a 32-bit float, as in
// TensorBoard's own writer. Throws std::system_error if the file cannot be written.
class TensorboardFile {
 public:
  // TensorBoard finds files with "tfevents" in their names. Writes the version, dated
  // `time_unix_ms`.
  TensorboardFile(std::filesystem::path path, int64_t time_unix_ms);

  void add_scalars(int64_t step, int64_t time_unix_ms,
                   std::span<const std::pair<std::string, double>> scalars);
  // TensorBoard shows the text as Markdown.
  void add_text(int64_t time_unix_ms, std::string_view tag, std::string_view markdown);
  void close() { file_.close(); }

 private:
  void write_record(std::string_view bytes);

  OutputFile file_;
};

}  // namespace fsdp
