#include "contract/data/parquet_rows.h"

#include <dlfcn.h>
#include <fcntl.h>

#include <cerrno>

namespace fsdp {
namespace {

// Loads the library, which stays loaded.
OpenParquetRows* load_parquet_library(const std::filesystem::path& file) {
  const auto program = std::filesystem::read_symlink("/proc/self/exe");
  const auto library = program.parent_path() / "lib/libfsdp-parquet.so";
  if (!std::filesystem::exists(library)) {
    refuse_file(file,
                "is Parquet, and what reads it is not built; ./fsdp-run FILE builds it where FILE "
                "or --set names a .parquet file. Or make it JSON lines: "
                "pandas.read_parquet(...).to_json(..., orient='records', lines=True)");
  }
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* open = handle == nullptr ? nullptr : dlsym(handle, kOpenParquetRows);
  if (open == nullptr) {
    refuse_file(file, std::string("is Parquet, and what reads it does not load: ") + dlerror());
  }
  return reinterpret_cast<OpenParquetRows*>(open);
}

}  // namespace

std::unique_ptr<ParquetRows> open_parquet_rows(const InputFile& file) {
  OpenParquetRows* const open = load_parquet_library(file.path());
  const int descriptor = fcntl(file.descriptor(), F_DUPFD_CLOEXEC, 0);
  if (descriptor < 0) refuse_unreadable(file.path(), {errno, std::generic_category()});
  try {
    return std::unique_ptr<ParquetRows>(open(descriptor));
  } catch (const std::runtime_error& error) {
    refuse_file(file.path(), std::string("is no Parquet that can be read: ") + error.what());
  }
}

}  // namespace fsdp
