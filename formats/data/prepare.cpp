// Tokenizes a file on all cores. Documents are written in the order of their records.
#include "formats/data/prepare.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <exception>
#include <future>
#include <limits>
#include <set>
#include <thread>

#include "base/files/digest.h"
#include "base/files/file_lock.h"
#include "base/system/processor.h"
#include "base/text/config_error.h"
#include "base/text/json.h"
#include "formats/data/document_maker.h"

namespace fsdp {
namespace {

using Clock = std::chrono::steady_clock;
using std::filesystem::path;

constexpr size_t kBatchBytes = 256 << 10;
constexpr std::chrono::milliseconds kReportEvery{100};
constexpr std::chrono::milliseconds kAskAgainAfter{100};

struct WrittenDocuments {
  std::string data_digest;  // of the bytes that the records were read from
  RecordCounts counts;
};

// Makes documents of batches of records, one batch at a time.
class Worker {
 public:
  Worker(const RecordFile& file, const DocumentParts& parts)
      : record_(file), maker_(make_document_maker(parts)) {}

  // Throws the error of the first record that is wrong.
  std::vector<Document> documents_of(const std::vector<RawRecord>& records) {
    std::vector<Document> documents(records.size());
    for (size_t i = 0; i < records.size(); ++i) {
      record_.parse(records[i]);
      maker_->append(record_, documents[i]);
      record_.count_unread_columns(unread_);
    }
    return documents;
  }

  void add_to(RecordCounts& counts) const {
    counts.add(maker_->counts());
    counts.add(unread_);
  }

 private:
  Record record_;
  RecordCounts unread_;
  std::unique_ptr<DocumentMaker> maker_;
};

// The documents of consecutive records, which a worker makes.
struct Batch {
  std::future<std::vector<Document>> documents;
  int64_t end_bytes = 0;  // bytes of the file up to the end of the batch
};

// Writes the documents of a file's records in order. Each worker has at most one batch, so few are
// in memory. Throws the error of the first record that is wrong.
WrittenDocuments write_documents(const path& data, const DocumentParts& parts,
                                 PreparedWriter& writer, const PrepareOptions& options) {
  RecordFile file(data);
  const int threads = options.threads == 0 ? available_cores() : std::max(1, options.threads);
  std::deque<Worker> workers;
  for (int i = 0; i < threads; ++i) workers.emplace_back(file, parts);
  std::deque<Batch> batches;
  bool is_at_end = false;
  int64_t wanted = parts.data.max_documents.value_or(std::numeric_limits<int64_t>::max());
  std::exception_ptr read_error;  // thrown after all batches, because it lies behind their records
  const auto read_records = [&] {
    std::vector<RawRecord> records;
    size_t bytes = 0;
    try {
      for (RawRecord record; bytes < kBatchBytes && !is_at_end;) {
        is_at_end = !file.next(record);
        if (is_at_end) break;
        if (wanted-- <= 0) continue;  // the digest is of the whole file
        bytes += record.bytes.size();
        records.push_back(std::move(record));
      }
    } catch (...) {
      read_error = std::current_exception();
      is_at_end = true;
    }
    return records;
  };
  int64_t written_bytes = 0;
  auto next_report = Clock::now() + kReportEvery;
  for (size_t next = 0; !is_at_end || !batches.empty();) {
    while (!is_at_end && batches.size() < workers.size()) {
      Worker& worker = workers[next++ % workers.size()];
      auto documents = std::async(std::launch::async, [&worker, records = read_records()] {
        return worker.documents_of(records);
      });
      batches.push_back({std::move(documents), file.read_bytes()});
    }
    std::future<std::vector<Document>>& first = batches.front().documents;
    while (first.wait_until(next_report) == std::future_status::timeout ||
           Clock::now() >= next_report) {
      options.on_progress(written_bytes, file.size_bytes());
      next_report = Clock::now() + kReportEvery;
    }
    // The oldest batch first, so documents are in the order of records, whoever was faster.
    for (const Document& document : first.get()) writer.add(document);
    written_bytes = batches.front().end_bytes;
    batches.pop_front();
  }
  if (read_error) std::rethrow_exception(read_error);
  RecordCounts counts;
  for (const Worker& worker : workers) worker.add_to(counts);
  return {.data_digest = file.digest(), .counts = counts};
}

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

// Removes the files that killed processes left. The lock is held, so nobody writes them.
void remove_unfinished(const path& folder) {
  std::error_code error;  // ignored, because a leftover file does no harm
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (is_unfinished(entry.path())) std::filesystem::remove(entry.path(), error);
  }
}

int64_t padding_id_of(const Tokenizer& tokenizer) {
  const Tokenizer::Ends& ends = tokenizer.ends();
  return ends.padding.value_or(ends.end.value_or(0));
}

// Has the special tokens of another tokenizer, but turns no text into tokens. count_documents()
// needs none.
class NoTokens : public Tokenizer {
 public:
  explicit NoTokens(const Tokenizer& other) : other_(other) {}

  int64_t vocab_size() const override { return other_.vocab_size(); }
  std::vector<PlacedToken> added_tokens_in(std::string_view) const override { return {}; }
  std::optional<int32_t> id_of(std::string_view token) const override {
    return other_.id_of(token);
  }
  const Ends& ends() const override { return other_.ends(); }

 private:
  std::string decode_ids(std::span<const int32_t>, bool) const override { return ""; }
  void encode_text(std::string_view text, bool with_special,
                   std::vector<int32_t>& ids) const override {
    constexpr size_t kLongestToken = 24;  // the special tokens of chat formats are shorter
    if (with_special && text.size() < kLongestToken) other_.encode_with_special(text, ids);
  }

  const Tokenizer& other_;
};

// Makes `file`. Throws ConfigError if the source changed meanwhile, because `file` is named after
// its contents.
void make_prepared(const DataSource& source, const path& file, const PrepareOptions& options) {
  const auto tokenizer = open_tokenizer(source.tokenizer);
  const std::optional<ChatTemplate> chat_template = chat_template_of(source);
  PreparedWriter writer(file, padding_id_of(*tokenizer));
  const WrittenDocuments written =
      write_documents(source.file, {source.data, *tokenizer, chat_template}, writer, options);
  const std::string name = prepared_name(source, [&](const path& each) {
    return each == source.file ? written.data_digest : file_digest(each);
  });
  if (name != file.filename()) {
    refuse_file(source.file,
                "or its tokenizer, " + source.tokenizer.string() +
                    ", changed during this call; run again when nothing writes to them");
  }
  written.counts.require_answers(source.file);
  writer.set_counts(written.counts.text());
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
  const LockFile lock(folder / ".lock");  // for all prepared files in the folder
  while (!lock.try_to_lock()) {
    options.on_progress(0, 0);
    std::this_thread::sleep_for(kAskAgainAfter);
  }
  // Another process may have made it while this one waited.
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
  const int64_t wanted = source.data.max_documents.value_or(std::numeric_limits<int64_t>::max());
  for (; count < wanted && file.next(raw); ++count) {
    record.parse(raw);
    document.clear();
    maker->append(record, document);
  }
  maker->counts().require_answers(source.file);
  return count;
}

}  // namespace fsdp
