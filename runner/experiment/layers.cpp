#include "runner/experiment/layers.h"

#include <utility>

namespace fsdp {

Layers::Layers(const ExperimentFile& file, const Profile* profile, Overrides set)
    : file_(file), profile_(profile), set_(std::move(set)) {
  points_.reserve(file.points.size());
  for (const Point& point : file.points) {
    SpecDraft& draft = points_.emplace_back();
    for (const Overrides* layer : below_sweep(point)) draft.apply(*layer);
  }
}

std::vector<const Overrides*> Layers::below_sweep(const Point& point) const {
  if (!profile_) return {&file_.base, &point.overrides};
  return {&file_.base, &profile_->set, &point.overrides};
}

SpecDraft Layers::spec_draft_of(const RunOrigin& origin, std::optional<int64_t> doubled) const {
  SpecDraft draft = points_[static_cast<size_t>(origin.point - file_.points.data())];
  for (const size_t number : *origin.combination) {
    draft.apply(origin.block->values[number].overrides);
  }
  if (const auto& key = origin.block->doubled) {
    draft.apply(key->with(doubled.value_or(key->range.from)));
  }
  draft.apply(set_);
  return draft;
}

std::string Layers::place(const RunOrigin& origin, std::string key) const {
  std::vector<const Overrides*> layers = below_sweep(*origin.point);
  for (const size_t number : *origin.combination) {
    layers.push_back(&origin.block->values[number].overrides);
  }
  Overrides doubled;
  if (const auto& key = origin.block->doubled) doubled = key->with(key->range.from);
  layers.push_back(&doubled);
  layers.push_back(&set_);
  while (!key.empty()) {
    for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
      if (std::string place = (*layer)->place(key); !place.empty()) return place;
    }
    const size_t dot = key.rfind('.');
    key.resize(dot == std::string::npos ? 0 : dot);
  }
  return file_.path.string();
}

}  // namespace fsdp
