#include <algorithm>
#include <iostream>
#include <memory>

#include "base/files/file_digest.h"
#include "base/text/utf8.h"
#include "formats/data/prepared_file.h"
#include "formats/inputs/inputs.h"
#include "runner/commands/options.h"
#include "runner/run/planned_runs.h"
#include "runner/table/names.h"

namespace fsdp {
namespace {

// Returns the document as text. "[[" and "]]" enclose the tokens that are trained on.
std::string marked_text(const Document& document, const Tokenizer& tokenizer) {
  std::string text;
  for (auto token = document.begin(); token != document.end();) {
    const uint32_t flag = *token & kTrainedOn;
    const auto end = std::find_if(token, document.end(),
                                  [&](uint32_t next) { return (next & kTrainedOn) != flag; });
    std::vector<int32_t> ids;
    for (; token != end; ++token) ids.push_back(static_cast<int32_t>(token_id(*token)));
    const std::string part = tokenizer.decode_with_special(ids);
    text += flag == 0 ? part : "[[" + part + "]]";
  }
  return text;
}

// Returns the tokenizer that made the prepared data.
std::unique_ptr<Tokenizer> tokenizer_that_made(const PreparedData& data, const Expansion& expansion,
                                               const FileDigest& digest) {
  for (const Run& run : expansion.runs) {
    if (!needs_tokenizer(run.spec.data.kind)) continue;
    const DataSource source = data_source(run.spec, data.source);
    if (data.file.filename() == prepared_name(source, digest)) {
      return open_tokenizer(source.tokenizer);
    }
  }
  throw std::logic_error("data of no run");
}

// Shows of each document what the longest of the runs' sequences keeps.
void show_documents(const PreparedData& data, const Tokenizer& tokenizer, int64_t most) {
  const PreparedFile file(data.file);
  const int64_t count = std::min(most, file.count());
  if (count > 0) std::cout << "  The first documents; [[...]] is trained on:\n";
  const auto longest = std::ranges::max_element(data.cuts, {}, &PreparedData::Cut::sequence_length);
  for (int64_t number = 0; number < count; ++number) {
    Document document;
    file.read(number, document);
    std::string heading = fmt::format("{}, {}", number + 1, counted(std::ssize(document), "token"));
    if (longest != data.cuts.end() && std::ssize(document) > longest->sequence_length + 1) {
      document.resize(longest->sequence_length + 1);
      heading += fmt::format(", cut to {} by sequence_length {}", document.size(),
                             longest->sequence_length);
    }
    std::cout << fmt::format("  --- {}\n{}\n", heading,
                             visible_lines(marked_text(document, tokenizer)));
  }
}

ExitCode prepare(const Choice& choice, const std::filesystem::path& results, int64_t shown) {
  const Expansion expansion =
      Experiment::load(choice.file).expand(choice.expand, find_host(choice.gpus).resources);
  check_inputs_of(expansion);
  const FileDigest digest = remembered(file_digest);
  const auto prepared = prepare_data_of(mapped(expansion.runs, &Run::spec), results, digest);
  if (prepared.empty()) std::cout << "nothing to prepare: the runs read tokens\n";
  for (const PreparedData& data : prepared) {
    std::cout << visible_line(summary_of(data)) << '\n'
              << "  " << (data.was_made ? "made " : "is there: ")
              << visible_line(data.file.string()) << '\n';
    if (shown > 0) {
      show_documents(data, *tokenizer_that_made(data, expansion, digest), shown);
    }
  }
  return ExitCode::kOk;
}

}  // namespace

CommandFunction add_prepare_command(CLI::App& command) {
  const auto choice = std::make_shared<Choice>();
  choice->expand.check_gpus = false;
  const auto results = std::make_shared<std::filesystem::path>("results");
  command.footer(R"(Examples:
  fsdp-run prepare experiments/lab.yaml
  fsdp-run prepare experiments/lab.yaml --show 3    a preview
  fsdp-run prepare experiments/chess.yaml --results /scratch/results)");
  add_choice_options(command, *choice);
  add_results_option(command, *results);
  const auto shown = std::make_shared<int64_t>(0);
  add_option(command, "--show N", *shown,
             "Also print the first N documents as text, with what is trained on in [[ ]]")
      ->check(CLI::PositiveNumber);
  return [choice, results, shown] { return prepare(*choice, *results, *shown); };
}

}  // namespace fsdp
