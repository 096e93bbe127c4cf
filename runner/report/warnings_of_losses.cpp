#include "runner/report/loss_agreement.h"
#include "runner/report/names.h"
#include "runner/report/warning_checks.h"

namespace fsdp {

std::string losses_disagree(Rows rows) {
  std::vector<std::string> found;
  for (const LossAgreement& agreement : loss_agreements(rows)) {
    if (!agreement.parted_at) continue;
    found.push_back(fmt::format("{} {}, {} {} (step {})", agreement.least->point,
                                loss_in_words(agreement.least_loss), agreement.greatest->point,
                                loss_in_words(agreement.greatest_loss), *agreement.parted_at));
  }
  return joined_names(found);
}

}  // namespace fsdp
