#pragma once

#include <filesystem>

#include "contract/spec/run_spec.h"
#include "trainer/checkpoint/output_file.h"
#include "trainer/checkpoint/writer_thread.h"
#include "trainer/step/training_step.h"

namespace fsdp {

// Writes the model with the adapters of `checkpoint` merged into its weights: W + scale * B A. The
// files stand in the checkpoint's folder kMergedFolder. Returns their checksums.
//
// Reads the weights again from their source, because no rank holds them whole. Quantized weights
// are dequantized. Holds one tensor at a time, on the host.
//
// A task of `thread` calls it. Throws std::runtime_error if weights cannot be read or written.
Checksums write_merged_model(const RunSpec& spec, const TrainingStep& training,
                             const std::filesystem::path& checkpoint, WriterThread& thread);

}  // namespace fsdp
