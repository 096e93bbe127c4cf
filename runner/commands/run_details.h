#pragma once

#include <span>

#include "runner/report/report.h"
#include "runner/store/store.h"

namespace fsdp {

// Returns the page's details for the first kMostDetailedRuns of `runs`.
HtmlDetail read_html_detail(Store& store, std::span<const ComparisonRow* const> runs);

}  // namespace fsdp
