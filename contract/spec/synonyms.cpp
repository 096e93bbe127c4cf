#include "contract/spec/synonyms.h"

#include <cctype>
#include <string>

namespace fsdp {
namespace {

// Returns "bf16_mixed" for "BF16-mixed".
std::string plain(std::string_view word) {
  std::string text(word);
  for (char& letter : text) {
    letter =
        letter == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  return text;
}

}  // namespace

const std::vector<Synonym>& synonyms() {
  static const std::vector<Synonym> kSynonyms = {
      // the file's
      {"name", "experiment"},
      {"runs", "points"},
      {"grid", "product"},
      // data and model
      {"model_name", "model.source"},
      {"model_name_or_path", "model.source"},
      {"model_path", "model.source"},
      {"checkpoint_path", "model.source"},
      {"pretrained", "model.source"},
      {"model_config", "model.config"},
      {"preset", "model.config"},
      {"num_layers", "model.config.num_hidden_layers"},
      {"n_layers", "model.config.num_hidden_layers"},
      {"n_heads", "model.config.num_attention_heads"},
      {"d_model", "model.config.hidden_size"},
      {"hidden_dim", "model.config.hidden_size"},
      {"dataset", "data.train"},
      {"train_file", "data.train"},
      {"data_path", "data.train"},
      {"tokenizer_path", "data.tokenizer"},
      {"seq_len", "data.sequence_length"},
      {"seq_length", "data.sequence_length"},
      {"seqlen", "data.sequence_length"},
      {"max_seq_len", "data.sequence_length"},
      {"max_seq_length", "data.sequence_length"},
      {"max_length", "data.sequence_length"},
      {"max_len", "data.sequence_length"},
      {"block_size", "data.sequence_length"},
      {"context_length", "data.sequence_length"},
      {"packing", "data.rows"},
      // batch
      {"bs", "batch.size_per_rank"},
      {"batch_size", "batch.size_per_rank"},
      {"size", "batch.size_per_rank"},
      {"micro_batch_size", "batch.size_per_rank"},
      {"per_device_batch_size", "batch.size_per_rank"},
      {"per_device_train_batch_size", "batch.size_per_rank"},
      {"global_batch_size", "batch.total"},
      {"total_batch_size", "batch.total"},
      {"grad_accum", "batch.gradient_accumulation_steps"},
      {"grad_accumulation", "batch.gradient_accumulation_steps"},
      {"accumulation", "batch.gradient_accumulation_steps"},
      {"accumulate_grad_batches", "batch.gradient_accumulation_steps"},
      {"gradient_accumulation", "batch.gradient_accumulation_steps"},
      // strategy
      {"gpus", "strategy.ranks"},
      {"gpu", "strategy.ranks"},
      {"num_gpus", "strategy.ranks"},
      {"n_gpus", "strategy.ranks"},
      {"devices", "strategy.ranks"},
      {"world_size", "strategy.ranks"},
      {"nproc", "strategy.ranks"},
      {"nproc_per_node", "strategy.ranks"},
      {"num_processes", "strategy.ranks"},
      {"num_nodes", "slurm.nodes"},
      {"nnodes", "slurm.nodes"},
      {"sharding_strategy", "strategy.sharding"},
      {"zero_stage", "strategy.sharding"},
      {"cpu_offload", "strategy.offload"},
      {"auto_wrap_policy", "strategy.wrap.policy"},
      {"gradient_checkpointing", "activation_checkpointing.every"},
      {"checkpointing", "activation_checkpointing.every"},
      {"recompute", "activation_checkpointing.every"},
      // numbers
      {"dtype", "precision"},
      {"torch_dtype", "precision"},
      {"mixed_precision", "precision"},
      {"amp", "precision"},
      {"fp32", "precision"},
      {"bf16", "precision"},
      {"fp16", "precision"},
      // training
      {"lr", "optimizer.learning_rate"},
      {"wd", "optimizer.weight_decay"},
      {"betas", "optimizer.beta1"},
      {"eps", "optimizer.epsilon"},
      {"optim", "optimizer.kind"},
      {"grad_clip", "optimizer.gradient_clip_norm"},
      {"clip", "optimizer.gradient_clip_norm"},
      {"clip_grad_norm", "optimizer.gradient_clip_norm"},
      {"max_grad_norm", "optimizer.gradient_clip_norm"},
      {"lr_scheduler", "schedule.kind"},
      {"lr_scheduler_type", "schedule.kind"},
      {"scheduler", "schedule.kind"},
      {"warmup", "schedule.warmup_steps"},
      {"num_warmup_steps", "schedule.warmup_steps"},
      {"min_lr", "schedule.min_learning_rate"},
      {"max_iters", "train.steps"},
      {"iterations", "train.steps"},
      {"iters", "train.steps"},
      {"num_steps", "train.steps"},
      {"num_epochs", "train.epochs"},
      {"num_train_epochs", "train.epochs"},
      {"epoch", "train.epochs"},
      {"samples", "train.sequences"},
      {"num_samples", "train.sequences"},
      {"random_seed", "train.seed"},
      {"eval_steps", "evaluation.every_steps"},
      {"eval_interval", "evaluation.every_steps"},
      {"eval_data", "evaluation.data"},
      {"val_data", "evaluation.data"},
      {"save_steps", "checkpoint.every_steps"},
      {"save_interval", "checkpoint.every_steps"},
      {"save_total_limit", "checkpoint.keep"},
      {"resume_from_checkpoint", "resume"},
      {"wandb_project", "wandb.project"},
      {"threads", "threads_per_rank"},
      {"num_threads", "threads_per_rank"},
      {"env", "environment"},
      // values
      {"gpu", "cuda"},
      {"nvidia", "cuda"},
      {"float32", "fp32"},
      {"float", "fp32"},
      {"full", "fp32"},
      {"32", "fp32"},
      {"bf16", "bf16_true"},
      {"bf16", "bf16_mixed"},
      {"bfloat16", "bf16"},
      {"bfloat16", "bf16_true"},
      {"bfloat16", "bf16_mixed"},
      {"fp16", "fp16_mixed"},
      {"float16", "fp16"},
      {"float16", "fp16_mixed"},
      {"half", "fp16"},
      {"half", "fp16_mixed"},
      {"16", "fp16_mixed"},
      {"amp", "bf16_mixed"},
      {"mixed", "bf16_mixed"},
      {"zero", "fsdp"},
      {"zero2", "fsdp"},
      {"zero3", "fsdp"},
      {"deepspeed", "fsdp"},
      {"fsdp2", "fsdp"},
      {"zero2", "shard_grad_op"},
      {"zero3", "full_shard"},
      {"dp", "ddp"},
      {"data_parallel", "ddp"},
      {"none", "single"},
      {"cpu", "optimizer"},
      {"cpu", "parameters"},
      {"alpaca", "instructions"},
      {"chat", "messages"},
      {"json", "text"},
      {"csv", "text"},
  };
  return kSynonyms;
}

std::vector<std::string_view> meanings(std::string_view said) {
  const std::string word = plain(said);
  std::vector<std::string_view> meant;
  for (const Synonym& synonym : synonyms()) {
    if (synonym.said == word) meant.push_back(synonym.meant);
  }
  return meant;
}

}  // namespace fsdp
