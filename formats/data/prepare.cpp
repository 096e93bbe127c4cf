#include "formats/data/prepare.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>

#include "base/files/digest.h"
#include "base/files/file_digest.h"
#include "base/text/config_error.h"
#include "base/text/json.h"
#include "formats/data/document_maker.h"

namespace fsdp {
namespace {

constexpr size_t kBatchBytes = 256 << 10;
constexpr std::chrono::milliseconds kReportEvery{100};

struct WrittenDocuments {
  std::string data_digest;  // of the bytes that the records were read from
  TurnCounts turns;
};

// Writes the documents of a file's records in order. Threads take batches of records in turn, and
// each holds a bounded amount. run() throws the error of the first record that is wrong.
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

using std::filesystem::path;
constexpr std::chrono::milliseconds kAskAgainAfter{100};

// The settings of section `data` that decide how records become tokens.
std::string settings_of(const DataSpec& data) {
  static const std::set<std::string_view> kOthers{"train",   "tokenizer", "sequence_length",
                                                  "shuffle", "rows",      "token_dtype"};
  JsonObject settings;
  DataSpec::visit_fields(data, [&](const char* name, const auto& member, auto&&...) {
    if (!kOthers.contains(name)) settings.add(name, member);
  });
  return settings.text();
}

bool is_written_by_template(const DataSpec& data) {
  return data.kind == DataKind::kMessages && !data.format;
}

// Locks all prepared files of a folder.
class PreparedLock {
 public:
  PreparedLock(const path& folder, const PrepareOptions& options) {
    const path file = folder / ".lock";
    descriptor_ = open(file.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    while (descriptor_ < 0 || flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      if (descriptor_ < 0 || (errno != EWOULDBLOCK && errno != EINTR)) {
        const int error = errno;
        if (descriptor_ >= 0) close(descriptor_);
        throw std::system_error(error, std::generic_category(), file.string());
      }
      options.on_progress(0, 0);
      std::this_thread::sleep_for(kAskAgainAfter);
    }
  }
  ~PreparedLock() { close(descriptor_); }
  PreparedLock(const PreparedLock&) = delete;
  PreparedLock& operator=(const PreparedLock&) = delete;

 private:
  int descriptor_;
};

// Removes the files that killed processes left. The lock is held, so nobody writes them.
void remove_unfinished(const path& folder) {
  std::error_code error;  // what cannot be removed is in the way of nothing but itself
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (is_unfinished(entry.path())) std::filesystem::remove(entry.path(), error);
  }
}

int64_t padding_id_of(const Tokenizer& tokenizer) {
  const Tokenizer::Ends& ends = tokenizer.ends();
  return ends.padding.value_or(ends.end.value_or(0));
}

// Has the special tokens of another tokenizer, and makes no tokens.
class NoTokens : public Tokenizer {
 public:
  explicit NoTokens(const Tokenizer& other) : other_(other) {}

  int64_t vocab_size() const override { return other_.vocab_size(); }
  void encode(std::string_view, std::vector<int32_t>&) const override {}
  void encode_with_special(std::string_view text, std::vector<int32_t>& ids) const override {
    if (text.size() < kLongestToken) other_.encode_with_special(text, ids);
  }
  std::vector<PlacedToken> added_tokens_in(std::string_view) const override { return {}; }
  std::optional<int32_t> id_of(std::string_view token) const override {
    return other_.id_of(token);
  }
  const Ends& ends() const override { return other_.ends(); }

 private:
  static constexpr size_t kLongestToken = 24;  // of chats
  const Tokenizer& other_;
};

// Makes `file`. Throws ConfigError if the source changed meanwhile: `file` would have another name.
void make_prepared(const DataSource& source, const path& file, const PrepareOptions& options) {
  const auto tokenizer = open_tokenizer(source.tokenizer);
  const std::optional<ChatTemplate> chat_template = chat_template_of(source);
  PreparedWriter writer(file, padding_id_of(*tokenizer));
  const WrittenDocuments written =
      Pipeline(source.file, {source.data, *tokenizer, chat_template}, writer).run(options);
  const std::string name = prepared_name(source, [&](const path& each) {
    return each == source.file ? written.data_digest : file_digest(each);
  });
  if (name != file.filename()) {
    refuse_file(source.file,
                "or its tokenizer, " + source.tokenizer.string() +
                    ", is not what it was when this call began; run again when nothing writes to "
                    "them");
  }
  require_answers(source.file, written.turns);
  writer.set_turns(written.turns.text());
  writer.finish();
}

}  // namespace

std::vector<path> tokenizer_files(const DataSource& source) {
  std::vector<path> files = tokenizer_files(source.tokenizer);
  if (is_written_by_template(source.data)) {
    for (path& file : chat_template_files(source.tokenizer)) files.push_back(std::move(file));
  }
  return files;
}

std::optional<ChatTemplate> chat_template_of(const DataSource& source) {
  if (!is_written_by_template(source.data)) return std::nullopt;
  return read_chat_template(source.tokenizer);
}

std::string prepared_name(const DataSource& source, const FileDigestOf& digest_of) {
  std::string text = std::to_string(kPreparedVersion) + '\n' + settings_of(source.data) + '\n' +
                     source.file.extension().string() + '\n' + digest_of(source.file);
  for (const path& file : tokenizer_files(source)) {
    text += '\n' + file.filename().string() + ' ' + digest_of(file);
  }
  return text_digest(text).substr(0, 16) + ".tokens";
}

std::optional<PreparedFile> whole_prepared_file(const path& file) {
  if (!input_exists(file)) return std::nullopt;
  try {
    return PreparedFile(file);
  } catch (const ConfigError&) {  // damaged: it is made again
    return std::nullopt;
  }
}

PreparedFile prepared_file(const DataSource& source, const path& folder, const std::string& name,
                           const PrepareOptions& options, bool* was_made) {
  const path file = folder / name;
  if (auto prepared = whole_prepared_file(file)) return std::move(*prepared);
  std::filesystem::create_directories(folder);
  const PreparedLock lock(folder, options);
  if (auto prepared = whole_prepared_file(file)) return std::move(*prepared);
  remove_unfinished(folder);
  make_prepared(source, file, options);
  if (was_made != nullptr) *was_made = true;
  return PreparedFile(file);
}

int64_t count_documents(const DataSource& source) {
  const auto tokenizer = open_tokenizer(source.tokenizer);
  const NoTokens none(*tokenizer);
  const std::optional<ChatTemplate> chat_template = chat_template_of(source);
  RecordFile file(source.file);
  Record record(file);
  const auto maker = make_document_maker({source.data, none, chat_template});
  RawRecord raw;
  Document document;
  int64_t count = 0;
  for (; file.next(raw); ++count) {
    record.parse(raw);
    document.clear();
    maker->append(record, document);
  }
  require_answers(source.file, maker->turns());
  return count;
}

}  // namespace fsdp
