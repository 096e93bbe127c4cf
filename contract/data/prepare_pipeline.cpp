#include "contract/data/prepare_pipeline.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

namespace fsdp {
namespace {

constexpr size_t kBatchBytes = 256 << 10;
constexpr std::chrono::milliseconds kReportEvery{100};

class Pipeline {
 public:
  Pipeline(const std::filesystem::path& file, const DocumentParts& parts, PreparedWriter& writer)
      : parts_(parts), writer_(writer), file_(file) {}

  WrittenDocuments run(const PrepareOptions& options) {
    const int processors = static_cast<int>(std::thread::hardware_concurrency());
    const int threads = std::max(1, options.threads == 0 ? processors : options.threads);
    std::unique_lock lock(mutex_);
    working_ = threads;
    std::vector<std::jthread> workers;
    for (int i = 0; i < threads; ++i) workers.emplace_back([this] { work(); });
    while (!changed_.wait_for(lock, kReportEvery, [&] { return working_ == 0; })) {
      const int64_t read_bytes = written_bytes_;
      lock.unlock();
      options.on_progress(read_bytes, file_.size_bytes());
      lock.lock();
    }
    if (error_) std::rethrow_exception(error_);
    return {.data_digest = file_.digest(), .turns = turns_};
  }

 private:
  // Consecutive records. Batches are written in the order of their numbers.
  struct Batch {
    int64_t number = 0;
    int64_t end_bytes = 0;  // of the file, behind it
    std::vector<RawRecord> records;
    std::exception_ptr error;  // behind the records
  };

  void work() {
    Batch batch;
    std::vector<Document> documents;
    try {
      Record record(file_);
      const auto maker = make_document_maker(parts_);
      while (take(batch)) {
        documents.resize(batch.records.size());
        size_t made = 0;
        try {
          for (; made < documents.size(); ++made) {
            documents[made].clear();
            record.parse(batch.records[made]);
            maker->append(record, documents[made]);
          }
        } catch (...) {
          batch.error = std::current_exception();
        }
        documents.resize(made);
        write(batch, documents);
      }
      const std::lock_guard lock(mutex_);
      turns_.add(maker->turns());
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    --working_;
    changed_.notify_all();
  }

  bool take(Batch& batch) {
    const std::lock_guard lock(reading_);
    batch.records.clear();
    batch.error = nullptr;
    if (is_at_end_) return false;
    batch.number = next_to_read_++;
    size_t bytes = 0;
    RawRecord record;
    try {
      while (bytes < kBatchBytes && !is_at_end_) {
        is_at_end_ = !file_.next(record);
        if (is_at_end_) break;
        bytes += record.bytes.size();
        batch.records.push_back(std::move(record));
      }
    } catch (...) {
      batch.error = std::current_exception();
      is_at_end_ = true;
    }
    batch.end_bytes = file_.read_bytes();
    return true;
  }

  // Writes a batch once the batches before it are written.
  void write(const Batch& batch, const std::vector<Document>& documents) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return next_to_write_ == batch.number || error_; });
    if (error_) return;
    try {
      for (const Document& document : documents) writer_.add(document);
    } catch (...) {
      error_ = std::current_exception();
    }
    if (!error_ && batch.error) error_ = batch.error;
    written_bytes_ = batch.end_bytes;
    ++next_to_write_;
    changed_.notify_all();
    if (!error_) return;
    lock.unlock();
    const std::lock_guard reading(reading_);
    is_at_end_ = true;
  }

  const DocumentParts parts_;
  PreparedWriter& writer_;

  std::mutex reading_;  // of the next four
  RecordFile file_;
  bool is_at_end_ = false;
  int64_t next_to_read_ = 0;

  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  int64_t next_to_write_ = 0;
  int64_t written_bytes_ = 0;
  int working_ = 0;
  TurnCounts turns_;
  std::exception_ptr error_;
};

}  // namespace

WrittenDocuments write_documents(const std::filesystem::path& file, const DocumentParts& parts,
                                 PreparedWriter& writer, const PrepareOptions& options) {
  return Pipeline(file, parts, writer).run(options);
}

}  // namespace fsdp
