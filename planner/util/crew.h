/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_CREW_H
#define SHUNT_PLANNER_CREW_H

/**
 * Work shared among threads, each of which has an arena of its own. What is made must not depend on who makes it. An
 * allocation that fails in a thread fails in the arena that the crew is of, once all threads are done.
 *
 *     struct crew *crew = crew_open(arena, threads);
 *     crew_share(crew, count, batch, work, context);
 *     ... what is in the arenas of the workers is still there ...
 *     crew_close(crew);
 */

#include "util/arena.h"

struct crew;

/** Work on things [begin, end). No two calls at once have the same worker, nor the same arena. */
typedef void crew_work(struct arena *arena, void *context, uint32_t worker, uint32_t begin, uint32_t end);

/** No scratch arena of `arena` may be opened before this crew, and closed behind it. */
struct crew *crew_open(struct arena *arena, uint32_t threads);

/** At most so many workers; they are numbered from 0. */
uint32_t crew_size(const struct crew *crew);

void crew_share(struct crew *crew, uint32_t count, uint32_t batch, crew_work *work, void *context);

/** Give back the arenas of the workers. */
void crew_close(struct crew *crew);

#endif
