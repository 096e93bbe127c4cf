// Writes TensorBoard's event files without TensorBoard.
#include <fmt/format.h>

#include <bit>

#include "base/text/utf8.h"
#include "contract/spec/run_spec_yaml.h"
#include "runner/export/exported_run.h"

namespace fsdp {
namespace {

template <typename Integer>
std::string little_endian(Integer value) {
  std::string bytes;
  for (size_t i = 0; i < sizeof(value); ++i) bytes += static_cast<char>(value >> (8 * i) & 0xff);
  return bytes;
}

// Returns a checksum, masked as in TFRecord. Unmasked CRCs of data that holds CRCs are unreliable.
std::string masked_crc(std::string_view bytes) {
  return little_endian(std::rotr(crc32c(bytes), 15) + 0xA282EAD8);
}

// A Protocol Buffers message, built field by field.
class Message {
 public:
  Message& integer(int field, int64_t value) {
    key(field, 0);
    varint(static_cast<uint64_t>(value));
    return *this;
  }
  Message& real(int field, double value) {
    key(field, 1);
    bytes_ += little_endian(std::bit_cast<uint64_t>(value));
    return *this;
  }
  Message& real(int field, float value) {
    key(field, 5);
    bytes_ += little_endian(std::bit_cast<uint32_t>(value));
    return *this;
  }
  Message& text(int field, std::string_view bytes) {
    key(field, 2);
    varint(bytes.size());
    bytes_ += bytes;
    return *this;
  }
  Message& message(int field, const Message& inner) { return text(field, inner.bytes_); }

  const std::string& bytes() const { return bytes_; }

 private:
  void key(int field, int wire_type) { varint(static_cast<uint64_t>(field << 3 | wire_type)); }
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

// tensorflow/core/util/event.proto
constexpr int kEventWallTime = 1, kEventStep = 2, kEventFileVersion = 3, kEventSummary = 5;
// tensorflow/core/framework/summary.proto
constexpr int kSummaryValue = 1;
constexpr int kValueTag = 1, kValueSimple = 2, kValueTensor = 8, kValueMetadata = 9;
constexpr int kMetadataPlugin = 1, kMetadataDataClass = 4, kPluginName = 1;
constexpr int64_t kDataClassTensor = 2;
// tensorflow/core/framework/tensor.proto, tensor_shape.proto, types.proto
constexpr int kTensorType = 1, kTensorShape = 2, kTensorText = 8;
constexpr int kShapeDimension = 2, kDimensionSize = 1;
constexpr int64_t kTypeText = 7;

// A tensorflow.Event message.
Message event(int64_t time_unix_ms) {
  return Message().real(kEventWallTime, static_cast<double>(time_unix_ms) / 1000);
}

// Returns a text, which TensorBoard shows as Markdown.
Message text_summary(std::string_view tag, std::string_view markdown) {
  const Message metadata = Message()
                               .message(kMetadataPlugin, Message().text(kPluginName, "text"))
                               .integer(kMetadataDataClass, kDataClassTensor);
  const Message shape = Message().message(kShapeDimension, Message().integer(kDimensionSize, 1));
  const Message tensor = Message()
                             .integer(kTensorType, kTypeText)
                             .message(kTensorShape, shape)
                             .text(kTensorText, markdown);
  return Message().message(kSummaryValue, Message()
                                              .text(kValueTag, tag)
                                              .message(kValueTensor, tensor)
                                              .message(kValueMetadata, metadata));
}

// Returns a moment's figures. A scalar is a 32-bit float, as in TensorBoard's own writer.
Message summary_of(const Moment& moment) {
  Message summary;
  for (const auto& [tag, value] : moment.figures) {
    summary.message(kSummaryValue,
                    Message().text(kValueTag, tag).real(kValueSimple, static_cast<float>(value)));
  }
  return summary;
}

// Returns a TFRecord: length, masked CRC-32C of the length, bytes, masked CRC-32C of the bytes.
std::string record_of(const Message& message) {
  const std::string length = little_endian(static_cast<uint64_t>(message.bytes().size()));
  return length + masked_crc(length) + message.bytes() + masked_crc(message.bytes());
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  constexpr uint32_t kCastagnoliReversed = 0x82F63B78;
  uint32_t crc = ~0U;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? kCastagnoliReversed : 0);
  }
  return ~crc;
}

// TensorBoard finds files with "tfevents" in their names.
void write_tensorboard(const Store& store, const ComparisonRow& run,
                       const std::filesystem::path& folder) {
  const int64_t started_unix_ms = run.started_unix_ms.value_or(0);
  OutputFile file(folder / fmt::format("events.out.tfevents.{}.fsdp-run", started_unix_ms / 1000));
  file.write(record_of(event(started_unix_ms).text(kEventFileVersion, "brain.Event:2")));
  const std::string specification = "```yaml\n" + visible_lines(to_yaml(run.spec)) + "```\n";
  file.write(record_of(
      event(started_unix_ms).message(kEventSummary, text_summary("specification", specification))));
  for (const Moment& moment : moments_of(store, run.run, static_cast<int>(*run.attempt))) {
    file.write(record_of(event(moment.time_unix_ms)
                             .integer(kEventStep, moment.step)
                             .message(kEventSummary, summary_of(moment))));
  }
  file.close();
}

}  // namespace fsdp
