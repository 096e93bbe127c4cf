#pragma once

namespace fsdp {

enum class StoreUse {
  kCreate,    // a run, and what is merged into: a database that is not there yet is made
  kExisting,  // all others: nothing is made where there is none
};

}  // namespace fsdp
