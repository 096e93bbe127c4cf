#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "contract/record/event.h"
#include "tests/end_to_end/program.h"

// Helpers of the tests with the real trainer.
namespace fsdp {

// The base of an experiment, or the keys of a run. Its model is tiny, so it starts and trains fast.
extern const std::string kTinyRun;

// Waits for the folder of an attempt in the experiment `trial`, and returns it.
std::filesystem::path attempt_folder(const Workplace& workplace, const std::string& point,
                                     int attempt);
std::filesystem::path events_file(const std::filesystem::path& attempt_folder, int rank);
// Returns the rank's events so far, without an incomplete last line.
std::vector<Event> events_in(const std::filesystem::path& events_file);
// Waits until the rank has reported this step.
void wait_for_step(const std::filesystem::path& events_file, int64_t step);
void wait_for_file(const std::filesystem::path& file);
// Waits until the rank has reported that it finished.
void wait_for_the_end(const std::filesystem::path& events_file);

// True if all processes in the workplace's folder end soon: ranks, supervisors and all
// others. A process that only waits to be reaped has ended.
bool nobody_left_in(const Workplace& workplace);

// The environment that torchrun gives a rank.
Variables as_torchrun(int rank, int ranks, const std::string& port);

// An array [rows, columns] of the int32 `token` in NumPy's format.
void write_tokens(const std::filesystem::path& file, int rows, int columns, int token);

}  // namespace fsdp
