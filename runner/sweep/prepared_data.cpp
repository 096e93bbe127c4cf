#include "runner/sweep/prepared_data.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <utility>

#include "contract/inputs/inputs.h"
#include "contract/record/run_paths.h"
#include "contract/text/config_error.h"
#include "runner/progress/prepare_bar.h"

namespace fsdp {
namespace {

using std::filesystem::path;

struct Wanted {
  DataSource source;
  std::set<int64_t> sequence_lengths;
};

// By the names of their prepared files.
std::map<std::string, Wanted> wanted_of(const std::vector<RunSpec>& specs,
                                        const FileDigestOf& digest_of) {
  std::map<std::string, Wanted> all;
  for (const RunSpec& spec : specs) {
    if (!needs_tokenizer(spec.data.kind)) continue;
    std::vector<path> files{training_file(spec.data)};
    if (!spec.evaluation.data.empty()) files.push_back(validation_file(spec.evaluation.data));
    for (const path& file : files) {
      const DataSource source = data_source(spec, file);
      Wanted& wanted = all[prepared_name(source, digest_of)];
      wanted.source = source;
      wanted.sequence_lengths.insert(spec.data.sequence_length);
    }
  }
  return all;
}

}  // namespace

std::vector<PreparedData> prepare_data_of(const std::vector<RunSpec>& specs, const path& results,
                                          const FileDigestOf& digest_of) {
  const path folder = prepared_folder(results);
  std::vector<PreparedData> all;
  for (const auto& [name, wanted] : wanted_of(specs, digest_of)) {
    PrepareBar bar(wanted.source.file.filename());
    PreparedData data{.source = wanted.source.file,
                      .file = folder / name,
                      .header = {},
                      .was_made = false,
                      .cut_documents = {}};
    const PrepareOptions options{
        .threads = 0, .on_progress = [&](int64_t read, int64_t bytes) { bar.show(read, bytes); }};
    const PreparedFile prepared =
        prepared_file(wanted.source, folder, name, options, &data.was_made);
    data.header = prepared.header();
    for (const int64_t length : wanted.sequence_lengths) {
      if (wanted.source.data.kind == DataKind::kText) break;  // they go on in another row
      data.cut_documents.emplace_back(length, prepared.longer_than(length + 1));
    }
    all.push_back(std::move(data));
  }
  return all;
}

std::string summary_of(const PreparedData& data) {
  std::string text = fmt::format("{}: {} documents, {} tokens, of which {} are trained on",
                                 data.source.filename().string(), data.header.documents,
                                 data.header.tokens, data.header.trained_tokens);
  for (const auto& [length, count] : data.cut_documents) {
    if (count > 0) text += fmt::format("; {} are cut at sequence_length {}", count, length);
  }
  return text;
}

}  // namespace fsdp
