// Chooses the batches of a run that may take the most memory, and usual ones for its time.
#include "trainer/plan/planned_batches.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include "base/files/input_file.h"
#include "contract/record/run_paths.h"
#include "formats/inputs/hub_inputs.h"
#include "formats/inputs/inputs.h"
#include "trainer/data/batches.h"
#include "trainer/data/data_sets.h"
#include "trainer/data/full_batch.h"
#include "trainer/memory/memory_label.h"
#include "trainer/plan/caching_allocator.h"

namespace fsdp {
namespace {

using std::filesystem::path;

const at::Device kMeta(at::kMeta);

// The number of micro-batches that are examined. Later ones are assumed to be no larger.
constexpr int64_t kMostLookedAt = 2000;

// The number of usual steps, enough to find one of about median length.
constexpr int64_t kUsualSteps = 5;

// A micro-batch's place in its step. It decides whether gradients of earlier micro-batches exist,
// and whether gradients are reduced.
enum class Place { kFirst, kMiddle, kLast };

Place place_of(int64_t micro_batch, int64_t count) {
  if (micro_batch + 1 == count) return Place::kLast;
  return micro_batch == 0 ? Place::kFirst : Place::kMiddle;
}

// Returns a step that computes its first, its largest (number `largest`) and its last micro-batch.
// If the first is the largest, the second is computed, too.
PlannedStep step_of(std::vector<Batch> micro_batches, int64_t largest) {
  PlannedStep step;
  const auto count = std::ssize(micro_batches);
  for (int64_t i = 0; i < count; ++i) {
    const bool is_second = i == 1 && largest == 0;
    const bool is_computed = i == 0 || i == largest || i + 1 == count || is_second;
    (is_computed ? step.computed : step.others).push_back(std::move(micro_batches[i]));
  }
  return step;
}

PlannedStep full_step(const RunSpec& spec, const ModelConfig& config) {
  const MemoryScope scope(MemoryUse::kBatch);
  PlannedStep step;
  for (int64_t i = 0; i < *spec.batch.gradient_accumulation_steps; ++i) {
    (i < 3 ? step.computed : step.others)
        .push_back(full_batch(spec.data, config, spec.batch.size_per_rank, kMeta));
  }
  return step;
}

std::vector<Batch> full_micro_batches(const RunSpec& spec, const ModelConfig& config) {
  return std::vector<Batch>(*spec.batch.gradient_accumulation_steps,
                            full_batch(spec.data, config, spec.batch.size_per_rank, kMeta));
}

int64_t evaluation_rows(const RunSpec& spec) {
  return spec.evaluation.size_per_rank.value_or(spec.batch.size_per_rank);
}

// The bytes of batches: as requested, and as libtorch's allocator of GPU memory rounds them.
struct BatchBytes {
  int64_t requested = 0;
  int64_t rounded = 0;

  void add(const at::Tensor& tensor) {
    requested += static_cast<int64_t>(tensor.nbytes());
    rounded += CachingAllocator::rounded(static_cast<int64_t>(tensor.nbytes()));
  }

  void add(const Batch& batch) {
    add(batch.input_ids_BT);
    add(batch.labels_BT);
    if (batch.decoder_input_ids_BT.defined()) add(batch.decoder_input_ids_BT);
    if (batch.documents) {
      add(batch.documents->starts_on_device);
      add(batch.documents->position_ids_N);
    }
  }
};

// The data of a run, and the positions of its largest micro-batches.
class ReadData {
 public:
  ReadData(const RunSpec& spec, const ModelConfig& config, const path& results,
           const FileDigestOf& digest_of)
      : spec_(spec),
        sets_(spec, config, results / "runs" / "experiment" / "run", digest_of),
        sampler_(sets_.training().rows(), total_batch(spec), spec.data.shuffle, spec.train.seed) {}

  // Returns the steps with the largest micro-batches at each place.
  std::vector<std::function<PlannedStep()>> steps(const std::shared_ptr<ReadData>& self) {
    std::vector<std::function<PlannedStep()>> steps;
    for (const auto& [place, largest] : find_largest()) {
      for (const Candidate& candidate : largest) {
        steps.emplace_back([self, candidate] { return self->load(candidate); });
      }
    }
    return steps;
  }

  // True if steps() has examined every micro-batch of the run.
  bool has_seen_all() const { return has_seen_all_; }

  // Returns steps spread evenly over the run, each with the micro-batches of one rank.
  std::vector<std::function<std::vector<Batch>()>> usual_steps(
      const std::shared_ptr<ReadData>& self) {
    const int64_t rows = sets_.training().rows();
    const int64_t count = planned_steps(spec_, steps_per_epoch(rows, total_batch(spec_)));
    std::vector<std::function<std::vector<Batch>()>> steps;
    const int64_t taken = std::min(count, kUsualSteps);
    for (int64_t i = 0; i < taken; ++i) {
      steps.emplace_back([self, step = i * count / taken, rank = i % spec_.strategy.ranks] {
        return load_step(self->sets_.training(), self->sampler_, step, rank, self->spec_, kMeta)
            .micro_batches;
      });
    }
    return steps;
  }

  // Returns the largest batches of the validation set.
  std::vector<std::function<Batch()>> evaluations(const std::shared_ptr<ReadData>& self) {
    DataSet& set = *sets_.validation();
    const int64_t rows_per_batch = evaluation_rows(spec_);
    const int64_t most_batches = spec_.evaluation.batches.value_or(set.rows());
    const int64_t rows_read =
        std::min(set.rows(), most_batches * spec_.strategy.ranks * rows_per_batch);
    std::vector<EvaluationCandidate> largest;
    for (int64_t first = 0; first < rows_read; first += rows_per_batch) {
      std::vector<int64_t> rows(std::min(rows_per_batch, set.rows() - first));
      std::iota(rows.begin(), rows.end(), first);
      const UncountedMemory not_the_runs;
      const Size size = size_of(set.load(rows, kMeta));
      add_candidate(largest, {size, std::move(rows)});
    }
    std::vector<std::function<Batch()>> evaluations;
    for (const EvaluationCandidate& candidate : largest) {
      evaluations.emplace_back(
          [self, rows = candidate.rows] { return self->sets_.validation()->load(rows, kMeta); });
    }
    return evaluations;
  }

 private:
  // The quantities with which a micro-batch's memory grows, see size_of.
  using Size = std::array<int64_t, 8>;

  // A micro-batch that may take the most memory.
  struct Candidate {
    Size size;
    int64_t step;
    int64_t rank;
    int64_t micro_batch;
  };

  struct EvaluationCandidate {
    Size size;
    std::vector<int64_t> rows;
  };

  // `step` counts the batches that are in memory at the same time.
  Size size_of(const Batch& batch, const BatchBytes& step = {}) const {
    const BatchShape shape = shape_of(batch);
    const auto documents = std::ssize(shape.document_tokens);
    const int64_t longest = batch.documents ? batch.documents->longest : 0;
    // With train.deterministic, flash attention may take less memory for more sequences
    // (planned_attention.cpp). Then only micro-batches with equally many sequences can be compared.
    const bool takes_less_for_more = spec_.train.deterministic;
    const int64_t sequences = documents > 0 ? documents : shape.rows;
    return {shape.rows, shape.tokens,   shape.decoder_tokens, documents,
            longest,    step.requested, step.rounded,         takes_less_for_more ? -sequences : 0};
  }

  // Adds `candidate` unless another one is at least as large in every quantity. Removes candidates
  // that the new one makes unnecessary.
  template <typename Any>
  static void add_candidate(std::vector<Any>& largest, Any candidate) {
    const auto is_at_most = [](const Any& one, const Any& other) {
      return std::ranges::equal(one.size, other.size, std::less_equal());
    };
    if (std::ranges::any_of(largest,
                            [&](const Any& other) { return is_at_most(candidate, other); })) {
      return;
    }
    std::erase_if(largest, [&](const Any& other) { return is_at_most(other, candidate); });
    largest.push_back(std::move(candidate));
  }

  std::map<Place, std::vector<Candidate>> find_largest() {
    std::map<Place, std::vector<Candidate>> largest;
    const int64_t accumulation = *spec_.batch.gradient_accumulation_steps;
    const int64_t rows = sets_.training().rows();
    const int64_t steps = planned_steps(spec_, steps_per_epoch(rows, total_batch(spec_)));
    int64_t looked_at = 0;
    for (int64_t step = 0; step < steps; ++step) {
      for (int64_t rank = 0; rank < spec_.strategy.ranks; ++rank) {
        if (looked_at >= kMostLookedAt) {
          has_seen_all_ = false;
          return largest;
        }
        looked_at += accumulation;
        add_step(step, rank, largest);
      }
    }
    return largest;
  }

  void add_step(int64_t step, int64_t rank, std::map<Place, std::vector<Candidate>>& largest) {
    const UncountedMemory not_the_runs;
    const int64_t accumulation = *spec_.batch.gradient_accumulation_steps;
    std::vector<Batch> batches;
    BatchBytes bytes;
    for (const auto& rows : sampler_.rank_rows(step, rank, spec_.strategy.ranks,
                                               spec_.batch.size_per_rank, accumulation)) {
      bytes.add(batches.emplace_back(sets_.training().load(rows, kMeta)));
    }
    for (int64_t i = 0; i < accumulation; ++i) {
      add_candidate(largest[place_of(i, accumulation)],
                    Candidate{size_of(batches[i], bytes), step, rank, i});
    }
  }

  PlannedStep load(const Candidate& largest) {
    const MemoryScope scope(MemoryUse::kBatch);
    StepBatches batches =
        load_step(sets_.training(), sampler_, largest.step, largest.rank, spec_, kMeta);
    return step_of(std::move(batches.micro_batches), largest.micro_batch);
  }

  const RunSpec spec_;
  DataSets sets_;
  Sampler sampler_;
  bool has_seen_all_ = true;
};

// True if rows are not all padded to full length, and their lengths can be read now: from token
// files or prepared files. They cannot if an input is not fetched.
bool has_widths(const RunSpec& spec, const path& results, const FileDigestOf& digest_of) {
  const auto is_prepared = [&](const path& file) {
    const path prepared = prepared_folder(results);
    return std::filesystem::is_directory(prepared) &&
           whole_prepared_file(prepared / prepared_name(data_source(spec, file), digest_of));
  };
  if (spec.data.rows == RowFill::kPad || !hub_inputs(spec).empty()) return false;
  if (!needs_tokenizer(spec.data.kind)) return true;
  const path& validation = spec.evaluation.data;
  return is_prepared(training_file(spec.data)) &&
         (validation.empty() || is_prepared(validation_file(validation)));
}

}  // namespace

PlannedBatches planned_batches(const RunSpec& spec, const ModelConfig& config, const path& results,
                               const FileDigestOf& digest_of) {
  PlannedBatches batches;
  if (has_widths(spec, results, digest_of)) {
    const auto data = std::make_shared<ReadData>(spec, config, results, digest_of);
    batches.steps = data->steps(data);
    if (!data->has_seen_all()) {
      batches.assumptions.push_back("no micro-batch after the first " +
                                    std::to_string(kMostLookedAt) +
                                    " has longer rows than these have");
    }
    batches.usual_steps = data->usual_steps(data);
    if (wants_evaluations(spec)) batches.evaluations = data->evaluations(data);
    return batches;
  }
  batches.steps.emplace_back([=] { return full_step(spec, config); });
  batches.usual_steps.emplace_back([=] { return full_micro_batches(spec, config); });
  if (wants_evaluations(spec)) {
    batches.evaluations.emplace_back(
        [=] { return full_batch(spec.data, config, evaluation_rows(spec), kMeta); });
  }
  if (spec.data.rows == RowFill::kPadToLongest) {
    batches.assumptions.emplace_back("every micro-batch has rows of the greatest possible length");
  }
  return batches;
}

}  // namespace fsdp
