#include "runner/run/planned_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "base/text/config_error.h"
#include "contract/families/family.h"
#include "contract/record/run_paths.h"
#include "contract/spec/yaml_value.h"
#include "formats/inputs/inputs.h"
#include "formats/tokenizers/tokenizer.h"
#include "runner/experiment/doubling_series.h"
#include "runner/progress/live_view.h"

namespace fsdp {
namespace {

// True if both runs read the same checked files. Ignores the total batch.
bool has_same_inputs(const RunSpec& one, const RunSpec& other) {
  return one.model == other.model && one.data == other.data && one.resume == other.resume &&
         one.evaluation.data == other.evaluation.data &&
         one.evaluation.fraction == other.evaluation.fraction &&
         one.slurm.template_file == other.slurm.template_file;
}

void check_template(const RunSpec& spec) {
  const std::filesystem::path& file = spec.slurm.template_file;
  if (file.empty()) return;
  try {
    read_text_file(file);
  } catch (const ConfigError& error) {
    throw ConfigError(error.place(), "slurm.template", error.problem());
  }
}

}  // namespace

void check_at_place(const Expansion& expansion, const Run& run,
                    const std::function<void()>& check) {
  try {
    check();
  } catch (const ConfigError& error) {
    const std::string file = error.place().empty() ? "" : error.place() + ": ";
    throw ConfigError(expansion.place(run, error.key()), error.key(), file + error.problem());
  }
}

RunRecord planned_run(std::string_view list, Run run, const FileDigest& digest) {
  const std::string hash = run_hash(run.spec, digest);
  const std::string name = file_name_of(run.point) + '-' + hash.substr(0, 8);
  const std::string data = data_digest(run.spec, digest);
  const std::string losses = loss_digest(run.spec, digest);
  RunRecord planned{.point = std::move(run.point),
                    .spec = std::move(run.spec),
                    .hash = hash,
                    .folder = std::filesystem::path("runs") / file_name_of(list) / name,
                    .position = run.position,
                    .series = std::move(run.series),
                    .repeat = run.repeat,
                    .data_digest = data,
                    .loss_digest = losses};
  if (run.doubling) {
    planned.family = run.doubling->family(digest);
    planned.family_key = run.doubling->key();
    planned.family_value = run.doubled_value;
  }
  return planned;
}

bool reads_the_same(const RunSpec& spec, const RunSpec& checked) {
  return has_same_inputs(spec, checked) && total_batch(spec) <= total_batch(checked);
}

void check_inputs_of(const Expansion& expansion) {
  // A training set that is large enough for the largest total batch is large enough for all.
  std::vector<const Run*> distinct;
  for (const Run& run : expansion.runs) {
    const auto same = std::find_if(distinct.rbegin(), distinct.rend(), [&](const Run* other) {
      return has_same_inputs(other->spec, run.spec);
    });
    if (same == distinct.rend()) {
      distinct.push_back(&run);
    } else if (total_batch(run.spec) > total_batch((*same)->spec)) {
      *same = &run;
    }
  }
  for (const Run* run : distinct) {
    check_at_place(expansion, *run, [&] {
      check_template(run->spec);
      check_inputs(run->spec);
    });
  }
}

std::vector<RunRecord> planned_runs(std::string_view list, std::vector<Run> runs,
                                    const FileDigest& digest) {
  std::vector<RunRecord> planned;
  planned.reserve(runs.size());
  for (Run& run : runs) planned.push_back(planned_run(list, std::move(run), digest));
  return planned;
}

std::vector<RunRecord> left_out_runs(std::string_view list, std::vector<Run> runs,
                                     const FileDigest& digest) {
  std::vector<RunRecord> planned;
  planned.reserve(runs.size());
  for (Run& run : runs) {
    try {
      planned.push_back(planned_run(list, std::move(run), digest));
    } catch (const ConfigError&) {  // it could not run now
    }
  }
  return planned;
}

FileDigest remembered(FileDigest digest) {
  const auto digests = std::make_shared<std::map<std::filesystem::path, std::string>>();
  return [digest = std::move(digest), digests](const std::filesystem::path& file) {
    const auto found = digests->find(file);
    if (found != digests->end()) return found->second;
    return digests->emplace(file, digest(file)).first->second;
  };
}

namespace {

using std::filesystem::path;

struct Wanted {
  DataSource source;
  std::set<int64_t> sequence_lengths;
};

// True if documents that are longer than data.sequence_length are cut.
bool are_cut(const RunSpec& spec) {
  if (spec.data.kind == DataKind::kText) return false;  // they continue in another row
  return family_of(model_config(spec)).structure != ModelStructure::kEncoderDecoder;
}

// Returns the data that the runs need, by the names of the prepared files.
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
                                  documents, data.counts.empty() ? "" : "; " + data.counts));
  }
  for (const PreparedData::Cut& cut : data.cuts) {
    if (documents == 0 || cut.lost.untrained_documents < documents) continue;
    throw ConfigError(
        data.source.string(), "data.sequence_length",
        fmt::format("{} leaves nothing to train on: each of {} documents has no token that is "
                    "trained on, or is cut before its first such token; needed: longer sequences",
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
                      .counts = {},
                      .format = {},
                      .cuts = {}};
    const PrepareOptions options{
        .threads = 0, .on_progress = [&](int64_t read, int64_t bytes) { bar.show(read, bytes); }};
    const PreparedFile prepared =
        prepared_file(wanted.source, folder, name, options, &data.was_made);
    data.header = prepared.header();
    data.counts = prepared.counts();
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
  if (!data.counts.empty()) text += "; " + data.counts;
  if (!data.format.empty()) {
    text +=
        "; written by data.format " + data.format +
        ", not by the chat template of the tokenizer's folder, which writes them if data.format "
        "is left out";
  }
  const auto documents = [](auto count) {
    return counted(static_cast<int64_t>(count), "document");
  };
  if (data.cuts.empty() && data.header.untrained_documents > 0) {
    text += "; without a trained token: " + documents(data.header.untrained_documents);
  }
  for (const PreparedData::Cut& cut : data.cuts) {
    if (cut.documents > 0) {
      text +=
          fmt::format("; cut at sequence_length {}: {}, which loses {} of the trained tokens",
                      cut.sequence_length, documents(cut.documents), cut.lost.trained_tokens_lost);
    }
    if (cut.lost.untrained_documents > 0) {
      text += fmt::format("; without a trained token at sequence_length {}: {}",
                          cut.sequence_length, documents(cut.lost.untrained_documents));
    }
  }
  return text;
}

}  // namespace fsdp
