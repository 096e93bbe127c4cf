// Loads lib/libfsdp-parquet.so, so neither program links Apache Arrow. The library stays loaded.
#include <dlfcn.h>
#include <fcntl.h>

#include <cerrno>
#include <system_error>

#include "base/text/config_error.h"
#include "formats/data/parquet_rows.h"
#include "formats/data/parquet_table.h"

namespace fsdp {
namespace {

// Returns the library's function. If there is none, calls refuse(why), which throws.
template <typename Function>
Function* parquet_function(const char* name, const auto& refuse) {
  const auto program = std::filesystem::read_symlink("/proc/self/exe");
  const auto library = program.parent_path() / "lib/libfsdp-parquet.so";
  if (!std::filesystem::exists(library)) refuse("is not built");
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* function = handle == nullptr ? nullptr : dlsym(handle, name);
  if (function == nullptr) refuse(std::string("does not load: ") + dlerror());
  return reinterpret_cast<Function*>(function);
}

}  // namespace

std::unique_ptr<ParquetRows> open_parquet_rows(const InputFile& file) {
  const auto refuse = [&](const std::string& why) {
    refuse_file(file.path(),
                "is Parquet, and the reader of Parquet " + why +
                    "; ./fsdp-run FILE builds it if FILE or --set names a .parquet file. Or "
                    "convert the data to JSON lines: pandas.read_parquet(...).to_json(..., "
                    "orient='records', lines=True)");
  };
  auto* const open = parquet_function<OpenParquetRows>(kOpenParquetRows, refuse);
  const int descriptor = fcntl(file.descriptor(), F_DUPFD_CLOEXEC, 0);
  if (descriptor < 0) refuse_unreadable(file.path(), {errno, std::generic_category()});
  try {
    return std::unique_ptr<ParquetRows>(open(descriptor));
  } catch (const std::runtime_error& error) {
    refuse_file(file.path(), std::string("is no Parquet that can be read: ") + error.what());
  }
}

std::unique_ptr<ParquetTable> new_parquet_table(const std::vector<ParquetColumn>& columns,
                                                WriteBytes write) {
  const auto refuse = [](const std::string& why) {
    throw ConfigError("--format", "",
                      "the writer of Parquet " + why +
                          "; ./fsdp-run in the repository builds it for `--format parquet`. Or "
                          "name another format: csv, jsonl");
  };
  auto* const create = parquet_function<NewParquetTable>(kNewParquetTable, refuse);
  return std::unique_ptr<ParquetTable>(create(columns, std::move(write)));
}

}  // namespace fsdp
