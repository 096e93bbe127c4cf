// Writes rows as Parquet through Apache Arrow: a group of rows at a time, in bounded memory.
#include <arrow/api.h>
#include <arrow/io/interfaces.h>
#include <arrow/json/api.h>
#include <parquet/arrow/writer.h>

#include "base/text/utf8.h"
#include "formats/data/parquet_table.h"
#include "formats/parquet/standard_errors.h"

namespace fsdp {
namespace {

constexpr int64_t kRowsOfGroup = 1 << 14;
constexpr size_t kBytesAtOnce = 256 << 10;  // Arrow's parser takes at most 100,000 rows

std::shared_ptr<arrow::DataType> type_of(ColumnType type) {
  const std::shared_ptr<arrow::DataType> types[] = {arrow::utf8(), arrow::float64(), arrow::int64(),
                                                    arrow::boolean()};
  return types[static_cast<size_t>(type)];
}

class Sink : public arrow::io::OutputStream {
 public:
  explicit Sink(WriteBytes write) : write_(std::move(write)) {}

  arrow::Status Write(const void* data, int64_t size_bytes) override {
    write_({static_cast<const char*>(data), static_cast<size_t>(size_bytes)});
    written_bytes_ += size_bytes;
    return arrow::Status::OK();
  }
  arrow::Result<int64_t> Tell() const override { return written_bytes_; }
  arrow::Status Close() override { return arrow::Status::OK(); }
  bool closed() const override { return false; }

 private:
  WriteBytes write_;
  int64_t written_bytes_ = 0;
};

class ArrowTable : public ParquetTable {
 public:
  ArrowTable(const std::vector<ParquetColumn>& columns, WriteBytes write) {
    arrow::FieldVector fields;
    for (const ParquetColumn& column : columns) {
      fields.push_back(arrow::field(valid_utf8(column.name), type_of(column.type)));
    }
    parse_.explicit_schema = arrow::schema(fields);
    file_ = value_or_throw(
        parquet::arrow::FileWriter::Open(*parse_.explicit_schema, arrow::system_memory_pool(),
                                         std::make_shared<Sink>(std::move(write)),
                                         parquet::WriterProperties::Builder()
                                             .memory_pool(arrow::system_memory_pool())
                                             ->max_row_group_length(kRowsOfGroup)
                                             ->compression(parquet::Compression::SNAPPY)
                                             ->build()));
  }

  void add(std::string row) override {
    constexpr std::string_view kEmpty = R"(:"")";  // not within a text, which has \" for a quote
    for (size_t at = row.find(kEmpty); at != row.npos; at = row.find(kEmpty, at)) {
      row.replace(at, kEmpty.size(), ":null");
    }
    rows_ += row + '\n';
    if (rows_.size() >= kBytesAtOnce) write_rows();
  }

  void close() override {
    if (!rows_.empty()) write_rows();
    with_standard_errors([&] { check(file_->Close()); });
  }

 private:
  void write_rows() {
    with_standard_errors([&] {
      const auto batch =
          value_or_throw(arrow::json::ParseOne(parse_, std::make_shared<arrow::Buffer>(rows_)));
      check(file_->WriteRecordBatch(*batch));
    });
    rows_.clear();
  }

  arrow::json::ParseOptions parse_;
  std::unique_ptr<parquet::arrow::FileWriter> file_;
  std::string rows_;  // JSON lines that are not yet written
};

}  // namespace
}  // namespace fsdp

extern "C" fsdp::ParquetTable* fsdp_new_parquet_table(
    const std::vector<fsdp::ParquetColumn>& columns, fsdp::WriteBytes write) {
  return fsdp::with_standard_errors(
      [&] { return new fsdp::ArrowTable(columns, std::move(write)); });
}
