#include <fmt/format.h>

#include "contract/text/utf8.h"
#include "runner/export/exported_run.h"
#include "runner/export/moments.h"
#include "runner/export/tensorboard_file.h"

namespace fsdp {

void write_tensorboard(const Store& store, const ComparisonRow& run,
                       const std::filesystem::path& folder) {
  const int64_t started_unix_ms = run.started_unix_ms.value_or(0);
  TensorboardFile file(
      folder / fmt::format("events.out.tfevents.{}.fsdp-run", started_unix_ms / 1000),
      started_unix_ms);
  file.add_text(started_unix_ms, "specification",
                "```yaml\n" + visible_lines(store.spec_text(run.run)) + "```\n");
  for (const Moment& moment : moments_of(store, run.run, static_cast<int>(*run.attempt))) {
    file.add_scalars(moment.step, moment.time_unix_ms, moment.figures);
  }
  file.close();
}

}  // namespace fsdp
