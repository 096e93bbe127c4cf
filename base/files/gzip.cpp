// Compresses texts with zlib as gzip does. Files of other people are read up to a limit of size.
#include "base/files/gzip.h"

#include <zlib.h>

#include <new>
#include <stdexcept>
#include <vector>

namespace fsdp {
namespace {

constexpr int kGzip = 15 + 16;  // the largest window, and a header of gzip

void set_input(z_stream& stream, std::string_view bytes) {
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
}

}  // namespace

std::string gzipped(std::string_view bytes) {
  z_stream stream{};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzip, 8, Z_DEFAULT_STRATEGY) !=
      Z_OK) {
    throw std::bad_alloc();
  }
  std::string compressed(deflateBound(&stream, bytes.size()), '\0');
  set_input(stream, bytes);
  stream.next_out = reinterpret_cast<Bytef*>(compressed.data());
  stream.avail_out = static_cast<uInt>(compressed.size());
  deflate(&stream, Z_FINISH);
  compressed.resize(stream.total_out);
  deflateEnd(&stream);
  return compressed;
}

std::string gunzipped(std::string_view bytes, size_t most_bytes) {
  z_stream stream{};
  if (inflateInit2(&stream, kGzip) != Z_OK) throw std::bad_alloc();
  set_input(stream, bytes);
  std::string text;
  std::vector<char> part(size_t{64} << 10);
  int result = Z_OK;
  while (result == Z_OK && text.size() <= most_bytes) {
    stream.next_out = reinterpret_cast<Bytef*>(part.data());
    stream.avail_out = static_cast<uInt>(part.size());
    result = inflate(&stream, Z_NO_FLUSH);
    text.append(part.data(), part.size() - stream.avail_out);
  }
  inflateEnd(&stream);
  if (text.size() > most_bytes) {
    throw std::runtime_error("it holds more than " + std::to_string(most_bytes) + " bytes");
  }
  if (result != Z_STREAM_END) throw std::runtime_error("it is not a whole file of gzip");
  return text;
}

}  // namespace fsdp
