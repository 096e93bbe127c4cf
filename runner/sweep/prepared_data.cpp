#include "runner/sweep/prepared_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "contract/families/family.h"
#include "contract/inputs/inputs.h"
#include "contract/record/run_paths.h"
#include "contract/text/config_error.h"
#include "contract/tokenizers/tokenizer.h"
#include "runner/progress/live_view.h"

namespace fsdp {
namespace {

using std::filesystem::path;

struct Wanted {
  DataSource source;
  std::set<int64_t> sequence_lengths;
};

// True if a document longer than a sequence is cut at data.sequence_length.
bool are_cut(const RunSpec& spec) {
  if (spec.data.kind == DataKind::kText) return false;  // they go on in another row
  return family_of(model_config(spec)).structure != ModelStructure::kEncoderDecoder;
}

// The wanted data by the names of the prepared files.
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
      if (are_cut(spec)) wanted.sequence_lengths.insert(spec.data.sequence_length);
    }
  }
  return all;
}

// The run's chat format if it replaces a chat template of the tokenizer. Empty otherwise.
std::string format_beside_template(const DataSource& source) {
  const auto& format = source.data.format;
  if (!format || !read_chat_template(source.tokenizer)) return "";
  return std::string(name_of(*format));
}

void require_trained(const PreparedData& data) {
  const auto documents = static_cast<int64_t>(data.header.documents);
  if (documents > 0 && data.header.trained_tokens == 0) {
    throw ConfigError(data.source.string(), "data.train",
                      fmt::format("has nothing to train on: not one token of its {} documents is "
                                  "trained on{}",
                                  documents, data.turns.empty() ? "" : "; turns: " + data.turns));
  }
  for (const PreparedData::Cut& cut : data.cuts) {
    if (documents == 0 || cut.lost.untrained_documents < documents) continue;
    throw ConfigError(
        data.source.string(), "data.sequence_length",
        fmt::format("{} leaves nothing to train on: each of {} documents is cut before what is "
                    "trained on begins, or has nothing of it; needed: longer sequences",
                    cut.sequence_length, documents));
  }
}

}  // namespace

bool PreparedData::has_untrained_documents() const {
  return header.untrained_documents > 0 ||
         std::ranges::any_of(cuts, [](const Cut& cut) { return cut.lost.untrained_documents > 0; });
}

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
                      .turns = {},
                      .format = {},
                      .cuts = {}};
    const PrepareOptions options{
        .threads = 0, .on_progress = [&](int64_t read, int64_t bytes) { bar.show(read, bytes); }};
    const PreparedFile prepared =
        prepared_file(wanted.source, folder, name, options, &data.was_made);
    data.header = prepared.header();
    data.turns = prepared.turns();
    data.format = format_beside_template(wanted.source);
    for (const int64_t length : wanted.sequence_lengths) {
      data.cuts.push_back(
          {length, prepared.longer_than(length + 1), prepared.cut_behind(length + 1)});
    }
    require_trained(data);
    all.push_back(std::move(data));
  }
  return all;
}

std::string summary_of(const PreparedData& data) {
  std::string text = fmt::format("{}: {} documents, {} tokens, of which {} are trained on",
                                 data.source.filename().string(), data.header.documents,
                                 data.header.tokens, data.header.trained_tokens);
  if (!data.turns.empty()) text += "; turns: " + data.turns;
  if (!data.format.empty()) {
    text +=
        "; written by data.format " + data.format +
        ", not by the chat template of the tokenizer's folder, which writes them if data.format "
        "is left out";
  }
  if (data.cuts.empty() && data.header.untrained_documents > 0) {
    text += fmt::format("; nothing is trained on in {}", data.header.untrained_documents);
  }
  for (const PreparedData::Cut& cut : data.cuts) {
    if (cut.documents > 0) {
      text +=
          fmt::format("; {} are cut at sequence_length {}, which loses {} of the trained tokens",
                      cut.documents, cut.sequence_length, cut.lost.trained_tokens_lost);
    }
    if (cut.lost.untrained_documents > 0) {
      text += fmt::format("; nothing is trained on in {} at sequence_length {}",
                          cut.lost.untrained_documents, cut.sequence_length);
    }
  }
  return text;
}

}  // namespace fsdp
