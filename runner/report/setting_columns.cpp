#include "runner/report/column_values.h"

namespace fsdp {
namespace {

using enum Alignment;
using Run = ComparisonRow;

std::string point(const ReportRow& row) { return row.run->point; }

std::string repeats(const ReportRow& row) {
  const std::string all = std::to_string(row.series->runs.size());
  if (row.series->finished_count == row.series->runs.size()) return all;
  return std::to_string(row.series->finished_count) + " of " + all;
}

bool is_repeated(const ReportRow& row) { return row.series->runs.size() > 1; }

bool has_source(const ReportRow& row) { return !row.run->source.empty(); }

// Rows that are compared by throughput may differ in these; the reader should see it.
std::string batch(const ReportRow& row) {
  return std::to_string(row.run->batch_size_per_rank) + "x" +
         std::to_string(row.run->gradient_accumulation_steps);
}

std::vector<Column> identity_columns() {
  return {
      {"experiment", "", "Name of the experiment.", kLeft, of(&Run::experiment)},
      {"source", "source", "Whose results the run was merged from; empty: it ran here.", kLeft,
       of(&Run::source), [](auto& row) { return row.run->source; }, has_source},
      {"position", "", "Place in the experiment, from 0.", kRight, of(&Run::position)},
      {"point", "point", "Name of the point, with what a sweep varies.", kLeft, of(&Run::point),
       point},
      {"series", "", "The same without the number of the repeat.", kLeft, of(&Run::series)},
      {"repeat", "", "Number of the repeat within the series, from 0.", kRight, of(&Run::repeat)},
      {"repeats", "repeats", "Runs of the series; for people: that finished, of all.", kRight,
       [](auto& row) { return to_value(static_cast<int64_t>(row.series->runs.size())); }, repeats,
       is_repeated},
      {"run", "", "Number of the run in the database.", kRight, of(&Run::run)},
      {"hash8", "", "First digits of the run's hash.", kLeft, of(&Run::hash8)},
      {"attempt", "", "Number of the newest attempt.", kRight, of(&Run::attempt)},
      {"folder", "", "The run's folder, in the results folder.", kLeft, of(&Run::folder)},
  };
}

}  // namespace

std::vector<Column> setting_columns() {
  std::vector<Column> columns = identity_columns();
  const std::vector<Column> settings = {
      {"strategy", "strategy", "single, ddp or fsdp; for people with sharding and +offload.", kLeft,
       of(&Run::strategy), strategy_text},
      {"sharding", "", "What fsdp shards, and within how many ranks; else empty.", kLeft,
       of(&Run::sharding)},
      {"wrap", "", "What is gathered, and reduced, together.", kLeft, of(&Run::wrap)},
      {"prefetch", "", "Units that are gathered ahead.", kRight, of(&Run::prefetch)},
      {"limit_all_gathers", "", "1: a gather waits for the memory of a unit before it; 0: not.",
       kRight, of(&Run::limit_all_gathers)},
      {"offload", "", "What lives in CPU memory.", kLeft, of(&Run::offload)},
      {"ranks", "ranks", "Processes.", kRight, of(&Run::ranks),
       [](auto& row) { return std::to_string(row.run->ranks); }},
      {"batch_size_per_rank", "batch",
       "Sequences per rank and micro-batch; for people with x accumulation.", kRight,
       of(&Run::batch_size_per_rank), batch},
      {"gradient_accumulation_steps", "", "Micro-batches per optimizer step.", kRight,
       of(&Run::gradient_accumulation_steps)},
      {"total_batch", "total\nbatch", "Sequences per optimizer step, all ranks.", kRight,
       of(&Run::total_batch), [](auto& row) { return std::to_string(row.run->total_batch); },
       is_about_throughput},
      {"precision", "", "Number format of training.", kLeft, of(&Run::precision)},
      {"optimizer", "", "Kind of the optimizer.", kLeft, of(&Run::optimizer)},
      {"schedule", "", "Kind of the learning rate's schedule.", kLeft, of(&Run::schedule)},
      {"sequence_length", "", "Tokens per sequence.", kRight, of(&Run::sequence_length)},
      {"activation_checkpointing_every", "", "Every which block is recomputed; 0: none.", kRight,
       of(&Run::activation_checkpointing_every)},
      {"memory_limit_gib", "", "Limit of the allocator, as if the card were smaller; 0: none.",
       kRight, of(&Run::memory_limit_gib)},
      {"family", "", "Runs that differ in a doubled key only; empty: none.", kLeft,
       of(&Run::family)},
      {"family_key", "", "The doubled key.", kLeft, of(&Run::family_key)},
      {"family_value", "", "The run's value of the doubled key.", kRight, of(&Run::family_value)},
      {"compare", "", "What the experiment's rows are compared by: loss or throughput.", kLeft,
       of(&Run::compare)},
      {"warmup_steps_excluded", "", "First steps left out of step-time figures.", kRight,
       of(&Run::warmup_steps_excluded)},
  };
  columns.insert(columns.end(), settings.begin(), settings.end());
  return columns;
}

std::vector<Column> provenance_columns() {
  return {
      {"device", "", "cpu or cuda.", kLeft, of(&Run::device)},
      {"device_name", "", "Name of rank 0's processor or GPU.", kLeft, of(&Run::device_name)},
      {"device_memory_bytes", "", "Memory that rank 0 may use on it.", kRight,
       of(&Run::device_memory_bytes)},
      {"other_processes", "", "Processes of others on a rank's GPU when it started, the most.",
       kRight, of(&Run::other_processes)},
      {"host", "", "Where the attempt was started.", kLeft, of(&Run::host)},
      {"slurm_job", "", "Job of Slurm that the attempt ran in.", kLeft, of(&Run::slurm_job)},
      {"node_list", "", "Nodes of that job.", kLeft, of(&Run::node_list)},
      {"started_unix_ms", "", "When the attempt was started.", kRight, of(&Run::started_unix_ms)},
      {"git_commit", "", "Commit that fsdp-run was started from.", kLeft, of(&Run::git_commit)},
      {"git_dirty", "", "1: with changes that were not committed.", kRight, of(&Run::git_dirty)},
      {"trainer_digest", "", "Digest of the trainer's binary.", kLeft, of(&Run::trainer_digest)},
      {"torch_version", "", "Version of libtorch.", kLeft, of(&Run::torch_version)},
      {"cuda_version", "", "Version of CUDA.", kLeft, of(&Run::cuda_version)},
      {"driver_version", "", "Version of the GPU's driver.", kLeft, of(&Run::driver_version)},
      {"data_digest", "", "Digest of the contents of all input files.", kLeft,
       of(&Run::data_digest)},
      {"loss_digest", "", "The same for runs whose losses must be equal.", kLeft,
       of(&Run::loss_digest)},
  };
}

}  // namespace fsdp
