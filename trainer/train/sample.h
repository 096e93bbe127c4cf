#pragma once

#include <cstdint>
#include <string>

#include "contract/record/run_paths.h"
#include "contract/spec/run_spec.h"
#include "trainer/comm/process_group.h"

namespace fsdp {

// Answers a prompt with the newest whole checkpoint of a run, by the model and the tokenizer with
// which it trains. Takes the most likely token, again and again (greedy decoding), until an
// answer's end or `tokens` tokens. The whole text is read again for each token.
//
// `spec` has the strategy single, and `world` one rank. Throws ConfigError if there is no
// checkpoint, or if its frozen weights are not those of the run's source now.
std::string sample(const RunSpec& spec, const RunPaths& paths, at::Device device,
                   ProcessGroup& world, const std::string& prompt, int64_t tokens);

}  // namespace fsdp
