// Reads rows of Parquet through Apache Arrow: a few at a time, in bounded memory.
#include <arrow/api.h>
#include <arrow/io/file.h>
#include <parquet/arrow/reader.h>

#include <nlohmann/json.hpp>

#include "base/text/utf8.h"
#include "formats/data/parquet_rows.h"
#include "formats/parquet/standard_errors.h"

namespace fsdp {
namespace {

using nlohmann::ordered_json;

// The rows that are decoded at a time, and the most memory for them, whatever the file claims.
constexpr int64_t kRowsAtOnce = 16;
constexpr int64_t kMostBytes = 256 << 20;

ordered_json json_of(const arrow::Array& array, int64_t i);

template <typename Binary>
ordered_json json_of_text(const arrow::Array& array, int64_t i) {
  const std::string_view text = static_cast<const Binary&>(array).GetView(i);
  return is_utf8(text) ? ordered_json(text) : ordered_json::object();
}

template <typename List>
ordered_json json_of_list(const arrow::Array& array, int64_t i) {
  const auto& list = static_cast<const List&>(array);
  ordered_json values = ordered_json::array();
  for (int64_t k = 0; k < list.value_length(i); ++k) {
    values.push_back(json_of(*list.values(), list.value_offset(i) + k));
  }
  return values;
}

ordered_json json_of(const arrow::Array& array, int64_t i) {
  if (array.IsNull(i)) return nullptr;
  switch (array.type_id()) {
    case arrow::Type::STRING:
      return json_of_text<arrow::StringArray>(array, i);
    case arrow::Type::LARGE_STRING:
      return json_of_text<arrow::LargeStringArray>(array, i);
    case arrow::Type::BINARY:  // text that its writer did not mark as text
      return json_of_text<arrow::BinaryArray>(array, i);
    case arrow::Type::LARGE_BINARY:
      return json_of_text<arrow::LargeBinaryArray>(array, i);
    case arrow::Type::LIST:
      return json_of_list<arrow::ListArray>(array, i);
    case arrow::Type::LARGE_LIST:
      return json_of_list<arrow::LargeListArray>(array, i);
    case arrow::Type::FIXED_SIZE_LIST:
      return json_of_list<arrow::FixedSizeListArray>(array, i);
    case arrow::Type::LIST_VIEW:
      return json_of_list<arrow::ListViewArray>(array, i);
    case arrow::Type::LARGE_LIST_VIEW:
      return json_of_list<arrow::LargeListViewArray>(array, i);
    case arrow::Type::STRING_VIEW:
      return json_of_text<arrow::StringViewArray>(array, i);
    case arrow::Type::BINARY_VIEW:
      return json_of_text<arrow::BinaryViewArray>(array, i);
    case arrow::Type::EXTENSION:
      return json_of(*static_cast<const arrow::ExtensionArray&>(array).storage(), i);
    case arrow::Type::DICTIONARY: {
      const auto& coded = static_cast<const arrow::DictionaryArray&>(array);
      return json_of(*coded.dictionary(), coded.GetValueIndex(i));
    }
    case arrow::Type::STRUCT: {
      const auto& members = static_cast<const arrow::StructArray&>(array);
      ordered_json object = ordered_json::object();
      for (int member = 0; member < members.num_fields(); ++member) {
        object[members.struct_type()->field(member)->name()] = json_of(*members.field(member), i);
      }
      return object;
    }
    default:
      return ordered_json::object();
  }
}

class ArrowRows : public ParquetRows {
 public:
  explicit ArrowRows(int descriptor) {
    // Comes first, because it takes ownership of the descriptor.
    auto file = value_or_throw(arrow::io::ReadableFile::Open(descriptor, &memory_));
    parquet::ReaderProperties pages(&memory_);
    pages.enable_buffered_stream();
    pages.set_page_checksum_verification(true);
    parquet::ArrowReaderProperties rows(/*use_threads=*/false);
    rows.set_batch_size(kRowsAtOnce);
    rows.set_pre_buffer(false);
    parquet::arrow::FileReaderBuilder builder;
    check(builder.Open(std::move(file), pages));
    file_ = value_or_throw(builder.memory_pool(&memory_)->properties(rows)->Build());
    count_ = file_->parquet_reader()->metadata()->num_rows();
  }

  int64_t count() const override { return count_; }

  bool next(std::string& json) override {
    while (!batch_ || row_ == batch_->num_rows()) {
      if (!with_standard_errors([&] { return read_batch(); })) return false;
    }
    ordered_json object = ordered_json::object();
    for (int column = 0; column < batch_->num_columns(); ++column) {
      object[batch_->column_name(column)] = json_of(*batch_->column(column), row_);
    }
    ++row_;
    json = object.dump();
    return true;
  }

 private:
  bool read_batch() {
    batch_.reset();
    row_ = 0;
    while (true) {
      if (batches_) check(batches_->ReadNext(&batch_));
      if (batch_) break;
      if (next_group_ == file_->num_row_groups()) return false;
      batches_ = value_or_throw(file_->GetRecordBatchReader({next_group_++}));
    }
    check(batch_->ValidateFull());
    return true;
  }

  arrow::CappedMemoryPool memory_{arrow::system_memory_pool(), kMostBytes};
  std::unique_ptr<parquet::arrow::FileReader> file_;
  int64_t count_ = 0;
  int next_group_ = 0;
  std::unique_ptr<arrow::RecordBatchReader> batches_;  // of the current row group
  std::shared_ptr<arrow::RecordBatch> batch_;
  int64_t row_ = 0;  // the next one in batch_
};

}  // namespace
}  // namespace fsdp

extern "C" fsdp::ParquetRows* fsdp_open_parquet_rows(int descriptor) {
  return fsdp::with_standard_errors([&] { return new fsdp::ArrowRows(descriptor); });
}
