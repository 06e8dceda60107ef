// The functions of this library. Most arguments are in structs at addresses that do not change, which cost nothing per
// call, unlike arguments from Python.
#include "filters.h"
#include "stopping.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

// As Motion::is_surely_regular, at the joint positions of `state`.
EXPORT int32_t robo_rl_is_surely_regular(const Planner *planner, double limit) {
  Motion motion(*planner);
  Frame frame;
  motion.place(planner->state, frame);
  return motion.is_surely_regular(limit);
}

// As StopPlanner.plan. Plans for `wanted`; the answer is as that of Question::plan.
EXPORT int32_t robo_rl_plan(const Planner *planner) { return Question(*planner).plan(planner->wanted); }

// As StopPlanner.nearest. Replaces `wanted` and writes `stop`; the answer is as that of Question::nearest.
EXPORT int32_t robo_rl_nearest(const Planner *planner) {
  return Question(*planner).nearest(planner->wanted, planner->stop);
}

// Whether the arm keeps clear on a path (count x joints) from `joints`, on which the joints travel `travel` (joints); the
// answer is as that of Surroundings::keep.
EXPORT int32_t robo_rl_keep(const Distances *distances, const double *joints, const double *path, int32_t count,
                            const double *travel) {
  return Surroundings(*distances, joints).keep(path, count, travel);
}

// Filters `action`; the answer is as that of apply().
EXPORT int32_t robo_rl_filter(Filters *filters) { return apply(*filters); }
