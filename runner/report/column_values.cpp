#include "runner/report/column_values.h"

namespace fsdp {

std::string strategy_text(const ReportRow& row) {
  const ComparisonRow& run = *row.run;
  std::string text(name_of(run.strategy));
  if (!run.sharding.empty() && run.sharding != name_of(Sharding::kFullShard)) {
    text += ' ' + run.sharding;
  }
  if (run.offload != Offload::kNone) text += "+offload";
  if (run.offload == Offload::kParameters) text += " parameters";
  return text;
}

}  // namespace fsdp
