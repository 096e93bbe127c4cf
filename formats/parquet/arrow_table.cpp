// Writes rows as Parquet through Apache Arrow: a group of rows at a time, in bounded memory.
#include <arrow/io/interfaces.h>
#include <parquet/stream_writer.h>

#include <cmath>

#include "base/text/utf8.h"
#include "formats/data/parquet_table.h"
#include "formats/parquet/standard_errors.h"

namespace fsdp {
namespace {

using parquet::LogicalType;
using parquet::Type;

constexpr int64_t kRowsOfGroup = 1 << 14;

parquet::schema::NodePtr node_of(const ParquetColumn& column) {
  constexpr Type::type kTypes[] = {Type::BYTE_ARRAY, Type::DOUBLE, Type::INT64, Type::BOOLEAN};
  const auto meaning = column.type == ColumnType::kText      ? LogicalType::String()
                       : column.type == ColumnType::kInteger ? LogicalType::Int(64, true)
                                                             : LogicalType::None();
  return parquet::schema::PrimitiveNode::Make(valid_utf8(column.name),
                                              parquet::Repetition::OPTIONAL, meaning,
                                              kTypes[static_cast<size_t>(column.type)]);
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
    parquet::schema::NodeVector nodes;
    for (const ParquetColumn& column : columns) {
      nodes.push_back(node_of(column));
      types_.push_back(column.type);
    }
    const auto root =
        parquet::schema::GroupNode::Make("schema", parquet::Repetition::REQUIRED, nodes);
    auto file =
        parquet::ParquetFileWriter::Open(std::make_shared<Sink>(std::move(write)),
                                         std::static_pointer_cast<parquet::schema::GroupNode>(root),
                                         parquet::WriterProperties::Builder()
                                             .memory_pool(arrow::system_memory_pool())
                                             ->compression(parquet::Compression::SNAPPY)
                                             ->build());
    file_ = file.get();
    rows_ = parquet::StreamWriter(std::move(file));
    rows_.SetMaxRowGroupSize(0);  // by rows instead
  }

  void add(const ParquetValue& value) override {
    with_standard_errors([&] {
      add_to(types_[static_cast<size_t>(rows_.current_column())], value);
      if (rows_.current_column() < rows_.num_columns()) return;
      rows_.EndRow();
      if (rows_.current_row() % kRowsOfGroup == 0) rows_.EndRowGroup();
    });
  }

  void close() override {
    with_standard_errors([&] { file_->Close(); });
  }

 private:
  void add_to(ColumnType type, const ParquetValue& value) {
    const auto* const integer = std::get_if<int64_t>(&value);
    if (std::holds_alternative<std::monostate>(value)) {
      rows_.SkipColumns(1);
    } else if (type == ColumnType::kReal) {
      const double real = integer ? static_cast<double>(*integer) : std::get<double>(value);
      rows_ << (std::isfinite(real) ? std::optional(real) : std::nullopt);
    } else if (type == ColumnType::kInteger) {
      rows_ << std::get<int64_t>(value);
    } else if (type == ColumnType::kBool) {
      rows_ << std::get<bool>(value);
    } else {
      rows_ << valid_utf8(std::get<std::string_view>(value));
    }
  }

  std::vector<ColumnType> types_;
  parquet::StreamWriter rows_;
  parquet::ParquetFileWriter* file_ = nullptr;  // of rows_
};

}  // namespace
}  // namespace fsdp

extern "C" fsdp::ParquetTable* fsdp_new_parquet_table(
    const std::vector<fsdp::ParquetColumn>& columns, fsdp::WriteBytes write) {
  return fsdp::with_standard_errors(
      [&] { return new fsdp::ArrowTable(columns, std::move(write)); });
}
