// Opens the training and the validation set. A rank makes a prepared file only if the runner has
// not, and leaves a damaged one to the runner.
#include "trainer/data/data_sets.h"

#include <numeric>
#include <random>

#include "base/system/start_up.h"
#include "base/text/config_error.h"
#include "contract/families/family.h"
#include "contract/record/run_paths.h"
#include "formats/data/document.h"
#include "formats/inputs/inputs.h"
#include "trainer/data/pair_set.h"
#include "trainer/data/sequence_set.h"

namespace fsdp {
namespace {

using std::filesystem::path;

PreparedFile open_prepared(const DataSource& source, const path& run_folder,
                           const FileDigestOf& digest_of) {
  const std::string name = prepared_name(source, digest_of);
  begin_start_up_part("reading " + source.file.string());
  const path of_results = prepared_folder(results_of_run(run_folder));
  // Only the runner remakes a damaged file: a rank would do so while other ranks and runs read it.
  if (input_exists(of_results / name)) return PreparedFile(of_results / name);
  return prepared_file(source, prepared_folder(run_folder), name,
                       {.on_progress = [](int64_t, int64_t) { continue_start_up_part(); }});
}

std::shared_ptr<const DocumentFile> open_documents(const RunSpec& spec, const path& file,
                                                   int64_t vocab_size, const path& run_folder,
                                                   const FileDigestOf& digest_of) {
  if (!needs_tokenizer(spec.data.kind)) {
    return open_token_file(file, spec.data.sequence_length, vocab_size, spec.data.token_dtype);
  }
  auto prepared =
      std::make_shared<PreparedFile>(open_prepared(data_source(spec, file), run_folder, digest_of));
  prepared->check_vocabulary(vocab_size);
  return prepared;
}

// Returns the numbers from 0 to count - 1, in order. With a seed, they have the order of
// torch.randperm with a generator of this seed.
std::vector<int64_t> numbers_in_order(int64_t count, const std::optional<int64_t>& seed) {
  std::vector<int64_t> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  if (!seed) return numbers;
  // libtorch draws these numbers so; std::shuffle would draw others.
  std::mt19937 engine(static_cast<uint32_t>(*seed));
  for (int64_t i = 0; i < count - 1; ++i) {
    std::swap(numbers[i], numbers[i + static_cast<int64_t>(engine()) % (count - i)]);
  }
  return numbers;
}

std::unique_ptr<DataSet> make_set(std::shared_ptr<const DocumentFile> documents,
                                  std::vector<int64_t> numbers, const DataSpec& data,
                                  const ModelConfig& config) {
  if (family_of(config).structure == ModelStructure::kEncoderDecoder) {
    return std::make_unique<PairSet>(std::move(documents), std::move(numbers), data, config);
  }
  return std::make_unique<SequenceSet>(std::move(documents), std::move(numbers), data);
}

}  // namespace

DataSets::DataSets(const RunSpec& spec, const ModelConfig& config, const path& run_folder,
                   const FileDigestOf& digest_of) {
  const int64_t vocab_size = config.vocab_size;
  if (needs_tokenizer(spec.data.kind)) check_tokenizer(spec, vocab_size);
  const path file = training_file(spec.data);
  const auto documents = open_documents(spec, file, vocab_size, run_folder, digest_of);
  std::vector<int64_t> numbers = numbers_in_order(documents->count(), spec.evaluation.split_seed);
  const int64_t held_out = held_out_rows(spec.evaluation, documents->count());
  const auto last = numbers.end() - held_out;
  if (held_out > 0) {
    validation_ = make_set(documents, std::vector<int64_t>(last, numbers.end()), spec.data, config);
  }
  numbers.erase(last, numbers.end());
  training_ = make_set(documents, std::move(numbers), spec.data, config);
  check_row_count(file, documents->count(), training_->rows(), spec);
  if (const path& data = spec.evaluation.data; !data.empty()) {
    const auto others =
        open_documents(spec, validation_file(data), vocab_size, run_folder, digest_of);
    validation_ =
        make_set(others, numbers_in_order(others->count(), std::nullopt), spec.data, config);
  }
}

}  // namespace fsdp
