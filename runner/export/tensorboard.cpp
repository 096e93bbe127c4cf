#include "contract/text/utf8.h"
#include "runner/export/exported_run.h"
#include "runner/export/moments.h"
#include "runner/export/tensorboard_file.h"

namespace fsdp {

void write_tensorboard(const Store& store, const ExportedRun& run,
                       const std::filesystem::path& folder) {
  const int64_t started_unix_ms = run.row.started_unix_ms.value_or(0);
  TensorboardFile file(
      folder / ("events.out.tfevents." + std::to_string(started_unix_ms / 1000) + ".fsdp-run"),
      started_unix_ms);
  file.add_text(started_unix_ms, "specification",
                "```yaml\n" + visible_lines(run.spec_text) + "```\n");
  for (const Moment& moment :
       moments_of(store, run.row.run, static_cast<int>(run.row.attempt.value()))) {
    file.add_scalars(moment.step, moment.time_unix_ms, moment.figures);
  }
  file.close();
}

}  // namespace fsdp
