#include "runner/commands/refresh.h"

#include <exception>
#include <iostream>
#include <thread>

#include "runner/sweep/refresh_jobs.h"

namespace fsdp {

void refresh_jobs(Store& store, const std::filesystem::path& results) {
  if (store.open_jobs("").empty()) return;
  const Pauses pauses{.now = std::chrono::steady_clock::now,
                      .wait = [](std::chrono::milliseconds time) {
                        std::this_thread::sleep_for(time);
                        return false;
                      }};
  try {
    SlurmPrograms cluster;
    for (const std::string& experiment : refresh_free_jobs(store, results, cluster, pauses)) {
      std::cerr << "fsdp-run: Slurm does not answer; of the jobs of '" << experiment
                << "' this tells what they wrote\n";
    }
  } catch (const std::exception& error) {  // a host without Slurm, somebody else's results
    std::cerr << "fsdp-run: open jobs of Slurm cannot be asked about: " << error.what() << '\n';
  }
}

}  // namespace fsdp
