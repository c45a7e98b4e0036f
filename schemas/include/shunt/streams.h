/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_STREAMS_H
#define SHUNT_STREAMS_H

/** For the programs alone, and not installed. */

/**
 * Put something behind each of stdin, stdout and stderr that is closed, so that no file that is opened
 * later is taken for one of them. Writing to a stdout that was closed keeps failing, as it should: who
 * has results for it finds out.
 */
void shunt_open_streams(void);

#endif
